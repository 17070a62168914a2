/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs touch, as far as they touch them. CO-RE relocates the
 * fields by name, so no vmlinux.h is needed.
 */
#ifndef REVEILLE_KERNEL_H
#define REVEILLE_KERNEL_H

#include <linux/types.h>
#include <linux/version.h>

/* A kernel thread's work: <linux/bpf.h> has it from Linux 6.10 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
struct bpf_wq {
	__u64 __opaque[2];
} __attribute__((aligned(8)));
#endif

struct gendisk {
	int major;
	int first_minor;
} __attribute__((preserve_access_index));

struct request_queue {
	struct gendisk *disk;
} __attribute__((preserve_access_index));

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
} __attribute__((preserve_access_index));

enum req_flag_bits {
	__REQ_SYNC,
	__REQ_RAHEAD,
};

struct rq {
	unsigned int nr_running;
} __attribute__((preserve_access_index));

struct cfs_rq {
	struct rq *rq;
} __attribute__((preserve_access_index));

struct sched_entity {
	struct cfs_rq *cfs_rq;
} __attribute__((preserve_access_index));

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	char comm[16];
	struct sched_entity se;
	unsigned int __state;
} __attribute__((preserve_access_index));

struct worker_pool {
	int cpu; /* -1: any */
} __attribute__((preserve_access_index));

struct pool_workqueue {
	struct worker_pool *pool;
} __attribute__((preserve_access_index));

#endif

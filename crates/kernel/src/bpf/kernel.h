/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every program begins with, and the kernel types that they use, with only the fields used: of
 * all crates, here alone. CO-RE relocates the fields by name, so no vmlinux.h is needed.
 */
#ifndef REVEILLE_KERNEL_H
#define REVEILLE_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/version.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The state with which power:cpu_idle reports the end of idle (include/trace/events/power.h). */
#define PWR_EVENT_EXIT ((unsigned int)-1)

/* A kernel thread's work: <linux/bpf.h> has it since Linux 6.10. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
struct bpf_wq {
	__u64 __opaque[2];
} __attribute__((aligned(8)));
#endif

enum cpuhp_state {
	CPUHP_ONLINE,
};

enum req_flag_bits {
	__REQ_SYNC,
	__REQ_RAHEAD,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef __s64 ktime_t;

struct timerqueue_node {
	ktime_t expires;
};

/* Registers of the HPET: the kernel maps them. */
struct hpet {
	__u64 hpet_cap;
	union {
		__u32 _hpet_mc32;
	} _u0;
};

struct hpet_timer {
	union {
		__u32 _hpet_hc32;
	} _u1;
};

struct hpet_dev {
	struct hpet *hd_hpet;
	struct hpet_timer *hd_timer;
};

struct hrtimer_cpu_base {
	unsigned int cpu;
	unsigned int hres_active : 1;
	ktime_t expires_next;
};

struct hrtimer_clock_base {
	struct hrtimer_cpu_base *cpu_base;
	ktime_t offset;
};

struct hrtimer {
	struct timerqueue_node node;
	ktime_t _softexpires;
	void *function;
	struct hrtimer_clock_base *base;
	__u8 is_soft;
};

struct task_struct;

struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
};

struct pid;

struct k_itimer {
	struct pid *it_pid;
	union {
		struct {
			struct hrtimer timer;
		} real;
	} it;
};

struct signal_struct {
	struct pid *pids[4];
	struct hrtimer real_timer;
};

struct timer_list {
	void *function;
};

struct process_timer {
	struct timer_list timer;
	struct task_struct *task;
};

struct work_struct {
	void *func;
};

struct delayed_work {
	struct work_struct work;
	struct timer_list timer;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct rq {
	unsigned int nr_running;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	unsigned int __state;
	int exit_state;
	struct sched_entity se;
	unsigned int policy;
	struct task_struct *group_leader;
	int on_cpu;
	int wake_cpu;
	char comm[16];
	struct css_set *cgroups;
};

struct worker_pool {
	int cpu; /* -1: any */
};

struct pool_workqueue {
	struct worker_pool *pool;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
};

struct bpf_iter__task {
	struct task_struct *task;
};

struct net {
	struct {
		unsigned int inum;
	} ns;
};

struct net_device {
	struct {
		struct net *net;
	} nd_net;
	int ifindex;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	__be16 protocol;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

#pragma clang attribute pop

static __always_inline bool is_idle_task(void)
{
	return !bpf_get_current_pid_tgid();
}

#endif

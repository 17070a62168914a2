/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs touch, as far as they touch them. CO-RE relocates the
 * fields by name, so no vmlinux.h is needed.
 */
#ifndef REVEILLE_KERNEL_H
#define REVEILLE_KERNEL_H

#include <linux/types.h>

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

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	char comm[16];
} __attribute__((preserve_access_index));

#endif

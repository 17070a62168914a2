/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that the programs use, with only the fields used. CO-RE relocates the fields by
 * name, so no vmlinux.h is needed.
 */
#ifndef REVEILLE_KERNEL_H
#define REVEILLE_KERNEL_H

#include <linux/types.h>

typedef __s64 ktime_t;

struct timerqueue_node {
	ktime_t expires;
} __attribute__((preserve_access_index));

struct hrtimer_clock_base {
	ktime_t offset;
} __attribute__((preserve_access_index));

struct hrtimer {
	struct timerqueue_node node;
	ktime_t _softexpires;
	void *function;
	struct hrtimer_clock_base *base;
	__u8 is_soft;
} __attribute__((preserve_access_index));

struct task_struct;

struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
} __attribute__((preserve_access_index));

struct pid;

struct k_itimer {
	struct pid *it_pid;
	union {
		struct {
			struct hrtimer timer;
		} real;
	} it;
} __attribute__((preserve_access_index));

struct signal_struct {
	struct pid *pids[4];
	struct hrtimer real_timer;
} __attribute__((preserve_access_index));

struct timer_list {
	void *function;
} __attribute__((preserve_access_index));

struct process_timer {
	struct timer_list timer;
	struct task_struct *task;
} __attribute__((preserve_access_index));

struct work_struct {
	void *func;
} __attribute__((preserve_access_index));

struct delayed_work {
	struct work_struct work;
	struct timer_list timer;
} __attribute__((preserve_access_index));

struct task_struct {
	int pid;
	int tgid;
	char comm[16];
} __attribute__((preserve_access_index));

#endif

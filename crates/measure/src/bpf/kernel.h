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

struct hrtimer_cpu_base {
	unsigned int cpu;
	unsigned int hres_active : 1;
	ktime_t expires_next;
} __attribute__((preserve_access_index));

struct hrtimer_clock_base {
	struct hrtimer_cpu_base *cpu_base;
} __attribute__((preserve_access_index));

struct hrtimer {
	struct timerqueue_node node;
	struct hrtimer_clock_base *base;
} __attribute__((preserve_access_index));

enum cpuhp_state {
	CPUHP_ONLINE,
};

#endif

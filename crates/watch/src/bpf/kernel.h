/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every program begins with, and the kernel types that they use, with only the fields used.
 * CO-RE relocates the fields by name, so no vmlinux.h is needed.
 */
#ifndef REVEILLE_KERNEL_H
#define REVEILLE_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The state with which power:cpu_idle reports the end of idle (include/trace/events/power.h). */
#define PWR_EVENT_EXIT ((unsigned int)-1)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef __s64 ktime_t;

struct timerqueue_node {
	ktime_t expires;
};

struct hrtimer_clock_base {
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

struct task_struct {
	unsigned int flags;
	int pid;
	unsigned int __state;
	int on_cpu;
	int wake_cpu;
	char comm[16];
	struct css_set *cgroups;
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

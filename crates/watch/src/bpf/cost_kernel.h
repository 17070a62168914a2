/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel types that cost.bpf.c uses besides those of kernel.h, with only the fields used. */
#ifndef REVEILLE_COST_KERNEL_H
#define REVEILLE_COST_KERNEL_H

#include "kernel.h"

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} __attribute__((preserve_access_index));

struct kernfs_node {
	__u64 id;
} __attribute__((preserve_access_index));

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct css_set {
	struct cgroup *dfl_cgrp;
} __attribute__((preserve_access_index));

/* CO-RE takes what follows three underscores for a remark: it is the kernel's task_struct. */
struct task_struct___cost {
	int pid;
	int tgid;
	unsigned int __state;
	int on_cpu;
	int wake_cpu;
	char comm[16];
	struct css_set *cgroups;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct task_struct *task;
} __attribute__((preserve_access_index));

#endif

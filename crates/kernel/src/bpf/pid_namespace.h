/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes and threads by their numbers in the PID namespace of the program that loads this: in a
 * container the kernel's own (task->tgid, bpf_get_current_pid_tgid) mean nothing, or another
 * process.
 */
#ifndef REVEILLE_PID_NAMESPACE_H
#define REVEILLE_PID_NAMESPACE_H

#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct pid_namespace {
	struct ns_common ns;
} __attribute__((preserve_access_index));

struct upid {
	int nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one for each level */
} __attribute__((preserve_access_index));

struct signal_struct___numbers {
	struct pid *pids[4];
} __attribute__((preserve_access_index));

struct task_struct___numbers {
	int pid;
	int tgid;
	struct pid *thread_pid;
	struct signal_struct___numbers *signal;
} __attribute__((preserve_access_index));

#define PIDTYPE_TGID 1		      /* include/linux/pid_types.h */
#define MAX_PID_NS_LEVEL 32	      /* include/linux/pid_namespace.h */
#define PROC_PID_INIT_INO 0xEFFFFFFCU /* include/linux/proc_ns.h: the machine's own namespace */

/* Set before loading: the inode of the program's namespace. */
const volatile unsigned int pid_namespace = PROC_PID_INIT_INO;

/* 0: it is not to be seen from the program's namespace. */
static __always_inline unsigned int number_here(struct pid *pid)
{
	if (pid_namespace == PROC_PID_INIT_INO)
		return BPF_CORE_READ(pid, numbers[0].nr);
	for (unsigned int level = 1; level <= MAX_PID_NS_LEVEL; level++) {
		struct upid *number = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid);

		if (level > BPF_CORE_READ(pid, level))
			break;
		if (BPF_CORE_READ(number, ns, ns.inum) == pid_namespace)
			return BPF_CORE_READ(number, nr);
	}
	return 0;
}

static __always_inline unsigned int process_here(void *task)
{
	struct task_struct___numbers *numbered = task;

	if (pid_namespace == PROC_PID_INIT_INO)
		return BPF_CORE_READ(numbered, tgid);
	return number_here(BPF_CORE_READ(numbered, signal, pids[PIDTYPE_TGID]));
}

static __always_inline unsigned int thread_here(void *task)
{
	struct task_struct___numbers *numbered = task;

	if (pid_namespace == PROC_PID_INIT_INO)
		return BPF_CORE_READ(numbered, pid);
	return number_here(BPF_CORE_READ(numbered, thread_pid));
}

#endif

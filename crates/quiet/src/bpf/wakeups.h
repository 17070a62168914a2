/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The events that the programs send; times are CLOCK_MONOTONIC, ns. The Rust types come from the
 * object's BTF.
 */
#ifndef REVEILLE_WAKEUPS_H
#define REVEILLE_WAKEUPS_H

enum kind {
	/* The CPU enters an idle state that does not poll, and leaves it. */
	EVENT_SLEEP = 1,
	EVENT_WAKE,
	/* `who` becomes runnable: by the timer of its sleep or wait, to which its timer slack
	 * applies; by another timer; by another interrupt; by `waker`. */
	EVENT_SLEEP_TIMER,
	EVENT_TIMER,
	EVENT_INTERRUPT,
	EVENT_TASK,
	/* The idle task is replaced by `who`. */
	EVENT_RUN,
};

/* A thread. */
struct who {
	unsigned int thread;
	unsigned int process;
	/* Its cgroup's number. */
	unsigned long long cgroup;
	/* Its process's name. */
	char name[16];
	unsigned int kernel;
	/* SCHED_* of <linux/sched.h>. */
	unsigned int policy;
};

struct event {
	unsigned long long time;
	/* Of EVENT_SLEEP_TIMER: when it was due, and by how much it could be delayed. */
	unsigned long long due;
	unsigned long long slack;
	unsigned int cpu;
	enum kind kind;
	struct who who;
	struct who waker;
};

/* A CPU; only the CPU itself writes it. */
struct cpu {
	/* The hrtimer that runs now. */
	unsigned long long function;
	unsigned long long soft;
	unsigned long long hard;
	unsigned int in_hrtimer;
	unsigned int in_timer;
	/* The last event of the two; 0: none yet. */
	unsigned int state;
} __attribute__((aligned(64)));

#endif

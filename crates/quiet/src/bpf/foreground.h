/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the foreground waits, and for what. The Rust types come from the object's BTF.
 */
#ifndef REVEILLE_FOREGROUND_H
#define REVEILLE_FOREGROUND_H

/* Threads of the machine that are followed. */
#define THREADS 65536

/* Who made a thread runnable. */
enum waker {
	/* An interrupt, or a kernel thread. */
	WAKER_OUTSIDE,
	/* A thread of the foreground. */
	WAKER_FOREGROUND,
	/* Another thread: the background may be behind it. */
	WAKER_OTHER,
};

/* A thread's wait: by its system call and that one's first argument, such as a descriptor. */
struct wait {
	unsigned int thread;
	int call;
	unsigned long long object;
};

/* How such waits ended. */
struct ends {
	unsigned int count;
	/* A bit for each of the last ones, 1: WAKER_OTHER. */
	unsigned char others;
};

/* What a thread counts as. */
enum state {
	/* It does not belong to the foreground. */
	STATE_ELSEWHERE,
	STATE_AWAKE,
	/* It waits for something else than the background. */
	STATE_WAITS,
	/* It waits for what the background could have. */
	STATE_MAY_WAIT,
};

/* A thread of this machine. */
struct thread {
	struct wait wait;
	/* The cgroup of which it was last checked whether it belongs to the foreground. */
	unsigned long long cgroup;
	/* enum state */
	unsigned int state;
};

struct cpu {
	unsigned char in_timer;
	unsigned char in_interrupt;
	/* The softirq that runs, from 1. */
	unsigned char softirq;
	/* Who raised each. */
	unsigned char raised[10];
} __attribute__((aligned(64)));

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The data exchanged between cost.bpf.c and the program; the Rust types come from the BTF. */
#ifndef REVEILLE_COST_H
#define REVEILLE_COST_H

/* Idle states per CPU: CPUIDLE_STATE_MAX is 10. */
#define STATES 16

/*
 * Places in the tables: the state of the CPU that a wake-up met. The program assigns a place to
 * each name of an idle state.
 */
#define PLACE_AWAKE 0 /* in the idle loop, between two idle states */
#define PLACE_BUSY 1  /* running another task, or the waker itself */
#define PLACE_OTHER 2 /* an idle state without its own place */
#define FIRST_STATE_PLACE 3
#define PLACES 16
/* A flag of a place: the CPU polls, and serves interrupts without leaving the state. */
#define POLLING 0x80

/* Of histogram.h, up to 2^36 ns (69 s). */
#define EXPONENTS 36
#define BUCKETS 288

/* What issued a wake-up: the upper byte of a cause; the rest is the device's IRQ. */
enum cause_kind {
	CAUSE_TASK = 0,
	CAUSE_TIMER = 1,
	CAUSE_DEVICE = 2,
	CAUSE_CALL = 3, /* another CPU's request, by interrupt or flag */
	CAUSE_OTHER = 4,
};
#define CAUSE_SHIFT 24

/* Which tasks are followed. */
enum follow {
	FOLLOW_PROCESS = 0, /* a process, and the processes that it forks from now on */
	FOLLOW_CGROUP = 1,
	FOLLOW_ALL = 2,
};

/* Waits that met a CPU in one place. Times in ns. */
struct waits {
	unsigned long long count;
	/* Waits for which the instant of the event that woke the CPU is unknown. */
	unsigned long long unknown;
	unsigned long long leaving_ns;
	unsigned long long scheduling_ns;
	unsigned long long queueing_ns;
	unsigned long long longest_ns; /* leaving */
	/* Time in the idle state, from its entry to the event that ended it. */
	unsigned long long stay_ns;
	unsigned long long reserved;
};

/* The size of the table of pairs. */
#define PAIRS 16384

/* Names as padded by the kernel; the waker's is empty for an interrupt. */
struct pair {
	char waker[16];
	char wakee[16];
	unsigned int cause;
	unsigned int reserved;
} __attribute__((aligned(8)));

struct pair_waits {
	unsigned long long wakeups;
	unsigned long long asleep; /* met a sleeping CPU */
	unsigned long long leaving_ns;
	unsigned long long scheduling_ns;
	unsigned long long queueing_ns;
	unsigned long long longest_ns;
};

/* A waker's stacks. */
struct stack_key {
	int kernel_stack;
	int user_stack;
	/* In the program's PID namespace; 0: not in it. */
	unsigned int process;
	unsigned int place;
	struct pair pair;
};

struct stack_waits {
	unsigned long long wakeups;
	unsigned long long waited_ns;
};

/* Counts of each CPU. */
struct counts {
	/* All wake-ups issued here. */
	unsigned long long issued;
	/* Followed wake-ups that ended here. */
	unsigned long long wakeups;
	unsigned long long asleep;
	/* Met a polling CPU. */
	unsigned long long polling;
	/* Ran here, but were woken for another CPU; their wait counts as queueing. */
	unsigned long long moved;
	/* The thread with the largest total loss of those that ran here. */
	unsigned long long most_ns;
	unsigned int most_pid;
	char most_comm[16];
};

/* Rare events, on all CPUs. */
struct missed {
	/* The task ran without a sched_switch event, or on a CPU that had gone to sleep before the
	 * programs were attached: not among the wake-ups. */
	unsigned long long unseen;
	unsigned long long pairs_full;
	unsigned long long stacks_full;
	unsigned long long stacks_failed;
	/* Tasks that could not be followed, because there was no memory. */
	unsigned long long unfollowed;
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What crosses between cost.bpf.c and the program; the program takes the types from the BTF. */
#ifndef REVEILLE_COST_H
#define REVEILLE_COST_H

/* Indices of idle states that are told apart per CPU: CPUIDLE_STATE_MAX is 10. */
#define STATES 16

/*
 * Places in the tables: where the CPU was that a wake-up met. The program gives each name of an
 * idle state a place.
 */
#define PLACE_AWAKE 0 /* in the idle loop, between two idle states */
#define PLACE_BUSY 1  /* running another task, or the waker itself */
#define PLACE_OTHER 2 /* an idle state that has no place of its own */
#define FIRST_STATE_PLACE 3
#define PLACES 16
/* Beside a place: a state in which the CPU polls, and an interrupt is served without leaving it. */
#define POLLING 0x80

/* Eight buckets for each power of two, up to 2^36 ns (69 s): a bucket is at most 12.5 % wide. */
#define BUCKETS 288

/* Who issued a wake-up. The number is the upper byte of a cause; the rest is the device's IRQ. */
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
	FOLLOW_PROCESS = 0, /* a process, and what it forks from now on */
	FOLLOW_CGROUP = 1,
	FOLLOW_ALL = 2,
};

/* Waits that met a CPU in one place. Times in ns. */
struct waits {
	unsigned long long count;
	/* Of these, where the instant of the event that woke the CPU is not known. */
	unsigned long long unknown;
	unsigned long long leaving_ns;
	unsigned long long scheduling_ns;
	unsigned long long queueing_ns;
	unsigned long long longest_ns; /* leaving */
	/* In the idle state, from its entry to the event that ended it. */
	unsigned long long stay_ns;
	unsigned long long reserved;
};

/* Pairs that are told apart. */
#define PAIRS 16384

/* Names, as the kernel pads them; the waker's is empty for an interrupt. */
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
	/* By its number in the program's PID namespace; 0: it has none there. */
	unsigned int process;
	unsigned int place;
	struct pair pair;
};

struct stack_waits {
	unsigned long long wakeups;
	unsigned long long waited_ns;
};

/* What each CPU counts for itself. */
struct counts {
	/* All wake-ups issued here, of whatever task. */
	unsigned long long issued;
	/* Followed wake-ups that ended here. */
	unsigned long long wakeups;
	unsigned long long asleep;
	/* Met a CPU that polled. */
	unsigned long long polling;
	/* Ran here, and had been woken for another CPU; their wait counts as queueing. */
	unsigned long long moved;
	/* The thread that lost most in all, of those that ran here. */
	unsigned long long most_ns;
	unsigned int most_pid;
	char most_comm[16];
};

/* What seldom happens; of all CPUs. */
struct missed {
	/* Task ran without a sched_switch that says so, or on a CPU that had gone to sleep before
	 * the programs came: not among the wake-ups. */
	unsigned long long unseen;
	unsigned long long pairs_full;
	unsigned long long stacks_full;
	unsigned long long stacks_failed;
	/* Tasks that could not be followed, for want of memory. */
	unsigned long long unfollowed;
};

#endif

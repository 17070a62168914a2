/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What crosses between the live view's BPF programs and the program that shows it; times are
 * CLOCK_MONOTONIC, ns. The program's types come from the object's BTF, which has no macros: MAX_*,
 * BUCKETS and BUCKETS_PER_OCTAVE stand in live/kernel.rs, too.
 */
#ifndef REVEILLE_LIVE_H
#define REVEILLE_LIVE_H

/* CPUIDLE_STATE_MAX of the kernel; the state that is entered without a driver has index 1. */
#define MAX_STATES 10

/* Hardware counters that are read on each CPU. */
#define MAX_COUNTERS 16
/* In the place of a counter that could not be read. */
#define COUNTER_UNREADABLE (~0ULL)

/*
 * A histogram's buckets: values below 8 each their own, then eight to an octave up to 2^27 ns
 * (134 ms), so that a bucket is at most 1/8 wide.
 */
#define BUCKETS_PER_OCTAVE 8
#define BUCKETS 200

/* What ended an idle period. */
enum cause {
	CAUSE_NONE,
	CAUSE_DEVICE,
	CAUSE_TIMER,
	/* An interrupt by another CPU, or by this one. */
	CAUSE_CALL_FUNCTION,
	CAUSE_RESCHEDULE,
	/* Another CPU wrote the flag that this one monitors or polls: no interrupt. */
	CAUSE_FLAG,
	CAUSE_IRQ_WORK,
	CAUSE_OTHER,
};

/* Who sent a message to a CPU; written by the sender. */
struct sender {
	/* The receiver's idle period in which it was sent; written last. */
	unsigned long long period;
	unsigned long long time;
	/* What is to be called there; 0 if only rescheduling. */
	unsigned long long function;
	unsigned int pid;
	unsigned int by_flag;
	char command[16];
};

/* A timer that expired: its function and who set it. */
struct owner {
	unsigned long long function;
	unsigned int pid;
	unsigned int known;
	char command[16];
};

/* One CPU's present idle period; from the wake-up on, the last one. Only the CPU itself writes it,
 * the senders aside. */
struct cpu {
	/* Odd while the CPU settles one period and begins the next. */
	unsigned int seq;
	int state;
	/* Idle states entered so far; the present period's number. */
	unsigned long long period;
	/* 0 before the first entry. */
	unsigned long long tbi;
	/* 0 while asleep. */
	unsigned long long tai;
	/* The first interrupt. */
	unsigned long long tintr;
	/* Interrupts in the period: more than one only while polling. */
	unsigned int interrupts;
	unsigned int nmis;
	enum cause cause;
	unsigned int irq;
	/* What comes from now on has nothing to do with this period. */
	unsigned int closed;
	/* A timer ran that was due before the period began. */
	unsigned int overdue;
	/* Of the timers that the first interrupt ran, the first to be due. */
	unsigned long long expires;
	struct owner hrtimer;
	/* The first timer of the timer wheel that it ran: the tick's reason. */
	struct owner wheel;

	/* Periods that somebody ended. */
	unsigned long long wakeups;
	/* Of them, those that a timer ended, and of these, those that gave a latency. */
	unsigned long long by_timer;
	unsigned long long latencies;

	/* Counters as read at the first idle entry or tick after the program asked. */
	unsigned long long sampled;
	unsigned long long sampled_at;
	unsigned long long counters[MAX_COUNTERS];

	/* The first message that came while it slept, and the last one that came while it did not:
	 * its interrupt may arrive in the sleep that follows. */
	struct sender sender __attribute__((aligned(64)));
	struct sender late;
} __attribute__((aligned(64)));

/* One idle state of one CPU, since the programs were attached. */
struct tally {
	unsigned long long uses;
	unsigned long long time;
	unsigned long long latency_count;
	unsigned long long latency_sum;
	unsigned long long latency_max;
	unsigned int latencies[BUCKETS];
};

/* Who ended idle periods of a CPU. */
struct waker {
	unsigned int cpu;
	enum cause cause;
	/* The timer's function or what was called; 0 where there is none. */
	unsigned long long function;
	/* A device's interrupt. */
	unsigned int irq;
	/* Where `command` is empty: who set the timer. */
	unsigned int pid;
	/* Who set the timer or sent the message. */
	char command[16];
};

struct woken {
	unsigned long long times;
	/* The last of those of that command. */
	unsigned int pid;
};

#endif

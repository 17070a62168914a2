/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The data exchanged between the live view's BPF programs and the program; times are
 * CLOCK_MONOTONIC, ns. The Rust types come from the object's BTF, which has no macros: MAX_* are
 * also defined in live/kernel.rs.
 */
#ifndef REVEILLE_LIVE_H
#define REVEILLE_LIVE_H

/* The kernel's CPUIDLE_STATE_MAX; the state entered without a driver has index 1. */
#define MAX_STATES 10

/* Hardware counters per CPU. */
#define MAX_COUNTERS 16
/* The value of a counter that could not be read. */
#define COUNTER_UNREADABLE (~0ULL)

/* Of histogram.h, up to 2^27 ns (134 ms). */
#define EXPONENTS 27
#define BUCKETS 200

/* What ended an idle period. */
enum cause {
	CAUSE_NONE,
	CAUSE_DEVICE,
	CAUSE_TIMER,
	/* An interrupt by another CPU, or by this one. */
	CAUSE_CALL_FUNCTION,
	CAUSE_RESCHEDULE,
	/* Another CPU wrote the flag that this one monitors or polls, without an interrupt. */
	CAUSE_FLAG,
	CAUSE_IRQ_WORK,
	CAUSE_OTHER,
};

/* The sender of a message to a CPU; written by the sender. */
struct sender {
	/* The receiver's idle period in which it was sent; written last. */
	unsigned long long period;
	unsigned long long time;
	/* The function to be called there; 0: only rescheduling. */
	unsigned long long function;
	unsigned int pid;
	unsigned int by_flag;
	char command[16];
};

/* An expired timer: its function and the thread that set it. */
struct owner {
	unsigned long long function;
	unsigned int pid;
	unsigned int known;
	char command[16];
};

/* A CPU's current idle period; from the wake-up on, the last one. Only the CPU itself writes it,
 * except `sender` and `late`. */
struct cpu {
	/* Odd while the CPU settles one period and begins the next. */
	unsigned int seq;
	int state;
	/* Idle states entered so far: the current period's number. */
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
	/* Later interrupts do not belong to this period. */
	unsigned int closed;
	/* A timer ran that was due before the period began. */
	unsigned int overdue;
	/* The earliest expiry of the timers that the first interrupt ran. */
	unsigned long long expires;
	struct owner hrtimer;
	/* The first timer of the timer wheel that it ran: the reason of the tick. */
	struct owner wheel;

	/* Periods with a known cause of their end. */
	unsigned long long wakeups;
	/* Of them, those that a timer ended, and those of these with a latency. */
	unsigned long long by_timer;
	unsigned long long latencies;

	/* Its package's index in `joints`; 0: unknown. Written before the programs are attached. */
	unsigned int package;
	/* It is counted in `asleep` of its joints. */
	unsigned int asleep;
	/* The last period with whose end a joint sleep of the machine ended. */
	unsigned long long ended_joint;

	/* Counters, read at the first idle entry or tick after each refresh. */
	unsigned long long sampled;
	unsigned long long sampled_at;
	unsigned long long counters[MAX_COUNTERS];

	/* The first message during the sleep, and the last one before, whose interrupt may come
	 * during the sleep. */
	struct sender sender __attribute__((aligned(64)));
	struct sender late;
} __attribute__((aligned(64)));

/* An idle state of a CPU, since the programs were attached. */
struct tally {
	unsigned long long uses;
	unsigned long long time;
	unsigned long long latency_count;
	unsigned long long latency_sum;
	unsigned long long latency_max;
	unsigned int latencies[BUCKETS];
};

/* CPUs that sleep at once: the machine's, and each package's. */
struct joint {
	/* CPUs that sleep, of those that were seen to fall asleep. */
	unsigned int asleep;
	/* CPUs that are online; written by the program. */
	unsigned int cpus;
	/* Since when all sleep, or slept last. */
	unsigned long long since;
	/* When one of them woke last. */
	unsigned long long ended;
	/* Joint sleeps that ended, and their time. */
	unsigned long long times;
	unsigned long long time;
	/* Their lengths, in units of 2^10 ns; the last bucket has all longer ones (from 137 s on).
	 */
	unsigned int lengths[BUCKETS];
} __attribute__((aligned(64)));

/* What ended idle periods of a CPU. */
struct waker {
	unsigned int cpu;
	enum cause cause;
	/* The timer's function or the called one; 0: none. */
	unsigned long long function;
	/* A device's interrupt. */
	unsigned int irq;
	/* The process that set the timer, if `command` is empty. */
	unsigned int pid;
	/* The command that set the timer or sent the message. */
	char command[16];
};

struct woken {
	unsigned long long times;
	/* Of them, those that ended a joint sleep of the machine. */
	unsigned long long joint;
	/* The last process of that command. */
	unsigned int pid;
};

#endif

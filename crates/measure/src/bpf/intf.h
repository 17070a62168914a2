/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The data exchanged between wake.bpf.c and the program. The Rust types come from the compiled
 * object's BTF, so this is the only definition.
 * Times are CLOCK_MONOTONIC, ns, the clock of hrtimers.
 */
#ifndef REVEILLE_WAKE_INTF_H
#define REVEILLE_WAKE_INTF_H

#define MAX_COUNTERS 16
/* The value of a counter that cannot be read on this CPU. */
#define COUNTER_UNREADABLE (~0ULL)
/* Launch distances, drawn by the program and used cyclically; a power of two. */
#define DISTANCES 8192

/* What is read before each idle period for cold caches, by block: a map's value has a limit (4 MiB
 * before 6.9). */
#define COLD_BLOCK_SIZE (64 << 10)
/* Apart by the smallest line of a cache that Linux runs on today; larger ones are read several
 * times. */
#define COLD_LINE_SIZE 64

/* Repetitions of each step whose cost is measured. */
#define COST_ROUNDS 1000

enum source {
	SOURCE_TIMER,
	SOURCE_REMOTE,
	/* A device's interrupt, whose launch time is known when it is served. */
	SOURCE_DEVICE,
	/* The interrupt of a network card for the reply to a ping: the program knows the launch
	   time. */
	SOURCE_REPLY,
	/* The same of its interrupt at a target time of its clock. */
	SOURCE_NIC,
};

/* The interrupt whose entry was seen. */
enum vector {
	VECTOR_NONE,
	VECTOR_LOCAL_TIMER,
	/* The timer's expiry, if the timer's interrupt has no tracepoint. */
	VECTOR_TIMER_EXPIRY,
	VECTOR_CALL_FUNCTION_SINGLE,
	VECTOR_CALL_FUNCTION,
	VECTOR_RESCHEDULE,
	VECTOR_IRQ_WORK,
	/* An inter-processor interrupt, on architectures with one tracepoint for all. */
	VECTOR_IPI,
	VECTOR_DEVICE,
	/* The interrupt of the source's device. */
	VECTOR_SOURCE,
	VECTOR_OTHER,
};

/* Dropped launches, by reason. */
struct drops {
	/* The CPU was not idle at the launch: TBI < LT < first of (TAI, TIntr) fails. */
	unsigned long long not_idle;
	/* Another interrupt came between TBI and the end. */
	unsigned long long other_interrupt;
	/* The CPU's own timer was due before the launch: the CPU began to wake before LT. */
	unsigned long long earlier_timer;
	/* The source's interrupt was not seen. */
	unsigned long long no_interrupt;
	/* The same interrupt announced another packet before the reply. */
	unsigned long long other_packet;
	unsigned long long nmi;
	unsigned long long smi;
	unsigned long long ring_full;
};

/* A counter's value just before TBI and after TAI. */
struct counted {
	unsigned long long before;
	unsigned long long after;
};

/* One wake-up, uncorrected. Only the counters that are read are sent. */
struct event {
	/* Before idle, after idle, at the first interrupt; 0: not seen. */
	unsigned long long tbi;
	unsigned long long tai;
	unsigned long long tintr;
	/* cpuidle's index; -1: the CPU was awake (floor). */
	int state;
	enum vector vector;
	unsigned short interrupts;
	unsigned short softirqs;
	unsigned short nmis;
	/* Another CPU wrote the monitored flag instead of sending an interrupt. */
	unsigned char by_flag;
	/* The number of the idle entry, from 1; 0: none was seen (floor). */
	unsigned long long entry;
	/* The instant for which the wake-up was armed, and when it was armed. */
	unsigned long long launch;
	unsigned long long armed_at;
	/* The true launch time is within this of `launch`, ns. */
	unsigned long long launch_error;
	/* The launch by the device's own clock, in its steps. */
	unsigned long long launch_clock;
	/* When the CPU's own timer was due, read as the idle period began. */
	unsigned long long timer_due;
	/* The launch's number (of a reply: its identifier and number), where it has no time yet. */
	unsigned int number;
	struct counted counters[MAX_COUNTERS];
};

/* A wake-up that is armed and not settled. */
struct launch {
	unsigned long long time;
	unsigned long long armed_at;
	unsigned long long error;
	unsigned long long clock;
	unsigned int pending;
	unsigned int by_flag;
	unsigned int number;
	/* Of the card, in the same interrupt before the reply. */
	unsigned int packets;
	/* Its interrupt found the CPU awake. */
	unsigned int found_awake;
};

/*
 * All data that the probes access at every wake-up, in one place: the CPU's caches are cold then,
 * and each line is a miss.
 */
struct hot {
	struct launch armed;
	/* The timer's or device's launch that fired, until it is settled. */
	struct launch fired;
	/* When its callback or handler ended, and how many softirqs had begun by then. */
	unsigned long long fired_until;
	unsigned int fired_softirqs;
	unsigned int idle;
	/* Launches on an awake CPU count: the floor without a poll state. */
	unsigned int awake_counts;
	/* Address of the measured CPU's struct hrtimer_cpu_base; 0: unknown. */
	unsigned long long timers;
	/* Of the card, since the source's interrupt. */
	unsigned int packets;
	/* The source's interrupt found the CPU awake. */
	unsigned int found_awake;
	/* The current idle period. */
	struct event now;
};

#endif

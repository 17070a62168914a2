/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What crosses between the kernel side (wake.bpf.c) and the program. Read by clang here; the Rust
 * types come from the compiled object's BTF, so there is no second description.
 * Times are CLOCK_MONOTONIC, ns: hrtimers expire by the same clock.
 */
#ifndef REVEILLE_WAKE_INTF_H
#define REVEILLE_WAKE_INTF_H

#define MAX_COUNTERS 16
/* The value of a counter that cannot be read on this CPU. */
#define COUNTER_UNREADABLE (~0ULL)
/* Launch distances are drawn by the program and used round and round; a power of two. */
#define DISTANCES 8192

/* How often each of the instrument's own steps is tried. */
#define COST_ROUNDS 1000

/* The ABI of power:cpu_idle: this state means that idle ended (include/trace/events/power.h). */
#define PWR_EVENT_EXIT ((unsigned int)-1)

enum source {
	SOURCE_TIMER,
	SOURCE_REMOTE,
};

/* Which interrupt's entry was seen. */
enum vector {
	VECTOR_NONE,
	VECTOR_LOCAL_TIMER,
	/* The timer's expiry, where the timer's interrupt has no tracepoint of its own. */
	VECTOR_TIMER_EXPIRY,
	VECTOR_CALL_FUNCTION_SINGLE,
	VECTOR_CALL_FUNCTION,
	VECTOR_RESCHEDULE,
	VECTOR_IRQ_WORK,
	/* An inter-processor interrupt of an architecture that has one tracepoint for all. */
	VECTOR_IPI,
	VECTOR_DEVICE,
	VECTOR_OTHER,
};

/* Launches that did not become datapoints, by reason. */
struct drops {
	/* The CPU was not idle when the event came: TBI < LT < first of (TAI, TIntr) fails. */
	unsigned long long not_idle;
	/* Another interrupt fell between TBI and the end. */
	unsigned long long other_interrupt;
	/* The CPU's own timer was due before the launch: the CPU began to wake before LT. */
	unsigned long long earlier_timer;
	/* The interrupt that the source makes was not seen. */
	unsigned long long no_interrupt;
	unsigned long long nmi;
	unsigned long long smi;
	unsigned long long ring_full;
};

/* A counter's value at TBI (before it) and after TAI. */
struct counted {
	unsigned long long before;
	unsigned long long after;
};

/* One wake-up as seen, uncorrected. Sent cut off after the counters that are read. */
struct event {
	/* Before idle, after idle, at the first interrupt; 0: not seen. */
	unsigned long long tbi;
	unsigned long long tai;
	unsigned long long tintr;
	/* As cpuidle numbers it; -1: the CPU was awake (floor). */
	int state;
	enum vector vector;
	unsigned short interrupts;
	unsigned short softirqs;
	unsigned short nmis;
	/* Another CPU wrote the monitored flag and sent no interrupt. */
	unsigned char by_flag;
	unsigned char source;
	/* The number of the idle entry that was seen, from 1; 0: none was (floor). */
	unsigned long long entry;
	/* The instant for which the wake-up was armed, and when it was armed. */
	unsigned long long launch;
	unsigned long long armed_at;
	/* What each is, the program knows. */
	struct counted counters[MAX_COUNTERS];
};

/* A wake-up that is on its way. */
struct launch {
	unsigned long long time;
	unsigned long long armed_at;
	unsigned int pending;
	unsigned int by_flag;
};

/*
 * What the probes touch at every wake-up, together: the CPU's caches are cold then, and each line
 * is waited for.
 */
struct hot {
	struct launch armed;
	/* The timer's launch whose interrupt came, until it is settled. */
	struct launch fired;
	/* When that one's callback was done, and how many softirqs had begun until then. */
	unsigned long long fired_until;
	unsigned int fired_softirqs;
	unsigned int idle;
	/* Launches on a CPU that is awake count: the floor where there is no poll state. */
	unsigned int awake_counts;
	/* Where the kernel keeps the measured CPU's hrtimers (struct hrtimer_cpu_base); 0: not
	 * known. */
	unsigned long long timers;
	/* When the CPU's own timer was due to interrupt it, as the present idle period began. */
	unsigned long long timer_due;
	/* What is seen in the present idle period. */
	struct event now;
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What crosses between ways.bpf.c and the benchmark; the benchmark takes the types from the BTF. */
#ifndef REVEILLE_WAYS_H
#define REVEILLE_WAYS_H

/* CPUIDLE_STATE_MAX is 10; of a power of two the verifier follows the index. */
#define STATES 16

/* Who keeps the CPU from deep states while packets come. */
enum way {
	NONE = 0,
	THREAD = 1, /* A: a thread that is woken, and sets the CPU's bound */
	TIMER = 2,  /* B: a timer that is never farther away than a deep state needs */
	WORK = 3,   /* C: a kernel thread in a loop */
};

/* The idle entries that come next after a packet. */
struct next {
	unsigned long long entries;
	/* Those for which the governor chose a state that the bound forbids. */
	unsigned long long chosen;
	/* And nothing was runnable then, so the CPU stayed in it. */
	unsigned long long stayed;
};

/* All of a turn, on the serving CPU; the benchmark begins it with zeros. */
struct sums {
	/* After a burst's first packet, and after the others. */
	struct next first;
	struct next rest;
	unsigned long long packets;
	/* By idle state, within bursts. */
	unsigned long long entries[STATES];
	unsigned long long burst_ns[STATES];
	/* Within pauses. */
	unsigned long long pause_ns[STATES];
	/* Times that the thread was woken; that the timer fired, here and elsewhere; that the loop
	 * began. */
	unsigned long long rung;
	unsigned long long fired;
	unsigned long long strayed;
	unsigned long long looped;
	/* CPU time of the loop. */
	unsigned long long loop_ns;
	/* What the kernel refused to start. */
	unsigned long long refused;
};

struct board {
	/* The present pause, CLOCK_MONOTONIC; the benchmark writes it. */
	unsigned long long pause_from;
	unsigned long long pause_until;
	/* The last packet. */
	unsigned long long last_ns;
	/* Written by the benchmark; 0: between turns. */
	unsigned int turn;
	unsigned int way;
	/* The thread was woken; the bound is in force, by the thread. */
	unsigned int called;
	unsigned int held;
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What crosses between govern.bpf.c and the program; the program takes the types from the BTF. */
#ifndef REVEILLE_GOVERN_H
#define REVEILLE_GOVERN_H

/* Rules with traffic. */
#define RULES 32

/* Of a rule and a CPU, gaps between packets that are kept, the last ones: a power of two. */
#define GAPS 32

/* What a rule asks of a packet. */
struct traffic {
	unsigned int port;     /* either end's; 0: any */
	unsigned int protocol; /* IPPROTO_TCP, ...; 0: any */
	unsigned int family;   /* of the address: 4 or 6; 0: any address */
	unsigned char address[16];
	unsigned int prefix; /* bits of the address that count */
	/* So many packets in a window; 1: any. */
	unsigned int packets;
	unsigned long long window_ns;
	/* Hold the bound also where the readers of the packets run. */
	unsigned int readers;
	unsigned int reserved;
	/* Longer gaps are kept. */
	unsigned long long gap_ns;
};

/* A gap, and how many packets had come then, the one after it included. */
struct gap {
	unsigned int us;
	unsigned int packets;
};

/* What a CPU has seen of a rule's packets. */
struct seen {
	/* CLOCK_MONOTONIC. */
	unsigned long long last_ns;
	unsigned long long packets;
	/* The present window. */
	unsigned long long window_ns;
	unsigned int in_window;
	/* So far; the next one is at this place, modulo GAPS. */
	unsigned int gaps_count;
	struct gap gaps[GAPS];
};

/* A CPU. `called` and `held` have a bit for each rule. */
struct served {
	/* The programs ask for a hold; the CPU's thread takes the bits. */
	unsigned int called;
	/* In force, or not to be, by the CPU's thread: their packets ask for nothing. */
	unsigned int held;
	/* Rules of the packet that is being handled here. */
	unsigned int now;
	unsigned int reserved;
	/* Idle entries before a bound that was asked for was in force. */
	unsigned long long late;
	struct seen seen[RULES];
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The data exchanged between path.bpf.c and the program. The Rust types come from the compiled
 * object's BTF, so this is the only definition.
 * Times are CLOCK_MONOTONIC, ns; 0: not observed.
 */
#ifndef REVEILLE_PATH_H
#define REVEILLE_PATH_H

/* The kernel's TASK_COMM_LEN. */
#define NAME_LENGTH 16

/* A CPU that was awake. */
#define AWAKE (-1)

enum follow {
	/* ICMP echo requests until their reply is handed over for transmission. */
	FOLLOW_PING,
	/* Packets that wake a reader, until its first instruction. */
	FOLLOW_SOCKET,
};

/* Why the CPU looked for packets. */
enum cause {
	CAUSE_UNSEEN,
	CAUSE_DEVICE,
	/* Another CPU handed the packet over (RPS, or a sender there). */
	CAUSE_OTHER_CPU,
	CAUSE_TIMER,
	/* Code on this CPU, without an interrupt: loopback, veth, a continued poll. */
	CAUSE_SOFTWARE,
};

/* One packet's instants. */
struct packet {
	/* Handed to the sending interface, if the sender is this machine. */
	unsigned long long sent;
	/* The receiving CPU: when it went to sleep, and its first code after that. */
	unsigned long long slept;
	unsigned long long woke;
	/* The handler of the interrupt that raised the softirq. */
	unsigned long long interrupt;
	unsigned long long softirq;
	/* The driver handed it over. */
	unsigned long long driver;
	/* It reached the protocols. */
	unsigned long long protocol;
	/* The echo reply: made, given to the driver, taken by it. */
	unsigned long long answered;
	unsigned long long transmit;
	unsigned long long transmitted;
	/* The socket had the data; its reader's wake-up began. */
	unsigned long long ready;
	unsigned long long waking;
	/* The reader's CPU: when it went to sleep, and its first code after that. */
	unsigned long long reader_slept;
	unsigned long long reader_woke;
	/* The reader was switched to, and left the kernel. */
	unsigned long long switched;
	unsigned long long returned;
	unsigned int cpu;
	/* cpuidle's index, or AWAKE. */
	int state;
	enum cause cause;
	/* The number of a device's interrupt. */
	unsigned int irq;
	/* The packet's number in this softirq, from 1. */
	unsigned int position;
	unsigned int interface;
	unsigned int length;
	unsigned int reader;
	unsigned int reader_cpu;
	int reader_state;
	/* Network byte order. */
	unsigned short identifier;
	unsigned short sequence;
	char reader_name[NAME_LENGTH];
};

/* Counts of the packets that match. */
struct counts {
	unsigned long long seen;
	/* Sent to the program. */
	unsigned long long followed;
	/* Evenly skipped, because of the rate. */
	unsigned long long left_out;
	unsigned long long fragments;
	/* No reply was sent while the request was handled. */
	unsigned long long unanswered;
	/* No reader slept: it was awake, or there is none. */
	unsigned long long nobody_woken;
	/* The reader did not return from the kernel before its next packet or the end. */
	unsigned long long not_returned;
	unsigned long long ring_full;
};

#endif

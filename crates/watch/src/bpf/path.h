/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What crosses between the kernel side (path.bpf.c) and the program. Read by clang here; the Rust
 * types come from the compiled object's BTF, so there is no second description.
 * Times are CLOCK_MONOTONIC, ns; 0: not seen.
 */
#ifndef REVEILLE_PATH_H
#define REVEILLE_PATH_H

/* TASK_COMM_LEN of the kernel. */
#define NAME_LENGTH 16

/* A CPU that was awake. */
#define AWAKE (-1)

enum follow {
	/* ICMP echo requests until their reply is handed over for transmission. */
	FOLLOW_PING,
	/* Packets that wake a reader, until its first instruction. */
	FOLLOW_SOCKET,
};

/* What made the CPU look for packets. */
enum cause {
	CAUSE_UNSEEN,
	CAUSE_DEVICE,
	/* Another CPU handed the packet over (RPS, or a sender there). */
	CAUSE_OTHER_CPU,
	CAUSE_TIMER,
	/* Code on this CPU, without an interrupt: loopback, veth, a poll that went on. */
	CAUSE_SOFTWARE,
};

/* One packet's way. */
struct packet {
	/* Handed to the sending interface, where the sender is this machine too. */
	unsigned long long sent;
	/* The receiving CPU: when it went to sleep, and its first code after that. */
	unsigned long long slept;
	unsigned long long woke;
	/* The handler of the interrupt that asked for the softirq. */
	unsigned long long interrupt;
	unsigned long long softirq;
	/* The driver handed it over. */
	unsigned long long driver;
	/* It reached the protocols. */
	unsigned long long protocol;
	/* The echo's answer: made, given to the driver, taken by it. */
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
	/* As cpuidle numbers it; AWAKE. */
	int state;
	enum cause cause;
	/* Its number, where a device's interrupt was the cause. */
	unsigned int irq;
	/* The how manieth packet of this softirq; from 1. */
	unsigned int position;
	unsigned int interface;
	unsigned int length;
	unsigned int reader;
	unsigned int reader_cpu;
	int reader_state;
	/* As on the wire. */
	unsigned short identifier;
	unsigned short sequence;
	char reader_name[NAME_LENGTH];
};

/* What became of the packets that were looked for. */
struct counts {
	unsigned long long seen;
	/* Sent to the program. */
	unsigned long long followed;
	/* There were too many in that time: left out, evenly. */
	unsigned long long left_out;
	unsigned long long fragments;
	/* No answer was sent while the request was handled. */
	unsigned long long unanswered;
	/* Nobody slept for it: its reader was awake, or there is none. */
	unsigned long long nobody_woken;
	/* Woken, and did not return from the kernel before the next packet or the end. */
	unsigned long long not_returned;
	unsigned long long ring_full;
};

#endif

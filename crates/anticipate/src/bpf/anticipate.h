/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What crosses between anticipate.bpf.c and the program; the program takes the types from the BTF.
 */
#ifndef REVEILLE_ANTICIPATE_H
#define REVEILLE_ANTICIPATE_H

#define DEVICES 16
#define OPERATIONS 2 /* 0 reads, 1 writes */
/* Keys of what disks have by device and operation; beyond them, packets and hints. */
#define OF_PACKETS (DEVICES * OPERATIONS)
#define OF_HINTS (OF_PACKETS + 1)
#define OUTCOMES (OF_HINTS + 1)
/* Network interfaces whose packets are anticipated. */
#define INTERFACES 16
/* Flows that are followed at a time; those that go longest without a packet are forgotten. */
#define FLOWS 1024
/* Networks whose hints are taken. */
#define NETS 16
/* Clients whose hints are followed, by service. */
#define HINTED 1024
/* Requests of the device in flight when one is issued: none, one, two or three, more. */
#define DEPTHS 4
/* Open windows of a CPU; those that applications announced, and those of one user's. The rest is
 * for requests. */
#define WINDOWS 16
#define WINDOWS_ANNOUNCED 12
/* Of these, those of clients on other machines: their numbers are above those of users. */
#define WINDOWS_REMOTE 8
#define WINDOWS_OF_USER 4
/* Windows for which a CPU that takes their interrupts is kept awake at a time. */
#define CLAIMS 8
/* Classes of lengths of sleep: powers of two of a µs. */
#define SLEEPS 20

/* Latencies: 32 buckets for each power of two, up to 2^36 ns; a bucket is at most 3.1% wide. */
#define LATENCIES 1056
/* Errors of the prediction, in % of what was: the last for 100 and more. */
#define ERRORS 101

/* How a CPU is kept ready. */
enum readiness {
	READY_CHOSEN = 0, /* by what naps were seen to cost */
	READY_THREAD = 1,
	READY_SOFTIRQ = 2,
	READY_NAPPING = 3, /* asleep in a shallow state, for timers that soon expire */
};

/* A window of a CPU's plan; the program's requests have no device. */
#define NO_DEVICE 0xffff
/* The device of packets. */
#define PACKETS 0xfffe

/* Who asked for it. */
struct owner {
	unsigned long long cgroup;
	/* The kernel's own number of the process; the program's, where there is no device. */
	unsigned int tgid;
	unsigned int device;
};

/* Time spent on behalf of a process, ns. */
struct charge {
	unsigned long long requests;
	unsigned long long assisted;
	unsigned long long awake_ns;
	/* By its number in the program's PID namespace; 0: it has none there. */
	unsigned int process;
	unsigned int reserved;
	char name[16];
};

/* Latencies of one device and operation, from issue until the waiting task runs again. */
struct latencies {
	unsigned long long counts[LATENCIES];
};

struct errors {
	unsigned long long counts[ERRORS];
};

/*
 * What became of the requests of one device and operation, of packets, or of hints. Those assisted:
 * in time, early or late.
 */
struct outcome {
	unsigned long long requests;
	/* Not anticipated: the model knows too little; more are in flight than it is good for; the
	 * budget is spent; the plan is full; issued by the kernel, for nobody in particular. */
	unsigned long long learning;
	unsigned long long crowded;
	unsigned long long over_budget;
	unsigned long long plan_full;
	unsigned long long unattended;
	/* Left alone at random, to compare with. */
	unsigned long long control;
	unsigned long long assisted;
	/* Complete while the CPU was ready; before; after it had been given up; before the CPU had
	 * anything to wake from. */
	unsigned long long in_time;
	unsigned long long early;
	unsigned long long late;
	unsigned long long cpu_busy;
	/* Their interrupt came to another CPU, which was to be ready, too. */
	unsigned long long two_cpus;
	/* Packets: they arrive at times that vary too much. */
	unsigned long long irregular;
};

/* A flow of packets, as it arrives. */
struct flow_key {
	/* Source, destination; of IPv4 the first four bytes. */
	unsigned char addresses[2][16];
	unsigned short ports[2];
	unsigned char family; /* 4, 6 */
	unsigned char protocol;
	unsigned short reserved;
};

/* A client of a service of this machine. */
struct client_key {
	unsigned char address[16];
	unsigned short port;
	unsigned char family;
	unsigned char protocol;
};

/* Addresses of which the first bits are these. */
struct network {
	unsigned char address[16];
	unsigned int bits;
	unsigned int family; /* 0: none */
};

/* What a client says of its next request. */
struct hint {
	struct client_key client;
	unsigned int reserved;
	unsigned long long at_ns;
	unsigned long long window_ns;
	/* Of the quota; a client has one of its own. */
	unsigned int uid;
	unsigned int cpu;
	/* As an expectation's; -ESRCH where nobody is known who reads that service's packets. */
	long long ticket;
};

/* What a CPU has done. */
struct cpu_sums {
	/* Kept awake, ns; by this CPU's own clock. */
	unsigned long long awake_ns;
	/* Times that it was kept awake; timers that were armed, that fired, and in vain; cancelled.
	 */
	unsigned long long spells;
	unsigned long long armed;
	unsigned long long refused; /* by the kernel */
	unsigned long long fired;
	unsigned long long busy;
	unsigned long long cancelled;
	unsigned long long strayed;
	unsigned long long naps;
	unsigned long long notices;
};

/* What the program asks of a CPU's plan. */
struct expectation {
	unsigned long long at_ns;
	unsigned long long window_ns;
	struct owner owner;
	unsigned int cpu;
	/* Whose process it is. */
	unsigned int uid;
	/* What was given: the window's ticket; or -ETIME where it is over, -EDQUOT over budget,
	 * -EUSERS where the user has as many as he may, -ENOSPC where the plan is full. */
	long long ticket;
};

struct cancellation {
	unsigned long long ticket;
	unsigned int cpu;
};

#endif

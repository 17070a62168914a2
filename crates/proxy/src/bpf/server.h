/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the servers that requests are held for run for others. The Rust types come from the
 * object's BTF.
 */
#ifndef REVEILLE_SERVER_H
#define REVEILLE_SERVER_H

/* Processes and threads of servers at most. */
#define TASKS 4096

/* What a CPU does for servers. */
struct run {
	/* Since when it runs tasks of servers, CLOCK_MONOTONIC, ns; 0: it does not. */
	unsigned long long since;
	/* A bit for each queue that holds requests for the task that runs. */
	unsigned long long queues;
};

#endif

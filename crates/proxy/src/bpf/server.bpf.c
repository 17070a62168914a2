// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rings a bell when a server for which requests are held runs for others, and for long enough that
 * it still runs when these requests come.
 */
#include <linux/errno.h>

#include "kernel.h"
#include "pid_namespace.h"
#include "server.h"

#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif

/* A year, ns. */
#define NEVER (365ULL * 24 * 3600 * 1000 * 1000 * 1000)

/* Set before loading: a server that has run for this long is expected to run on, ns. */
const volatile unsigned long long long_ns = 200000;
const volatile unsigned int cpu_numbers = 1;

/* The queues that hold requests for a server that has nothing else to answer; the program sets
 * them, and a bell that was rung for a queue clears it.
 */
unsigned long long armed;

/* By processes and threads: the queues of their requests. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TASKS);
	__type(key, __u32);
	__type(value, unsigned long long);
} servers SEC(".maps");

/* By CPUs; sized by the program before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct run);
} runs SEC(".maps");

struct alarm {
	struct bpf_timer timer;
	unsigned int set;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs */
	__type(key, __u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

struct bell {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct bell);
} bells SEC(".maps");

static __always_inline unsigned long long queues_of(struct task_struct *task)
{
	/* Directly where that is possible: this is on the way of every context switch. */
	bool is_machines = pid_namespace == PROC_PID_INIT_INO;
	unsigned long long *of;
	__u32 process, thread;

	/* The idle task. */
	if (!task->pid)
		return 0;
	process = is_machines ? task->tgid : process_here(task);
	thread = is_machines ? task->pid : thread_here(task);
	of = bpf_map_lookup_elem(&servers, &process);
	if (!of && thread != process)
		of = bpf_map_lookup_elem(&servers, &thread);
	return of ? *of : 0;
}

static int on_alarm(void *map, __u32 *cpu, struct alarm *alarm)
{
	struct run *run = bpf_map_lookup_elem(&runs, cpu);
	unsigned long long since, hit;
	__u32 first = 0;
	void *bell;

	if (!run)
		return 0;
	since = run->since;
	hit = run->queues & armed;
	if (!since || !hit || bpf_ktime_get_ns() < since + long_ns)
		return 0;
	__sync_fetch_and_and(&armed, ~hit);
	bell = bpf_map_lookup_elem(&bells, &first);
	if (bell)
		/* A full buffer has rung already. */
		bpf_ringbuf_output(bell, &first, sizeof(first), BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct run *run = bpf_map_lookup_elem(&runs, &cpu);
	unsigned long long queues = queues_of(next);
	struct alarm *alarm;

	if (!run || (!queues && !run->since))
		return 0;
	alarm = bpf_map_lookup_elem(&alarms, &cpu);
	if (!alarm)
		return 0;
	run->queues = queues;
	if (!queues) {
		run->since = 0;
		if (alarm->set) {
			alarm->set = 0;
			/* Not cancelled: its callback may be about to run beneath this. */
			bpf_timer_start(&alarm->timer, NEVER, 0);
		}
		return 0;
	}
	if (!run->since)
		run->since = bpf_ktime_get_ns();
	if (armed & queues) {
		alarm->set = 1;
		bpf_timer_start(&alarm->timer, long_ns, 0);
	}
	return 0;
}

/* Makes the timer of each CPU ready. It may be tried again: what is ready is busy. */
static long init_timer(__u32 cpu, int *result)
{
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &cpu);

	if (!alarm)
		return 1;
	*result = bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC);
	if (!*result || *result == -EBUSY)
		*result = bpf_timer_set_callback(&alarm->timer, on_alarm);
	return *result != 0;
}

/* Run by the program. */
SEC("syscall")
int prepare(void *context)
{
	int result = 0;

	bpf_loop(cpu_numbers, init_timer, &result, 0);
	return result;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What waking costs a workload: sums over every wake-up of its tasks, from the instant at which it
 * was due to the instant at which the task runs, by part.
 *
 * Each CPU keeps its last idle period (`struct cpu`): when it was entered, when the first code ran
 * after it, and whether an interrupt or flag was sent to it. Each followed task keeps its wake-up
 * in its task storage from sched_waking to the sched_switch that runs it; there `settle` combines
 * the two and adds them to tables. No event is sent to the program.
 *
 * A sleeping CPU can delay a wake-up twice. The CPU that is to run the task may sleep: sched_switch
 * shows that. And the CPU that takes the interrupt which issues the wake-up may have slept until
 * then: sched_waking shows that, and the task keeps it (`before`).
 *
 * Storage of a task is allocated only where that is safe: in sched_process_fork, and by the
 * iterator that the program runs at the start. A task without storage is not followed.
 *
 * Only a CPU itself writes its `struct cpu`, except `sent`; the scheduler's tracepoints run with
 * interrupts off.
 */
#include "kernel.h"
#include "cost.h"
#include "histogram.h"
#include "pid_namespace.h"

/* include/linux/interrupt.h */
#define TIMER_SOFTIRQ 1
#define SOFTIRQS 10

/* Levels of ancestor cgroups that are searched. */
#define CGROUP_LEVELS 32

#define CAUSE(kind) ((unsigned int)(kind) << CAUSE_SHIFT)

/* Set before loading. */
const volatile enum follow follow;
/* With FOLLOW_PROCESS, the process to follow; otherwise this program's own, which is left out. In
 * this program's PID namespace. */
const volatile unsigned int process;
const volatile unsigned long long cgroup;
const volatile bool stacks;
/* sched_switch has the previous task's state as an argument (since Linux 5.18). */
const volatile bool has_prev_state;

/* Read by the program. */
struct missed missed;

/* Cleared until all programs are attached. */
unsigned int counting;

/* In the order of use: fields that one event accesses share cache lines. */
struct cpu {
	unsigned long long entered; /* 0: none was observed */
	/* The first code since: at the interrupt or after idle. 0 while it sleeps. */
	unsigned long long first;
	/* The last interrupt or flag from another CPU that was the first in an idle period. */
	unsigned long long sent;
	/* The last switch from the idle task. */
	unsigned long long busy_since;
	/* Expiry of the first and the last hrtimer since `entered`, CLOCK_MONOTONIC; 0 for none. */
	unsigned long long first_expiry;
	unsigned long long last_expiry;
	/* Cause of the last interrupt. */
	unsigned int interrupt;
	/* In an interrupt now; the preemption count is not readable on all architectures. */
	unsigned char in_interrupt;
	unsigned char in_softirq;
	/* Of the idle period that began at `entered`. */
	unsigned char place;
	unsigned char polling;
	unsigned char interrupts;
	/* The last softirq, and the cause that raised each. */
	unsigned char softirq;
	unsigned int raised[SOFTIRQS];
	struct counts counts;
	/* By place: waits of tasks that run here. Only this CPU writes it. */
	struct waits waits[PLACES];
	/* By place: waits for this CPU to take an interrupt, if another CPU runs the task. */
	struct waits before[PLACES];
} __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs */
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* [cpu][state] -> place, and POLLING. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STATES);
	__type(key, __u32);
	__type(value, __u32);
} places SEC(".maps");

/* [place][bucket]: of leaving; if the CPU was awake, of scheduling; if busy, of queueing. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PLACES *BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} distributions SEC(".maps");

/* The index of a pair's sums: looked up when a task's waker has changed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAIRS);
	__type(key, struct pair);
	__type(value, __u32);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PAIRS);
	__type(key, __u32);
	__type(value, struct pair_waits);
} pair_waits SEC(".maps");

unsigned int pairs_used;

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1); /* 16384 with stacks */
	__uint(key_size, 4);
	__uint(value_size, 127 * 8);
} traces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* 16384 with stacks */
	__type(key, struct stack_key);
	__type(value, struct stack_waits);
} stack_waits SEC(".maps");

/* A pair's hash, and the index of its sums. */
struct known {
	unsigned long long hash; /* 0: none */
	unsigned long long index;
};

/* A followed task and its current wake-up. */
struct task {
	unsigned long long waking; /* 0: none */
	/* The interrupted CPU's part, before `waking`: leaving idle, and its handler. */
	unsigned long long before;
	unsigned long long handler;
	/* Its stay in the idle state, before that. */
	unsigned long long stay;
	/* This thread's total loss. */
	unsigned long long lost;
	/* The last checked cgroup, and whether it belongs to the workload. */
	unsigned long long cgroup;
	unsigned int belongs;
	unsigned int waking_cpu;
	unsigned int target;
	int kernel_stack;
	int user_stack;
	unsigned int waker_process;
	/* It was switched out in order to wait. */
	unsigned char blocked;
	/* The wake-up was complete before the task had been switched out. */
	unsigned char early;
	/* The idle state of the CPU whose interrupt woke it; PLACE_BUSY: none. */
	unsigned char before_place;
	unsigned char before_unknown;
	/* The waker, and the last pair of each kind: tasks, and others. */
	struct pair pair;
	struct known known[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

#define ADD(to, amount) __sync_fetch_and_add(&(to), amount)

static __always_inline struct cpu *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* By its cgroup or an ancestor; searched again only when the task has moved. */
static __always_inline bool in_cgroup(struct task_struct *p, struct task *task)
{
	struct cgroup *at = p->cgroups->dfl_cgrp;

	if (task->cgroup == (unsigned long long)at)
		return task->belongs;
	task->cgroup = (unsigned long long)at;
	task->belongs = 0;
	for (int level = 0; level < CGROUP_LEVELS && at; level++) {
		struct cgroup_subsys_state *parent;

		if (BPF_CORE_READ(at, kn, id) == cgroup) {
			task->belongs = 1;
			break;
		}
		parent = BPF_CORE_READ(at, self.parent);
		at = parent ? BPF_CORE_READ(parent, cgroup) : NULL;
	}
	return task->belongs;
}

static __always_inline void copy_name(char *to, struct task_struct *p)
{
	const __u64 *name = (const __u64 *)p->comm;

	((__u64 *)to)[0] = name[0];
	((__u64 *)to)[1] = name[1];
}

static __always_inline struct task *followed(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline void begin_to_follow(struct task_struct *p, bool blocked)
{
	struct task *task = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (task)
		task->blocked = blocked;
	else
		ADD(missed.unfollowed, 1);
}

/*
 * Idle states
 */

/* False if no idle entry was observed: the CPU's state is unknown then. */
static __always_inline bool sleeps(const struct cpu *cpu)
{
	return cpu->entered && !cpu->first;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, unsigned int state, unsigned int cpu_id)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &cpu_id);
	__u32 key = cpu_id * STATES + state;
	__u32 *place;

	if (!cpu)
		return 0;
	if (state == PWR_EVENT_EXIT) {
		if (sleeps(cpu))
			cpu->first = bpf_ktime_get_ns();
		return 0;
	}
	place = state < STATES ? bpf_map_lookup_elem(&places, &key) : NULL;
	cpu->place = place ? *place & ~POLLING : PLACE_OTHER;
	cpu->polling = place && *place & POLLING;
	cpu->interrupts = 0;
	cpu->first_expiry = 0;
	cpu->last_expiry = 0;
	cpu->entered = bpf_ktime_get_ns();
	cpu->first = 0;
	return 0;
}

/* Another CPU sends this one an interrupt, or sets the flag that it monitors. */
static __always_inline int sent_to(__u32 target)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &target);

	if (cpu && sleeps(cpu) && cpu->sent < cpu->entered)
		cpu->sent = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_ipi_sent, unsigned int target)
{
	return sent_to(target);
}

SEC("tp_btf/sched_wake_idle_without_ipi")
int BPF_PROG(on_flag_set, int target)
{
	return sent_to(target);
}

/*
 * Interrupts
 */

static __always_inline int interrupt(unsigned int cause)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->interrupt = cause;
	cpu->in_interrupt = 1;
	/* A polling CPU is awake, and leaves its state only for a task. */
	if (sleeps(cpu) && !cpu->polling)
		cpu->first = bpf_ktime_get_ns();
	if (cpu->interrupts < 2)
		cpu->interrupts++;
	return 0;
}

static __always_inline int end_of_interrupt(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_interrupt = 0;
	return 0;
}

#define INTERRUPT(name, kind)                                                                      \
	SEC("tp_btf/" #name "_entry")                                                              \
	int BPF_PROG(on_##name##_entry)                                                            \
	{                                                                                          \
		return interrupt(CAUSE(kind));                                                     \
	}                                                                                          \
	SEC("tp_btf/" #name "_exit")                                                               \
	int BPF_PROG(on_##name##_exit)                                                             \
	{                                                                                          \
		return end_of_interrupt();                                                         \
	}

/* irq_vectors: x86. */
INTERRUPT(local_timer, CAUSE_TIMER)
INTERRUPT(call_function_single, CAUSE_CALL)
INTERRUPT(call_function, CAUSE_CALL)
INTERRUPT(reschedule, CAUSE_CALL)
INTERRUPT(irq_work, CAUSE_OTHER)
INTERRUPT(x86_platform_ipi, CAUSE_OTHER)
/* ipi: arm64 and others. */
INTERRUPT(ipi, CAUSE_CALL)

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	return interrupt(CAUSE(CAUSE_DEVICE) | (irq & (CAUSE(1) - 1)));
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit)
{
	return end_of_interrupt();
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	struct cpu *cpu = this_cpu();
	unsigned long long expiry;

	if (!cpu || !is_idle_task())
		return 0;
	if (cpu->in_interrupt)
		cpu->interrupt = CAUSE(CAUSE_TIMER);
	/* Converted to CLOCK_MONOTONIC: other clocks have an offset to it. */
	if (!bpf_core_field_exists(timer->base->offset))
		return 0;
	expiry = timer->node.expires - timer->base->offset;
	if (!cpu->first_expiry)
		cpu->first_expiry = expiry;
	cpu->last_expiry = expiry;
	return 0;
}

/* A device's interrupt raises a softirq, whose wake-ups are attributed to the device. */
SEC("tp_btf/softirq_raise")
int BPF_PROG(on_softirq_raise, unsigned int vector)
{
	struct cpu *cpu = this_cpu();

	if (!cpu || vector >= SOFTIRQS)
		return 0;
	if (cpu->in_interrupt || is_idle_task())
		cpu->raised[vector] = cpu->interrupt;
	else if (!cpu->in_softirq)
		cpu->raised[vector] = CAUSE(CAUSE_TASK);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct cpu *cpu = this_cpu();

	if (cpu) {
		cpu->softirq = vector;
		cpu->in_softirq = 1;
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_softirq = 0;
	return 0;
}

/*
 * Wake-ups
 */

static __always_inline unsigned int cause_here(struct cpu *cpu)
{
	if (cpu->in_interrupt)
		return cpu->interrupt;
	if (cpu->in_softirq)
		return cpu->softirq < SOFTIRQS ? cpu->raised[cpu->softirq] : CAUSE(CAUSE_OTHER);
	if (!is_idle_task())
		return CAUSE(CAUSE_TASK);
	/* The idle loop wakes tasks only for other CPUs. */
	return CAUSE(CAUSE_CALL);
}

/* The instant of the event that woke this CPU and now wakes a task; 0: unknown. */
static __always_inline unsigned long long due(struct cpu *cpu, unsigned int cause)
{
	switch (cause >> CAUSE_SHIFT) {
	case CAUSE_TIMER:
		/* Timers of the timer wheel run in a softirq that an hrtimer raises. */
		if (!cpu->in_interrupt && cpu->softirq == TIMER_SOFTIRQ)
			return cpu->first_expiry;
		return cpu->last_expiry;
	case CAUSE_CALL:
		return cpu->sent >= cpu->entered ? cpu->sent : 0;
	default:
		return 0;
	}
}

static __always_inline bool by_task(const struct task *task)
{
	return task->pair.cause >> CAUSE_SHIFT == CAUSE_TASK;
}

/* Finds out whether this CPU slept when the event of this wake-up came. */
static __always_inline void look_back(struct task *task, struct cpu *cpu)
{
	unsigned long long event;

	task->before = 0;
	task->handler = 0;
	task->stay = 0;
	task->before_place = PLACE_BUSY;
	task->before_unknown = 0;
	/* Only the first interrupt of an idle period can have met a sleeping CPU. */
	if (!is_idle_task() || !cpu->first || cpu->first < cpu->busy_since || cpu->interrupts > 1 ||
	    cpu->polling)
		return;
	task->before_place = cpu->place;
	if (task->waking > cpu->first)
		task->handler = task->waking - cpu->first;
	event = due(cpu, task->pair.cause);
	if (!event) {
		task->before_unknown = 1;
		task->stay = cpu->first - cpu->entered;
		return;
	}
	if (event < cpu->entered)
		event = cpu->entered;
	task->stay = (event < cpu->first ? event : cpu->first) - cpu->entered;
	if (event < cpu->first)
		task->before = cpu->first - event;
}

static __always_inline void begin_wakeup(void *context, struct task *task, struct cpu *cpu,
					 __u32 target)
{
	task->waking = bpf_ktime_get_ns();
	task->early = 0;
	task->pair.cause = cause_here(cpu);
	task->waking_cpu = bpf_get_smp_processor_id();
	task->target = target;
	look_back(task, cpu);
	if (by_task(task))
		copy_name(task->pair.waker, bpf_get_current_task_btf());
	else
		__builtin_memset(task->pair.waker, 0, sizeof(task->pair.waker));
	if (stacks) {
		task->waker_process = process_here(bpf_get_current_task_btf());
		task->kernel_stack = bpf_get_stackid(context, &traces, 0);
		task->user_stack =
		    by_task(task) ? bpf_get_stackid(context, &traces, BPF_F_USER_STACK) : -1;
	}
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct cpu *cpu = this_cpu();
	struct task *task;

	if (!cpu)
		return 0;
	cpu->counts.issued++;
	task = followed(p);
	if (!task || !counting || (follow == FOLLOW_CGROUP && !in_cgroup(p, task)))
		return 0;
	begin_wakeup(ctx, task, cpu, bpf_get_smp_processor_id());
	return 0;
}

/* The task's CPU is chosen by now; this may run on that CPU. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	struct task *task = followed(p);

	if (!task || !task->waking)
		return 0;
	task->early = !task->blocked;
	task->target = p->wake_cpu;
	return 0;
}

/* A new task's first run, for which there is no sched_waking. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	struct cpu *cpu = this_cpu();
	struct task *task;

	if (!cpu)
		return 0;
	cpu->counts.issued++;
	task = followed(p);
	if (!task || !counting || (follow == FOLLOW_CGROUP && !in_cgroup(p, task)))
		return 0;
	begin_wakeup(ctx, task, cpu, p->wake_cpu);
	task->blocked = 1;
	return 0;
}

static __always_inline void add_to_distribution(unsigned int place, unsigned long long ns)
{
	__u32 key = place * BUCKETS + bucket(ns);
	__u64 *count = bpf_map_lookup_elem(&distributions, &key);

	if (count)
		(*count)++;
}

/* A wait, in parts. */
struct parts {
	unsigned long long leaving;
	unsigned long long scheduling;
	unsigned long long queueing;
	/* Before the wait. */
	unsigned long long stay;
	bool unknown;
};

/* Adds a wait for this CPU. */
static __always_inline void add_wait(struct cpu *cpu, unsigned int place, const struct parts *parts)
{
	struct waits *sum = &cpu->waits[place & (PLACES - 1)];

	sum->count++;
	sum->scheduling_ns += parts->scheduling;
	sum->queueing_ns += parts->queueing;
	sum->stay_ns += parts->stay;
	if (parts->unknown) {
		sum->unknown++;
		return;
	}
	sum->leaving_ns += parts->leaving;
	if (parts->leaving > sum->longest_ns)
		sum->longest_ns = parts->leaving;
	add_to_distribution(place, place == PLACE_AWAKE	 ? parts->scheduling
				   : place == PLACE_BUSY ? parts->queueing
							 : parts->leaving);
}

/* Adds the wait for the CPU that took the interrupt. */
static __always_inline void add_wait_before(const struct task *task)
{
	__u32 key = task->waking_cpu;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &key);
	struct waits *sum;

	if (!cpu)
		return;
	sum = &cpu->before[task->before_place & (PLACES - 1)];
	ADD(sum->count, 1);
	ADD(sum->scheduling_ns, task->handler);
	ADD(sum->stay_ns, task->stay);
	if (task->before_unknown) {
		ADD(sum->unknown, 1);
		return;
	}
	ADD(sum->leaving_ns, task->before);
	/* If two CPUs write at once, the smaller value may win: rare, and a small error. */
	if (task->before > sum->longest_ns)
		sum->longest_ns = task->before;
	add_to_distribution(task->before_place, task->before);
}

/* 64 bits: collisions between a task's pairs are negligible. */
static __always_inline unsigned long long hash(const struct pair *pair)
{
	const __u64 *words = (const __u64 *)pair;
	unsigned long long hash = 0;

	for (unsigned int i = 0; i < sizeof(*pair) / sizeof(*words); i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash;
}

/* The index of a pair's sums; PAIRS if the table is full. */
static __always_inline __u32 pair_index(const struct pair *pair)
{
	__u32 *found = bpf_map_lookup_elem(&pairs, pair);
	__u32 index;

	if (found)
		return *found;
	if (pairs_used >= PAIRS)
		return PAIRS;
	index = ADD(pairs_used, 1);
	if (index >= PAIRS)
		return PAIRS;
	/* If two CPUs do so at once, the second one's index stays unused. */
	bpf_map_update_elem(&pairs, pair, &index, BPF_NOEXIST);
	found = bpf_map_lookup_elem(&pairs, pair);
	return found ? *found : PAIRS;
}

static __always_inline void add_pair(struct task *task, const struct parts *parts, bool asleep)
{
	struct known *known = &task->known[by_task(task) ? 0 : 1];
	unsigned long long now = hash(&task->pair);
	struct pair_waits *sum;
	__u32 index;

	if (known->hash != now) {
		known->hash = now;
		known->index = pair_index(&task->pair);
	}
	index = known->index;
	sum = bpf_map_lookup_elem(&pair_waits, &index);
	if (!sum) {
		ADD(missed.pairs_full, 1);
		return;
	}
	ADD(sum->wakeups, 1);
	if (asleep)
		ADD(sum->asleep, 1);
	ADD(sum->leaving_ns, parts->leaving);
	ADD(sum->scheduling_ns, parts->scheduling);
	ADD(sum->queueing_ns, parts->queueing);
	if (parts->leaving > sum->longest_ns)
		sum->longest_ns = parts->leaving;
}

static __always_inline void add_stacks(const struct task *task, unsigned int place,
				       unsigned long long waited)
{
	struct stack_key key = {
	    .kernel_stack = task->kernel_stack,
	    .user_stack = task->user_stack,
	    .process = task->waker_process,
	    .place = place,
	    .pair = task->pair,
	};
	struct stack_waits *sum;

	if (task->kernel_stack < 0)
		ADD(missed.stacks_failed, 1);
	sum = bpf_map_lookup_elem(&stack_waits, &key);
	if (!sum) {
		struct stack_waits none = {};

		bpf_map_update_elem(&stack_waits, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&stack_waits, &key);
		if (!sum) {
			ADD(missed.stacks_full, 1);
			return;
		}
	}
	ADD(sum->wakeups, 1);
	ADD(sum->waited_ns, waited);
}

/* Divides the time from waking to running by the state of the CPU that runs the task. */
static __always_inline unsigned int divide(const struct task *task, const struct cpu *cpu,
					   unsigned long long now, struct parts *parts)
{
	unsigned long long waking = task->waking, from = waking, busy = cpu->busy_since;

	if (cpu->first > waking && cpu->polling) {
		/* It was awake: the time went into interrupt and idle loop. */
		parts->stay = waking > cpu->entered ? waking - cpu->entered : 0;
		parts->scheduling = busy > waking ? busy - waking : 0;
		parts->queueing = now - waking - parts->scheduling;
		return cpu->place;
	}
	if (cpu->first > waking) {
		/* It was asleep, or about to be; until the message was sent, the waker was busy. */
		if (cpu->sent > waking && cpu->sent < cpu->first)
			from = cpu->sent;
		if (busy < cpu->first)
			busy = cpu->first;
		parts->stay = from > cpu->entered ? from - cpu->entered : 0;
		parts->leaving = cpu->first - from;
		parts->scheduling = from - waking + busy - cpu->first;
		parts->queueing = now - busy;
		return cpu->place;
	}
	if (busy > waking) {
		parts->scheduling = busy - waking;
		parts->queueing = now - busy;
		return PLACE_AWAKE;
	}
	parts->queueing = now - waking;
	return PLACE_BUSY;
}

static __always_inline void add_loss(struct counts *counts, struct task *task,
				     struct task_struct *next, unsigned long long lost)
{
	if (!lost)
		return;
	task->lost += lost;
	if (task->lost > counts->most_ns) {
		counts->most_ns = task->lost;
		counts->most_pid = thread_here(next);
		__builtin_memcpy(counts->most_comm, task->pair.wakee, sizeof(counts->most_comm));
	}
}

/* Ends the wake-up of a task that now runs. */
static __always_inline void settle(struct task_struct *next, struct task *task, struct cpu *cpu,
				   unsigned long long now)
{
	__u32 here = bpf_get_smp_processor_id();
	struct parts parts = {};
	unsigned int place = PLACE_BUSY;
	bool asleep, before = task->before_place != PLACE_BUSY;

	if (task->target == here && !cpu->entered && cpu->busy_since > task->waking) {
		/* The CPU idled, and may have slept since before the programs were attached. */
		ADD(missed.unseen, 1);
		return;
	}
	copy_name(task->pair.wakee, next);
	if (task->target == here) {
		place = divide(task, cpu, now, &parts);
	} else {
		cpu->counts.moved++;
		parts.queueing = now - task->waking;
	}
	asleep = before || (place >= PLACE_OTHER && !cpu->polling);
	if (before && task->waking_cpu == here && place == PLACE_AWAKE) {
		/* One CPU woke, took the interrupt and runs the task: one wait. */
		parts.leaving = task->before;
		parts.stay = task->stay;
		parts.scheduling += task->handler;
		parts.unknown = task->before_unknown;
		add_wait(cpu, task->before_place, &parts);
		place = task->before_place;
	} else {
		add_wait(cpu, place, &parts);
		if (before) {
			add_wait_before(task);
			parts.leaving += task->before;
			parts.scheduling += task->handler;
		}
	}
	add_loss(&cpu->counts, task, next, parts.leaving);
	cpu->counts.wakeups++;
	if (asleep)
		cpu->counts.asleep++;
	else if (place >= PLACE_OTHER)
		cpu->counts.polling++;
	add_pair(task, &parts, asleep);
	if (stacks)
		add_stacks(task, place, parts.leaving + parts.scheduling + parts.queueing);
}

/* The task gives up its CPU, in order to wait or because it is preempted. */
static __always_inline void leave_cpu(struct task *task, struct task_struct *p, bool preempted,
				      unsigned int prev_state)
{
	unsigned int state = p->__state;

	if (task->blocked && task->waking) {
		/* It has run without an event (observed if prev was a hidden process). */
		ADD(missed.unseen, 1);
		task->waking = 0;
	}
	task->blocked = !preempted && (has_prev_state ? prev_state : state);
	if (!task->early)
		return;
	/*
	 * Usually it had not begun to sleep and continued to run: there was no wait. But it may
	 * have been woken while it was switched out (Linux 6.12 leaves it queued for a while, and
	 * looks for other work with the run queue unlocked): then it runs again in its turn.
	 */
	task->early = 0;
	if (!task->blocked || state)
		task->waking = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	unsigned int state = has_prev_state ? ctx[3] : 0;
	struct cpu *cpu = this_cpu();
	unsigned long long now = 0;
	struct task *task;

	if (!cpu)
		return 0;
	if (!prev->pid) {
		now = bpf_ktime_get_ns();
		cpu->busy_since = now;
	} else {
		task = followed(prev);
		if (task)
			leave_cpu(task, prev, preempt, state);
	}
	if (!next->pid)
		return 0;
	task = followed(next);
	if (!task)
		return 0;
	if (task->waking && task->blocked)
		settle(next, task, cpu, now ? now : bpf_ktime_get_ns());
	task->waking = 0;
	task->blocked = 0;
	return 0;
}

/*
 * Choosing tasks
 */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	if (follow == FOLLOW_PROCESS) {
		if (!followed(parent) && process_here(parent) != process)
			return 0;
	} else if (process_here(parent) == process || !process_here(child)) {
		return 0;
	}
	begin_to_follow(child, true);
	return 0;
}

/* Run by the program when all else is attached: starts to follow the existing tasks. */
SEC("iter/task")
int follow_present(struct bpf_iter__task *context)
{
	struct task_struct *p = context->task;

	if (p && p->pid && (process_here(p) == process) == (follow == FOLLOW_PROCESS))
		begin_to_follow(p, !p->on_cpu);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

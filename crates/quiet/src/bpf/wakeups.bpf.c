// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * When CPUs sleep, and what makes tasks runnable: each an event in a ring buffer, which the program
 * empties twice a second without being woken. Events that do not fit are counted.
 */
#include "kernel.h"
#include "wakeups.h"
#include "pid_namespace.h"

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* Set before loading. */
/* Bit N: state N polls. */
const volatile unsigned int polling_states = 1;

/* The function of the timers that end sleeps and waits. */
extern const void hrtimer_wakeup __ksym __weak;

/* Events that did not fit. */
unsigned long long lost;

/* Not used: a ring buffer does not bring its records' type into the object's BTF. */
struct event record;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

/* Sized by the program before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct event *reserve(enum kind kind)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	event->cpu = bpf_get_smp_processor_id();
	event->kind = kind;
	return event;
}

static __always_inline void send(struct event *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void describe(struct who *who, struct task_struct *task)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	who->thread = thread_here(task);
	who->process = process_here(task);
	who->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	who->kernel = !!(BPF_CORE_READ(task, flags) & PF_KTHREAD);
	who->policy = BPF_CORE_READ(task, policy);
	bpf_core_read(who->name, sizeof(who->name), &leader->comm);
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, unsigned int state, unsigned int number)
{
	bool asleep = state != PWR_EVENT_EXIT && !(polling_states >> (state & 31) & 1);
	enum kind kind = asleep ? EVENT_SLEEP : EVENT_WAKE;
	struct cpu *cpu = this_cpu();
	struct event *event;

	if (!cpu || cpu->state == kind)
		return 0;
	cpu->state = kind;
	event = reserve(kind);
	if (event)
		send(event);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	struct cpu *cpu = this_cpu();
	__u64 offset;

	if (!cpu)
		return 0;
	/* Converted to CLOCK_MONOTONIC: other clocks are ahead by their base's offset. */
	offset = BPF_CORE_READ(timer, base, offset);
	cpu->function = (__u64)BPF_CORE_READ(timer, function);
	cpu->soft = BPF_CORE_READ(timer, _softexpires) - offset;
	cpu->hard = BPF_CORE_READ(timer, node.expires) - offset;
	cpu->in_hrtimer = 1;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_expire_exit)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_hrtimer = 0;
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_expire_entry)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_timer = 1;
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_timer_expire_exit)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_timer = 0;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	struct cpu *cpu = this_cpu();
	enum kind kind = EVENT_TASK;
	struct event *event;

	if (!cpu)
		return 0;
	if (cpu->in_hrtimer)
		kind = cpu->function == (__u64)&hrtimer_wakeup ? EVENT_SLEEP_TIMER : EVENT_TIMER;
	else if (cpu->in_timer)
		kind = EVENT_TIMER;
	else if (is_idle_task())
		kind = EVENT_INTERRUPT;
	event = reserve(kind);
	if (!event)
		return 0;
	describe(&event->who, task);
	if (kind == EVENT_SLEEP_TIMER) {
		event->due = cpu->soft;
		event->slack = cpu->hard - cpu->soft;
	} else if (kind == EVENT_TASK) {
		describe(&event->waker, bpf_get_current_task_btf());
	}
	send(event);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	struct event *event;

	if (BPF_CORE_READ(previous, pid))
		return 0;
	event = reserve(EVENT_RUN);
	if (!event)
		return 0;
	describe(&event->who, next);
	send(event);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

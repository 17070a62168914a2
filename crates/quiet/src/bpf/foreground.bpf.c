// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whether the tasks of a cgroup all wait, and whether any of them could wait for the background.
 *
 * A wait is known to be for something else, such as the network, a disk or the time, if the last
 * ones of this thread by the same call on the same object were all ended by interrupts, kernel
 * threads or the foreground itself. Whatever else there is to wait for (a lock, a pipe) is unknown,
 * and so is everything at first.
 *
 * The bell is rung when the foreground begins to run while the background is held, and, if the
 * program asks for it, when the foreground waits.
 */
#include "kernel.h"
#include "foreground.h"
#include "pid_namespace.h"

/* include/linux/sched.h */
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000
#define TASK_DEAD 0x00000080

#define SOFTIRQS 10

/* Levels of ancestor cgroups that are searched. */
#define CGROUP_LEVELS 32

/* Changes of one thread's state by other CPUs during one by this one. */
#define CHANGES 8

/* A wait is known after this number of ends, of which none of the last eight was by another. */
#define KNOWN 3

struct pt_regs___x86 {
	unsigned long orig_ax;
	unsigned long di;
} __attribute__((preserve_access_index));

struct pt_regs___arm64 {
	__u64 orig_x0;
	__s32 syscallno;
} __attribute__((preserve_access_index));

/* Set before loading. */
/* System calls that wait for the time alone. */
const volatile int sleep_calls[2] = {-1, -1};
/* sched_switch has the previous task's state as an argument (since Linux 5.18). */
const volatile bool has_prev_state;

/* The foreground's; the program writes it. */
unsigned long long cgroup;

/* Tasks of the foreground, those that run or could, and those that wait for something unknown. */
int members;
int awake;
int unknown;
/* Tasks were moved between cgroups: what they wait for, and whether they belong, is to be seen. */
unsigned long long moved;
/* Since when all wait, and when the last wait for something unknown began; CLOCK_MONOTONIC, ns. */
unsigned long long waiting_since;
unsigned long long unknown_since;
/* Set by the program: the background is held; the next wait of the foreground is to be told. */
unsigned int held;
unsigned int tell_waiting;
/* Threads for which there was no room. */
unsigned long long unplaced;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct wait);
	__type(value, struct ends);
} waits SEC(".maps");

/* Sized by the program before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} bell SEC(".maps");

static __always_inline void ring(void)
{
	__u32 nothing = 0;

	/* A full buffer has rung already. */
	bpf_ringbuf_output(&bell, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

static __always_inline struct cpu *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline bool below(struct task_struct *task, unsigned long long *found)
{
	struct cgroup *at = BPF_CORE_READ(task, cgroups, dfl_cgrp);

	*found = (unsigned long long)at;
	for (int level = 0; level < CGROUP_LEVELS && at; level++) {
		struct cgroup_subsys_state *parent;

		if (BPF_CORE_READ(at, kn, id) == cgroup)
			return true;
		parent = BPF_CORE_READ(at, self.parent);
		at = parent ? BPF_CORE_READ(parent, cgroup) : NULL;
	}
	return false;
}

static __always_inline bool is_waiting(enum state state)
{
	return state == STATE_WAITS || state == STATE_MAY_WAIT;
}

/* What the counters have of a thread that was in one state and now is in another. */
static __always_inline void count(enum state before, enum state now)
{
	int awake_by = (now == STATE_AWAKE) - (before == STATE_AWAKE);
	int unknown_by = (now == STATE_MAY_WAIT) - (before == STATE_MAY_WAIT);
	int members_by = (now != STATE_ELSEWHERE) - (before != STATE_ELSEWHERE);

	if (members_by)
		__sync_fetch_and_add(&members, members_by);
	/* It is never seen to wait for something else in between. */
	if (unknown_by > 0) {
		unknown_since = bpf_ktime_get_ns();
		__sync_fetch_and_add(&unknown, 1);
	}
	if (awake_by > 0 && __sync_fetch_and_add(&awake, 1) == 0 && held)
		ring();
	if (awake_by < 0 && __sync_fetch_and_add(&awake, -1) == 1) {
		waiting_since = bpf_ktime_get_ns();
		if (tell_waiting) {
			tell_waiting = 0;
			ring();
		}
	}
	if (unknown_by < 0)
		__sync_fetch_and_add(&unknown, -1);
}

/*
 * Other CPUs may change the state of the same thread at the same time. Each change is counted once,
 * so that the counters are those of the states whatever the order.
 */
static __always_inline void leave(struct thread *thread)
{
	count(__sync_lock_test_and_set(&thread->state, STATE_ELSEWHERE), STATE_ELSEWHERE);
}

/* One of the foreground, unless another CPU has seen it leave. */
static __always_inline void become(struct thread *thread, enum state now)
{
	enum state before = thread->state;

	for (int tried = 0; tried < CHANGES && before != STATE_ELSEWHERE; tried++) {
		enum state seen = __sync_val_compare_and_swap(&thread->state, before, now);

		if (seen == before) {
			count(before, now);
			return;
		}
		before = seen;
	}
}

/* One that has come into the foreground, unless another CPU has seen that. */
static __always_inline void come(struct thread *thread, enum state now)
{
	if (__sync_val_compare_and_swap(&thread->state, STATE_ELSEWHERE, now) == STATE_ELSEWHERE)
		count(STATE_ELSEWHERE, now);
}

/* Does this task belong to the foreground? In the state `first`, if it has come into it since it
 * was checked. */
static __always_inline bool belongs(struct thread *thread, struct task_struct *task,
				    enum state first)
{
	unsigned long long found = (unsigned long long)BPF_CORE_READ(task, cgroups, dfl_cgrp);

	if (thread->cgroup != found) {
		if (below(task, &found))
			come(thread, first);
		else
			leave(thread);
		thread->cgroup = found;
	}
	return thread->state != STATE_ELSEWHERE;
}

/* Its entry; NULL for one that does not belong to the foreground. */
static __always_inline struct thread *foreground(struct task_struct *task)
{
	__u32 number = BPF_CORE_READ(task, pid);
	struct thread *thread = bpf_map_lookup_elem(&threads, &number);

	return thread && belongs(thread, task, STATE_AWAKE) ? thread : NULL;
}

/*
 * One that is not known, in this state. Those of other cgroups are entered, too, so that their
 * cgroups are searched once.
 */
static __always_inline void enter(struct task_struct *task, enum state first)
{
	__u32 number = BPF_CORE_READ(task, pid);
	struct thread new = {}, *thread;

	if (!number || bpf_map_lookup_elem(&threads, &number))
		return;
	bpf_map_update_elem(&threads, &number, &new, BPF_NOEXIST);
	/* Another CPU may have entered it. */
	thread = bpf_map_lookup_elem(&threads, &number);
	if (thread)
		belongs(thread, task, first);
	else
		__sync_fetch_and_add(&unplaced, 1);
}

static __always_inline void what_for(struct task_struct *task, struct wait *wait)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	__builtin_memset(wait, 0, sizeof(*wait));
	wait->thread = BPF_CORE_READ(task, pid);
	if (bpf_core_field_exists(struct pt_regs___x86, orig_ax)) {
		struct pt_regs___x86 *x86 = (void *)regs;

		wait->call = BPF_CORE_READ(x86, orig_ax);
		wait->object = BPF_CORE_READ(x86, di);
	} else {
		struct pt_regs___arm64 *arm64 = (void *)regs;

		wait->call = BPF_CORE_READ(arm64, syscallno);
		wait->object = BPF_CORE_READ(arm64, orig_x0);
	}
}

static __always_inline bool is_known(const struct wait *wait)
{
	struct ends *ends;

	if (wait->call == sleep_calls[0] || wait->call == sleep_calls[1])
		return true;
	ends = bpf_map_lookup_elem(&waits, wait);
	return ends && ends->count >= KNOWN && !ends->others;
}

static __always_inline void begins_to_wait(struct thread *thread, struct task_struct *task)
{
	if (is_waiting(thread->state))
		return;
	what_for(task, &thread->wait);
	become(thread, is_known(&thread->wait) ? STATE_WAITS : STATE_MAY_WAIT);
}

static __always_inline void note_end(const struct wait *wait, enum waker waker)
{
	struct ends *ends = bpf_map_lookup_elem(&waits, wait);
	struct ends first = {.count = 1, .others = waker == WAKER_OTHER};

	if (!ends) {
		bpf_map_update_elem(&waits, wait, &first, BPF_NOEXIST);
		return;
	}
	/* A thread has one wait at a time. */
	if (ends->count < KNOWN)
		ends->count++;
	ends->others = ends->others << 1 | (waker == WAKER_OTHER);
}

static __always_inline enum waker by_task(struct task_struct *task)
{
	unsigned int flags = BPF_CORE_READ(task, flags);

	/* Work of a queue may be anybody's: what was written to a terminal comes by it. */
	if (!BPF_CORE_READ(task, pid) || (flags & PF_KTHREAD && !(flags & PF_WQ_WORKER)))
		return WAKER_OUTSIDE;
	return foreground(task) ? WAKER_FOREGROUND : WAKER_OTHER;
}

static __always_inline enum waker who_wakes(const struct cpu *cpu)
{
	__u32 softirq = cpu->softirq - 1;

	if (cpu->in_timer || cpu->in_interrupt)
		return WAKER_OUTSIDE;
	if (softirq < SOFTIRQS)
		return cpu->raised[softirq];
	return by_task(bpf_get_current_task_btf());
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	struct thread *thread = foreground(task);
	struct cpu *cpu = this_cpu();

	if (!thread || !cpu || !is_waiting(thread->state))
		return 0;
	note_end(&thread->wait, who_wakes(cpu));
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_sched_wakeup, struct task_struct *task)
{
	struct thread *thread = foreground(task);

	if (thread)
		become(thread, STATE_AWAKE);
	else
		enter(task, STATE_AWAKE);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_sched_wakeup_new, struct task_struct *task)
{
	enter(task, STATE_AWAKE);
	return 0;
}

static __always_inline void leaves(struct task_struct *task)
{
	__u32 number = BPF_CORE_READ(task, pid);
	struct thread *thread = bpf_map_lookup_elem(&threads, &number);

	if (!thread)
		return;
	leave(thread);
	bpf_map_delete_elem(&threads, &number);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	unsigned int state = has_prev_state ? ctx[3] : BPF_CORE_READ(previous, __state);
	struct thread *thread;

	if (!preempt && state & TASK_DEAD) {
		leaves(previous);
	} else if (!preempt && state) {
		thread = foreground(previous);
		if (thread)
			begins_to_wait(thread, previous);
		else
			enter(previous, STATE_MAY_WAIT);
	}
	/* It was made runnable before it had been switched out: Linux 6.12 leaves it queued then.
	 */
	thread = foreground(next);
	if (thread)
		become(thread, STATE_AWAKE);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_cgroup_attach_task)
{
	__sync_fetch_and_add(&moved, 1);
	if (held)
		ring();
	return 0;
}

static __always_inline bool sleeps(struct task_struct *task)
{
	return BPF_CORE_READ(task, __state) && !BPF_CORE_READ(task, on_cpu);
}

/* Those that are there at the start, or were moved. */
SEC("iter/task")
int enter_present(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct thread *thread;
	enum state first;
	__u32 number;

	if (!task || BPF_CORE_READ(task, exit_state))
		return 0;
	first = sleeps(task) ? STATE_MAY_WAIT : STATE_AWAKE;
	number = BPF_CORE_READ(task, pid);
	thread = bpf_map_lookup_elem(&threads, &number);
	/* What is the foreground may have changed. Others' waits are not followed. */
	if (thread && thread->state == STATE_ELSEWHERE)
		thread->cgroup = 0;
	if (!thread)
		enter(task, first);
	else
		belongs(thread, task, first);
	/* What it did since it was looked at may have been before its entry. */
	thread = foreground(task);
	if (thread && thread->state == STATE_MAY_WAIT && !sleeps(task))
		become(thread, STATE_AWAKE);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_timer |= 1;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_expire_exit)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_timer &= ~1;
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_expire_entry)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_timer |= 2;
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_timer_expire_exit)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_timer &= ~2;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_interrupt = 1;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->in_interrupt = 0;
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(on_softirq_raise, unsigned int vector)
{
	struct cpu *cpu = this_cpu();

	if (cpu && vector < SOFTIRQS)
		cpu->raised[vector] = who_wakes(cpu);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->softirq = vector + 1;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->softirq = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

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

static __always_inline void add_awake(int by)
{
	int before = __sync_fetch_and_add(&awake, by);

	if (by > 0 && before == 0) {
		if (held)
			ring();
	} else if (by < 0 && before == 1) {
		waiting_since = bpf_ktime_get_ns();
		if (tell_waiting) {
			tell_waiting = 0;
			ring();
		}
	}
}

static __always_inline void add_unknown(int by)
{
	if (by > 0)
		unknown_since = bpf_ktime_get_ns();
	__sync_fetch_and_add(&unknown, by);
}

/* Counts a thread that has come into the foreground, or takes back what was counted. */
static __always_inline void count(struct thread *thread, int by)
{
	__sync_fetch_and_add(&members, by);
	if (!thread->waits)
		add_awake(by);
	else if (thread->unknown)
		add_unknown(by);
}

/* Its entry; NULL for one that does not belong to the foreground. */
static __always_inline struct thread *foreground(struct task_struct *task)
{
	__u32 number = BPF_CORE_READ(task, pid);
	struct thread *thread = bpf_map_lookup_elem(&threads, &number);
	bool belonged;

	if (!thread)
		return NULL;
	if (thread->cgroup == (unsigned long long)BPF_CORE_READ(task, cgroups, dfl_cgrp))
		return thread->belongs ? thread : NULL;
	belonged = thread->belongs;
	thread->belongs = below(task, &thread->cgroup);
	if (belonged != thread->belongs)
		count(thread, belonged ? -1 : 1);
	return thread->belongs ? thread : NULL;
}

/*
 * One that is not known, in this state; what it waits for is unknown then. Those of other cgroups
 * are entered, too, so that their cgroups are searched once.
 */
static __always_inline void enter(struct task_struct *task, bool waits)
{
	__u32 number = BPF_CORE_READ(task, pid);
	struct thread new = {.waits = waits, .unknown = waits};

	if (!number || bpf_map_lookup_elem(&threads, &number))
		return;
	new.belongs = below(task, &new.cgroup);
	if (bpf_map_update_elem(&threads, &number, &new, BPF_NOEXIST)) {
		__sync_fetch_and_add(&unplaced, 1);
		return;
	}
	if (new.belongs)
		count(&new, 1);
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
	if (thread->waits)
		return;
	what_for(task, &thread->wait);
	thread->unknown = !is_known(&thread->wait);
	if (thread->unknown)
		add_unknown(1);
	thread->waits = 1;
	add_awake(-1);
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

	if (!thread || !cpu || !thread->waits)
		return 0;
	note_end(&thread->wait, who_wakes(cpu));
	return 0;
}

static __always_inline void runs(struct thread *thread)
{
	if (!thread->waits)
		return;
	thread->waits = 0;
	if (thread->unknown)
		add_unknown(-1);
	thread->unknown = 0;
	add_awake(1);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_sched_wakeup, struct task_struct *task)
{
	struct thread *thread = foreground(task);

	if (thread)
		runs(thread);
	else
		enter(task, false);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_sched_wakeup_new, struct task_struct *task)
{
	enter(task, false);
	return 0;
}

static __always_inline void leaves(struct task_struct *task)
{
	__u32 number = BPF_CORE_READ(task, pid);
	struct thread *thread = bpf_map_lookup_elem(&threads, &number);

	if (!thread)
		return;
	if (thread->belongs)
		count(thread, -1);
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
			enter(previous, true);
	}
	/* It was made runnable before it had been switched out: Linux 6.12 leaves it queued then.
	 */
	thread = foreground(next);
	if (thread)
		runs(thread);
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

/* Those that are there at the start, or were moved. */
SEC("iter/task")
int enter_present(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct thread *thread;
	__u32 number;
	bool waits;

	if (!task)
		return 0;
	waits = BPF_CORE_READ(task, __state) != 0;
	number = BPF_CORE_READ(task, pid);
	thread = bpf_map_lookup_elem(&threads, &number);
	if (!thread) {
		enter(task, waits);
		return 0;
	}
	/* Others' waits are not followed. */
	if (!thread->belongs) {
		thread->waits = waits;
		thread->unknown = waits;
		thread->cgroup = 0;
	}
	foreground(task);
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

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Idle periods and their wakers on all CPUs, without events of its own.
 *
 * For each idle period the probes record its ends (TBI and TAI at power:cpu_idle), its first
 * interrupt (TIntr), and the timers that this interrupt runs. When the CPU next enters idle,
 * outside any measured span, the period is settled: its time is added to its state, its end to its
 * waker, and if that was a timer whose expiry fell into the period, its wake latency, first of
 * (TAI, TIntr) - expiry, to a histogram. Nothing is sent: the program reads the sums once per
 * refresh from shared memory, so watching wakes no CPU.
 *
 * The clock event is programmed for the earliest node.expires of all timers, so that is when the
 * CPU should wake; a timer with slack that ran before its own expiry is not considered.
 *
 * Only the CPU itself writes its `struct cpu`, and interrupts do not nest inside these programs;
 * senders write only `sender` and `late`.
 */
#include "kernel.h"
#include "live.h"
#include "histogram.h"
#include "pid_namespace.h"

/* The longest time between a message and its interrupt; long because of hypervisors. */
#define UNDERWAY_NS 100000ULL

/* Set before loading. */
/* Bit N: state N polls, and continues after an interrupt that gave it no work. */
const volatile unsigned int polling_states = 1;
const volatile unsigned int counters;
/* Wakers are counted and named, beside latencies. */
const volatile bool wakers_wanted;
/* Joint sleeps are counted. */
const volatile bool joints_wanted;
/* The kernel has csd:csd_queue_cpu, for each call queued for another CPU (since 6.6). */
const volatile bool has_csd_queue_cpu;
/* Addresses of functions; 0: unknown. */
const volatile unsigned long long hrtimer_wakeup;
const volatile unsigned long long posix_timer_fn;
const volatile unsigned long long it_real_fn;
const volatile unsigned long long tick;
const volatile unsigned long long process_timeout;
const volatile unsigned long long delayed_work_timer_fn;

/* The number of the refresh, from 1: counters are read once for each. */
unsigned long long refresh;
/* Wake-ups that did not fit into `wakers`. */
unsigned long long unplaced;

/* The last message to several CPUs at once. */
static struct sender broadcast;

/* Sized by the program before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* MAX_STATES for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_STATES);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

/* The machine's, then the packages'. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct joint);
} joints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct waker);
	__type(value, struct woken);
} wakers SEC(".maps");

/* MAX_COUNTERS for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, MAX_COUNTERS);
	__type(key, __u32);
	__type(value, __u32);
} counter_events SEC(".maps");

static __always_inline struct cpu *cpu_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct cpu *this_cpu(void)
{
	return cpu_of(bpf_get_smp_processor_id());
}

static __always_inline bool polls(const struct cpu *cpu)
{
	return polling_states >> (cpu->state & 31) & 1;
}

/* Reads the counters once per refresh, without disturbing a sleep. */
static __always_inline void sample(struct cpu *cpu)
{
	__u32 first = bpf_get_smp_processor_id() * MAX_COUNTERS;

	if (!counters || cpu->sampled == refresh)
		return;
	/* Bounded by a constant, so that old verifiers accept it. */
	_Pragma("unroll") for (__u32 i = 0; i < MAX_COUNTERS; i++)
	{
		struct bpf_perf_event_value value = {};

		if (i >= counters)
			break;
		if (bpf_perf_event_read_value(&counter_events, first + i, &value, sizeof(value)))
			value.counter = COUNTER_UNREADABLE;
		cpu->counters[i] = value.counter;
	}
	cpu->sampled_at = bpf_ktime_get_ns();
	cpu->sampled = refresh;
}

/*
 * Joint sleep: the last CPU to fall asleep begins it, the first one to wake ends it.
 */

static __always_inline void falls_asleep(__u32 index, __u64 now)
{
	struct joint *joint = bpf_map_lookup_elem(&joints, &index);

	/* Not back: a CPU that was paused here would undo what others have noted since. */
	if (joint && __sync_fetch_and_add(&joint->asleep, 1) + 1 == joint->cpus &&
	    now > joint->since)
		joint->since = now;
}

/* Whether that ended a joint sleep. */
static __always_inline bool wakes(__u32 index, __u64 now)
{
	struct joint *joint = bpf_map_lookup_elem(&joints, &index);
	__u64 since, length;
	__u32 place;

	if (!joint || __sync_fetch_and_add(&joint->asleep, -1) != joint->cpus)
		return false;
	since = joint->since;
	/* The last one to fall asleep has not noted it yet, or its time is after this one's. */
	length = since > joint->ended && since < now ? now - since : 0;
	joint->ended = now;
	if (!length)
		return false;
	__sync_fetch_and_add(&joint->times, 1);
	__sync_fetch_and_add(&joint->time, length);
	place = bucket(length >> 10);
	/* The compiler knows bounds that the verifier does not, and would leave out the check. */
	asm volatile("" : "+r"(place));
	if (place < BUCKETS)
		__sync_fetch_and_add(&joint->lengths[place], 1);
	else
		__sync_fetch_and_add(&joint->lengths[BUCKETS - 1], 1);
	return true;
}

static __always_inline void together(struct cpu *cpu, bool asleep, __u64 now)
{
	if (!joints_wanted || cpu->asleep == asleep)
		return;
	cpu->asleep = asleep;
	if (asleep) {
		falls_asleep(0, now);
		if (cpu->package)
			falls_asleep(cpu->package, now);
		return;
	}
	if (wakes(0, now))
		cpu->ended_joint = cpu->period;
	if (cpu->package)
		wakes(cpu->package, now);
}

/*
 * Settling.
 */

static __always_inline void add_latency(struct cpu *cpu, struct tally *tally)
{
	__u64 first = cpu->tintr && cpu->tintr < cpu->tai ? cpu->tintr : cpu->tai;
	__u64 latency;
	__u32 index;

	if (!cpu->expires || cpu->overdue || cpu->nmis || cpu->interrupts != 1 ||
	    cpu->expires <= cpu->tbi || cpu->expires >= first)
		return;
	latency = first - cpu->expires;
	tally->latency_count++;
	tally->latency_sum += latency;
	if (latency > tally->latency_max)
		tally->latency_max = latency;
	index = bucket(latency);
	if (index < BUCKETS)
		tally->latencies[index]++;
	cpu->latencies++;
}

static __always_inline void put_command(char *to, const char *from)
{
	__builtin_memcpy(to, from, 16);
}

/* Whether its interrupt may have been in flight when the period began. */
static __always_inline bool was_underway(const struct sender *sender, const struct cpu *cpu)
{
	return sender->time + UNDERWAY_NS > cpu->tbi && sender->time < cpu->tintr;
}

/* Fills in the sender, if it is known. */
static __always_inline __u32 name_sender(struct cpu *cpu, struct waker *waker)
{
	const struct sender *sender = &cpu->sender;

	if (sender->period != cpu->period)
		sender = was_underway(&cpu->late, cpu) ? &cpu->late : &broadcast;
	if (sender == &broadcast &&
	    (waker->cause != CAUSE_CALL_FUNCTION || !was_underway(sender, cpu)))
		return 0;
	waker->function = sender->function;
	put_command(waker->command, sender->command);
	return sender->pid;
}

static __always_inline __u32 name_timer(struct cpu *cpu, struct waker *waker)
{
	const struct owner *owner = &cpu->hrtimer;

	if (tick && owner->function == tick && cpu->wheel.known)
		owner = &cpu->wheel;
	waker->function = owner->function;
	put_command(waker->command, owner->command);
	if (!waker->command[0])
		waker->pid = owner->pid;
	return owner->pid;
}

static __always_inline void count_waker(struct cpu *cpu, __u32 number)
{
	struct waker waker = {.cpu = number, .cause = cpu->cause};
	struct woken *woken, first = {.times = 1};
	bool ended_joint;
	__u32 pid = 0;

	if (cpu->cause == CAUSE_TIMER)
		pid = name_timer(cpu, &waker);
	else if (cpu->cause == CAUSE_DEVICE)
		waker.irq = cpu->irq;
	else if (cpu->cause != CAUSE_OTHER)
		pid = name_sender(cpu, &waker);
	ended_joint = cpu->ended_joint == cpu->period;
	woken = bpf_map_lookup_elem(&wakers, &waker);
	if (woken) {
		/* The key contains the CPU, so no other CPU writes here. */
		woken->times++;
		woken->joint += ended_joint;
		woken->pid = pid;
		return;
	}
	first.pid = pid;
	first.joint = ended_joint;
	if (bpf_map_update_elem(&wakers, &waker, &first, BPF_NOEXIST))
		__sync_fetch_and_add(&unplaced, 1);
}

/* Settles the period that ended before this idle entry. */
static __always_inline void settle(struct cpu *cpu, __u32 number)
{
	__u32 key = number * MAX_STATES + (__u32)cpu->state;
	struct tally *tally;

	/* Not observed from its beginning to its end. */
	if (!cpu->tbi || !cpu->tai)
		return;
	if ((__u32)cpu->state >= MAX_STATES)
		return;
	tally = bpf_map_lookup_elem(&tallies, &key);
	if (!tally)
		return;
	tally->uses++;
	tally->time += cpu->tai - cpu->tbi;
	/* The flag woke the CPU, unless an interrupt had ended the sleep before. */
	if (cpu->sender.by_flag && cpu->sender.period == cpu->period &&
	    (polls(cpu) || !cpu->tintr || cpu->tintr > cpu->tai))
		cpu->cause = CAUSE_FLAG;
	if (cpu->cause == CAUSE_NONE)
		return;
	cpu->wakeups++;
	if (cpu->cause == CAUSE_TIMER) {
		cpu->by_timer++;
		add_latency(cpu, tally);
	}
	if (wakers_wanted)
		count_waker(cpu, number);
}

static __always_inline void forget_cause(struct cpu *cpu)
{
	cpu->cause = CAUSE_NONE;
	cpu->expires = 0;
	cpu->overdue = 0;
	cpu->hrtimer.known = 0;
	cpu->wheel.known = 0;
}

static __always_inline void begin(struct cpu *cpu, int state)
{
	forget_cause(cpu);
	cpu->state = state;
	cpu->period++;
	cpu->tintr = 0;
	cpu->interrupts = 0;
	cpu->nmis = 0;
	cpu->closed = 0;
	cpu->sender.by_flag = 0;
	cpu->tai = 0;
	cpu->tbi = bpf_ktime_get_ns();
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, unsigned int state, unsigned int number)
{
	struct cpu *cpu = cpu_of(number);

	if (!cpu)
		return 0;
	if (state == PWR_EVENT_EXIT) {
		cpu->tai = bpf_ktime_get_ns();
		together(cpu, false, cpu->tai);
		return 0;
	}
	sample(cpu);
	/* Full barriers: the reader sees all of a period or none of it. */
	__sync_fetch_and_add(&cpu->seq, 1);
	settle(cpu, number);
	begin(cpu, state);
	__sync_fetch_and_add(&cpu->seq, 1);
	together(cpu, !polls(cpu), cpu->tbi);
	return 0;
}

/*
 * Interrupts that end idle periods.
 */

static __always_inline int interrupt(enum cause cause, __u32 irq)
{
	struct cpu *cpu = this_cpu();
	__u64 time;

	if (!cpu || cpu->closed || !cpu->tbi)
		return 0;
	time = bpf_ktime_get_ns();
	/* If a state is entered with interrupts off, the idle task takes the interrupt that ended
	 * it, as soon as they are on again after TAI. Once another task runs, interrupts are
	 * unrelated. */
	if (cpu->tai ? cpu->interrupts || !is_idle_task() : cpu->interrupts && !polls(cpu)) {
		cpu->closed = 1;
		return 0;
	}
	if (cpu->interrupts++) {
		/* The previous one gave a polling CPU no work. */
		forget_cause(cpu);
	} else {
		cpu->tintr = time;
	}
	cpu->cause = cause;
	cpu->irq = irq;
	return 0;
}

#define INTERRUPT(tracepoint, cause)                                                               \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(on_##tracepoint)                                                              \
	{                                                                                          \
		return interrupt(cause, 0);                                                        \
	}

/* irq_vectors: x86. */
INTERRUPT(call_function_single_entry, CAUSE_CALL_FUNCTION)
INTERRUPT(call_function_entry, CAUSE_CALL_FUNCTION)
INTERRUPT(reschedule_entry, CAUSE_RESCHEDULE)
INTERRUPT(irq_work_entry, CAUSE_IRQ_WORK)
INTERRUPT(x86_platform_ipi_entry, CAUSE_OTHER)
INTERRUPT(error_apic_entry, CAUSE_OTHER)
INTERRUPT(spurious_apic_entry, CAUSE_OTHER)
INTERRUPT(thermal_apic_entry, CAUSE_OTHER)
INTERRUPT(threshold_apic_entry, CAUSE_OTHER)
INTERRUPT(deferred_error_apic_entry, CAUSE_OTHER)
/* ipi: arm64 and others, where only the vector's text has its purpose. */
INTERRUPT(ipi_entry, CAUSE_CALL_FUNCTION)

SEC("tp_btf/local_timer_entry")
int BPF_PROG(on_local_timer_entry)
{
	struct cpu *cpu = this_cpu();

	/* A CPU that has not idled since watching began reads its counters at its tick. */
	if (cpu && (cpu->tai || !cpu->tbi))
		sample(cpu);
	return interrupt(CAUSE_TIMER, 0);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	return interrupt(CAUSE_DEVICE, irq);
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi_handler)
{
	struct cpu *cpu = this_cpu();

	if (cpu && !cpu->closed)
		cpu->nmis++;
	return 0;
}

/*
 * Timers that the first interrupt runs.
 */

static __always_inline void own_by_task(struct owner *owner, struct task_struct *task)
{
	if (!task)
		return;
	owner->pid = process_here(task);
	bpf_core_read(owner->command, sizeof(owner->command), &task->comm);
}

static __always_inline void own_by_pid(struct owner *owner, struct pid *pid)
{
	if (pid)
		owner->pid = number_here(pid);
}

/* `type` that contains the kernel's `member` at `pointer`. */
#define CONTAINER(pointer, type, member)                                                           \
	((struct type *)((void *)(pointer)-bpf_core_field_offset(struct type, member)))

static __always_inline void own_hrtimer(struct owner *owner, struct hrtimer *timer)
{
	__builtin_memset(owner, 0, sizeof(*owner));
	owner->known = 1;
	owner->function = (__u64)BPF_CORE_READ(timer, function);
	if (!owner->function)
		return;
	if (owner->function == hrtimer_wakeup)
		own_by_task(owner, BPF_CORE_READ(CONTAINER(timer, hrtimer_sleeper, timer), task));
	else if (owner->function == posix_timer_fn && bpf_core_field_exists(struct k_itimer, it))
		own_by_pid(owner, BPF_CORE_READ(CONTAINER(timer, k_itimer, it.real.timer), it_pid));
	else if (owner->function == it_real_fn)
		own_by_pid(owner, BPF_CORE_READ(CONTAINER(timer, signal_struct, real_timer),
						pids[PIDTYPE_TGID]));
}

static __always_inline bool runs_timers(const struct cpu *cpu)
{
	return cpu && cpu->interrupts && !cpu->closed;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	struct cpu *cpu = this_cpu();
	__u64 expires;

	if (!runs_timers(cpu))
		return 0;
	/* Converted to CLOCK_MONOTONIC: other clocks are ahead by their base's offset. */
	expires = BPF_CORE_READ(timer, node.expires) - BPF_CORE_READ(timer, base, offset);
	if (expires <= cpu->tbi)
		cpu->overdue = 1;
	if (cpu->hrtimer.known && expires >= cpu->expires)
		return 0;
	cpu->expires = expires;
	cpu->hrtimer.known = 1;
	if (wakers_wanted)
		own_hrtimer(&cpu->hrtimer, timer);
	/* If the timer's interrupt has no tracepoint of its own. */
	if (cpu->cause == CAUSE_DEVICE && !BPF_CORE_READ(timer, is_soft))
		cpu->cause = CAUSE_TIMER;
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_expire_entry, struct timer_list *timer)
{
	struct cpu *cpu = this_cpu();
	struct owner *owner;

	if (!runs_timers(cpu) || cpu->wheel.known)
		return 0;
	owner = &cpu->wheel;
	__builtin_memset(owner, 0, sizeof(*owner));
	owner->known = 1;
	owner->function = (__u64)BPF_CORE_READ(timer, function);
	if (!owner->function)
		return 0;
	if (owner->function == process_timeout)
		own_by_task(owner, BPF_CORE_READ(CONTAINER(timer, process_timer, timer), task));
	else if (owner->function == delayed_work_timer_fn)
		owner->function =
		    (__u64)BPF_CORE_READ(CONTAINER(timer, delayed_work, timer), work.func);
	return 0;
}

/*
 * Messages from other CPUs, observed where they are sent.
 */

static __always_inline void sign(struct sender *sender, __u64 function)
{
	sender->time = bpf_ktime_get_ns();
	sender->function = function;
	sender->pid = process_here(bpf_get_current_task_btf());
	bpf_get_current_comm(sender->command, sizeof(sender->command));
}

static __always_inline bool sleeps(const struct cpu *cpu)
{
	return cpu->tbi && !cpu->tai;
}

static __always_inline void send(__u32 number, __u64 function, bool by_flag)
{
	struct cpu *cpu = cpu_of(number);
	__u64 period;

	if (!cpu)
		return;
	period = cpu->period;
	if (!sleeps(cpu)) {
		sign(&cpu->late, function);
		return;
	}
	/* The first sender of a period is its waker. */
	if (cpu->sender.period != period) {
		sign(&cpu->sender, function);
		/* A full barrier: a reader that sees the period sees the rest. */
		__sync_lock_test_and_set(&cpu->sender.period, period);
	}
	if (by_flag)
		cpu->sender.by_flag = 1;
}

/* Raw: the verifier does not let a typed program read a pointer to a function. */
SEC("raw_tp/csd_queue_cpu")
int on_csd_queue_cpu(struct bpf_raw_tracepoint_args *context)
{
	/* cpu, callsite, func, csd */
	send(context->args[0], context->args[2], false);
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_ipi_send_cpu, unsigned int number, unsigned long callsite, void *callback)
{
	/* A call was observed when it was queued, with its function. */
	if (!callback || !has_csd_queue_cpu)
		send(number, (__u64)callback, false);
	return 0;
}

SEC("tp_btf/ipi_send_cpumask")
int BPF_PROG(on_ipi_send_cpumask, void *mask, unsigned long callsite, void *callback)
{
	if (!has_csd_queue_cpu)
		sign(&broadcast, (__u64)callback);
	return 0;
}

SEC("tp_btf/sched_wake_idle_without_ipi")
int BPF_PROG(on_sched_wake_idle_without_ipi, int number)
{
	send(number, 0, true);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Wake-ups of one CPU, observed in its idle loop.
 *
 * A source launches an event for a known instant, the launch time (LT). Probes take the time
 * before idle (TBI) and after idle (TAI) at power:cpu_idle, and at the first interrupt's entry
 * (TIntr). `now` holds the current idle period; a launch that fell into it is settled when the CPU
 * next enters idle, outside any measured span: it becomes an event in the ring buffer, or is
 * counted as dropped, by reason.
 *
 * The timer source needs no thread on the measured CPU: the timer's callback arms the next launch.
 * The remote source is a thread on another CPU; its message is timestamped where the kernel sends
 * it.
 *
 * Only the measured CPU writes `hot.now`, `fired` and, with the timer source, `armed`. The programs
 * at idle and at interrupts run with interrupts off; the timer's callback (a softirq) and
 * start_timer (a system call) do not, so they clear `pending` before they settle a launch, and set
 * it last when they fill one in. NMIs only count. With the remote source the waking CPU fills
 * `armed` and sets `pending` last; the measured CPU clears `pending`.
 */
#include "packet.h"
#include <linux/errno.h>
#include <stddef.h>
#include "intf.h"

/* Flags of bpf_timer_start since 6.4 and 6.7. The build machine's header may be older. */
#define TIMER_ABSOLUTE (1ULL << 0)
#define TIMER_PINNED (1ULL << 1)

#define CLOCK_MONOTONIC 1

/* Since 6.2: reads kernel memory as a given type without a helper call. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

#define AWAKE (-1)

#define NEVER (~0ULL)

/* Set before loading. */
const volatile unsigned int cpu;
const volatile enum source source;
const volatile unsigned int counters;
/* Index of the SMI count among the counters, or MAX_COUNTERS. */
const volatile unsigned int smi_counter = MAX_COUNTERS;
/* The kernel lacks irq_vectors:local_timer_entry: the timer's expiry stands for its interrupt. */
const volatile bool expiry_is_interrupt;
/* Bit N: state N polls, so an interrupt does not end it. */
const volatile unsigned int polling_states;
/* Blocks of `cold`; 0: caches are left as they are. */
const volatile unsigned int cold_blocks;
/* The device source's interrupt. */
const volatile int device_irq = -1;
/* The interface that is pinged through, and its network namespace. */
const volatile int interface;
const volatile unsigned int namespace;

/* Set by the program while running. */
struct hot hot __attribute__((aligned(64)));
unsigned long long distances[DISTANCES];
/* The remote source's waking thread, by its ID in the initial PID namespace (0: none), and when it
 * began to wait. */
unsigned int waker;
unsigned long long waker_armed_at;
unsigned int stop;
/* When the device's next interrupt was armed. */
unsigned long long device_armed_at;
/* The number of the launch that is waited for: a reply's identifier and number, or counted; 0:
 * none. */
unsigned int awaited;

/* Read by the program. */
unsigned long long launched;
/* Each settled launch is either sent or dropped. */
unsigned long long sent;
struct drops dropped;
unsigned long long idle_entries;
unsigned long long timer_flags;
/* Launches whose callback ran on another CPU: the timer was not pinned, and the kernel moved it.
 * They are settled, but not counted in `dropped`, which only the measured CPU writes. */
unsigned long long strayed;
/* Pings without a reply and target times without an interrupt, which the program counts: they are
 * settled, and not in `launched` or `dropped`. */
unsigned long long unanswered;
/* The measured CPU went offline or came back. */
unsigned int replugged;
/* Results of the characterisation, ns. */
unsigned long long costs[COST_ROUNDS];

static unsigned int next_distance;
/* The expiry of the timer that is being armed, from timer:hrtimer_start. */
static bool arming;
static unsigned long long armed_expiry;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* Some 6000 events: at ten reads per second, 60 000 events per second. */
	__uint(max_entries, 512 << 10);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, MAX_COUNTERS);
	__type(key, __u32);
	__type(value, __u32);
} counter_events SEC(".maps");

struct cold_block {
	unsigned char bytes[COLD_BLOCK_SIZE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* `cold_blocks`, set before loading */
	__type(key, __u32);
	__type(value, struct cold_block);
} cold SEC(".maps");

struct alarm {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

/* The size of a sent event: constant when the program is verified. */
#define EVENT_SIZE (offsetof(struct event, counters) + counters * sizeof(struct counted))

/* The loop is bounded by a constant, so that old verifiers accept it; `counters` is read-only data,
 * so the verifier removes the rest as dead code. */
#define READ_COUNTERS(field)                                                                       \
	_Pragma("unroll") for (unsigned int i = 0; i < MAX_COUNTERS; i++)                          \
	{                                                                                          \
		struct bpf_perf_event_value value = {};                                            \
                                                                                                   \
		if (i >= counters)                                                                 \
			break;                                                                     \
		/* The measured CPU's events are stored by the counter's index. */                 \
		if (bpf_perf_event_read_value(&counter_events, i, &value, sizeof(value)))          \
			value.counter = COUNTER_UNREADABLE;                                        \
		hot.now.counters[i].field = value.counter;                                         \
	}

static __always_inline unsigned long long first_seen(void)
{
	if (!hot.now.tintr || (hot.now.tai && hot.now.tai < hot.now.tintr))
		return hot.now.tai;
	return hot.now.tintr;
}

/* The launch has a number here, and its time is the program's to find. */
static __always_inline bool program_knows_time(void)
{
	return source == SOURCE_REPLY || source == SOURCE_NIC;
}

/* Its launch time is in `fired`: `armed` is of sources that know it beforehand. */
static __always_inline bool launch_is_known_late(void)
{
	return source == SOURCE_DEVICE || program_knows_time();
}

static __always_inline bool is_message(enum vector vector)
{
	return vector == VECTOR_CALL_FUNCTION_SINGLE || vector == VECTOR_CALL_FUNCTION ||
	       vector == VECTOR_IPI;
}

/* The drop count of a launch; NULL if it becomes a datapoint. */
static __always_inline unsigned long long *judge(const struct launch *launch)
{
	/* Where the program knows the launch time, it compares the times again. */
	const bool has_time = !program_knows_time();
	unsigned long long first;

	if (hot.now.state == AWAKE
		? !hot.awake_counts
		: !hot.now.tbi || (has_time && hot.now.tbi >= launch->time) || launch->found_awake)
		return &dropped.not_idle;
	if (launch->by_flag && hot.now.tai && hot.now.tintr > hot.now.tai) {
		/* A flag comes without an interrupt: this one is unrelated. */
		hot.now.tintr = 0;
		hot.now.vector = VECTOR_NONE;
		hot.now.interrupts--;
	}
	first = first_seen();
	if (!first)
		return &dropped.no_interrupt;
	if (has_time && first <= launch->time)
		return &dropped.not_idle;
	if (hot.now.nmis)
		return &dropped.nmi;
	/* Without TAI the counters were not read in this period. */
	if (smi_counter < MAX_COUNTERS && hot.now.tai &&
	    hot.now.counters[smi_counter].after != hot.now.counters[smi_counter].before)
		return &dropped.smi;
	if (hot.now.interrupts > (launch->by_flag ? 0 : 1))
		return &dropped.other_interrupt;
	if (source == SOURCE_TIMER) {
		if (!hot.now.tintr)
			return &dropped.no_interrupt;
		if (hot.now.vector != VECTOR_LOCAL_TIMER && hot.now.vector != VECTOR_TIMER_EXPIRY)
			return &dropped.other_interrupt;
	} else if (launch_is_known_late()) {
		if (!hot.now.tintr)
			return &dropped.no_interrupt;
		if (hot.now.vector != VECTOR_SOURCE)
			return &dropped.other_interrupt;
		if (launch->packets)
			return &dropped.other_packet;
	} else if (!launch->by_flag) {
		if (!hot.now.tintr)
			return &dropped.no_interrupt;
		if (!is_message(hot.now.vector))
			return &dropped.other_interrupt;
	}
	/* One interrupt serves several timers. If another was due before LT and the interrupt came
	 * after LT, the CPU was already waking at LT. */
	if (has_time && hot.now.timer_due < launch->time)
		return &dropped.earlier_timer;
	return NULL;
}

/* Ends a launch: an event, or a counted drop. */
static __always_inline void settle(const struct launch *launch)
{
	unsigned long long *drop = judge(launch);

	if (!drop) {
		hot.now.launch = launch->time;
		hot.now.armed_at = launch->armed_at;
		hot.now.launch_error = launch->error;
		hot.now.launch_clock = launch->clock;
		hot.now.number = launch->number;
		hot.now.by_flag = launch->by_flag;
		/* No wake-up of the reader: it polls. */
		drop = bpf_ringbuf_output(&events, &hot.now, EVENT_SIZE, BPF_RB_NO_WAKEUP)
			   ? &dropped.ring_full
			   : &sent;
	}
	(*drop)++;
}

static __always_inline void settle_armed(void)
{
	settle(&hot.armed);
	/* A full barrier: the waking CPU reuses `armed` when it sees this. */
	__sync_lock_test_and_set(&hot.armed.pending, 0);
}

static __always_inline void settle_fired(void)
{
	hot.fired.pending = 0;
	barrier();
	settle(&hot.fired);
}

static __always_inline void settle_what_fired(void)
{
	if (source == SOURCE_REMOTE) {
		if (!hot.armed.pending)
			return;
		settle_armed();
	} else if (hot.fired.pending) {
		settle_fired();
	}
}

/*
 * When the measured CPU's own timer is due, CLOCK_MONOTONIC: the time for which its clock event
 * device is programmed. This includes timers that run in softirqs, and a timer with slack by the
 * end of its slack. It cannot become earlier while the CPU sleeps: another CPU neither arms a timer
 * here that would be the first (hrtimer_check_target()) nor programs this CPU's device.
 */
static __always_inline unsigned long long timer_due(void)
{
	const struct hrtimer_cpu_base *base = (const void *)hot.timers;
	unsigned long long due;

	if (!base || !bpf_core_field_exists(struct hrtimer_cpu_base, expires_next))
		return NEVER;
	if (bpf_rdonly_cast) {
		base = bpf_rdonly_cast(base, bpf_core_type_id_kernel(struct hrtimer_cpu_base));
		return base->expires_next;
	}
	return bpf_core_read(&due, sizeof(due), &base->expires_next) ? NEVER : due;
}

static __always_inline void begin_window(int state, unsigned long long entry)
{
	hot.now.tai = 0;
	hot.now.tintr = 0;
	hot.now.vector = VECTOR_NONE;
	hot.now.interrupts = 0;
	hot.now.softirqs = 0;
	hot.now.nmis = 0;
	hot.now.state = state;
	hot.now.entry = entry;
	hot.now.timer_due = timer_due();
}

static long read_cold_block(__u32 index, void *unused)
{
	const struct cold_block *block = bpf_map_lookup_elem(&cold, &index);

	if (!block)
		return 1;
	for (unsigned int at = 0; at < COLD_BLOCK_SIZE; at += COLD_LINE_SIZE)
		(void)*(const volatile unsigned char *)&block->bytes[at];
	return 0;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, unsigned int state, unsigned int cpu_id)
{
	if (cpu_id != cpu)
		return 0;
	if (state == PWR_EVENT_EXIT) {
		if (!hot.idle)
			return 0; /* the probes were attached during this idle period */
		hot.now.tai = bpf_ktime_get_ns();
		hot.idle = 0;
		READ_COUNTERS(after)
		return 0;
	}
	settle_what_fired();
	if (cold_blocks)
		bpf_loop(cold_blocks, read_cold_block, NULL, 0);
	begin_window(state, ++idle_entries);
	READ_COUNTERS(before)
	hot.idle = 1;
	hot.now.tbi = bpf_ktime_get_ns();
	return 0;
}

/* A message to an awake CPU is settled at once: a CPU that never idles would never settle it. */
static __always_inline void settle_message_to_awake(enum vector vector, bool launched_before)
{
	if (source != SOURCE_REMOTE || !launched_before || hot.armed.by_flag ||
	    !is_message(vector) || hot.now.tai > hot.armed.time)
		return;
	settle_armed();
}

/* Whether the CPU polls again since the timer's callback: false if other softirqs ran. */
static __always_inline bool polls_again(void)
{
	return polling_states >> (hot.now.state & 31) & 1 && hot.now.softirqs == hot.fired_softirqs;
}

static __always_inline int interrupt(enum vector vector)
{
	unsigned long long time;
	bool launched_before;

	if (bpf_get_smp_processor_id() != cpu)
		return 0;
	time = bpf_ktime_get_ns();
	launched_before = launch_is_known_late() ? vector == VECTOR_SOURCE
						 : hot.armed.pending && time >= hot.armed.time;
	if (program_knows_time() && vector == VECTOR_SOURCE) {
		hot.packets = 0;
		hot.found_awake = !hot.idle && (!hot.now.tai || hot.now.tintr);
	}
	if (hot.awake_counts && !hot.idle) {
		/* The floor on an awake CPU: the interrupt alone makes the datapoint. */
		if (!launched_before)
			return 0;
		begin_window(AWAKE, 0);
		hot.now.tbi = 0;
		hot.now.tintr = time;
		hot.now.vector = vector;
		hot.now.interrupts = 1;
		if (!launch_is_known_late())
			settle_armed();
		return 0;
	}
	/* Only idle periods whose entry was seen count: until they end, and then for the one
	 * interrupt that ended them, if it is taken after TAI. */
	if (!hot.idle && (!hot.now.tai || hot.now.tintr)) {
		settle_message_to_awake(vector, launched_before);
		return 0;
	}
	if (hot.idle && hot.fired.pending) {
		settle_fired();
		if (polls_again()) {
			/* It took the timer's interrupt without leaving its idle state: a new
			 * silent time begins after the callback. */
			begin_window(hot.now.state, hot.now.entry);
			hot.now.tbi = hot.fired_until;
		} else {
			/* It is awake, before power:cpu_idle reports it: no launch before the next
			 * entry wakes it. */
			hot.now.tbi = 0;
		}
	}
	/* Other handlers on the source's line follow; the first entry is the interrupt's. */
	if (vector != VECTOR_SOURCE || hot.now.vector != VECTOR_SOURCE)
		hot.now.interrupts++;
	if (hot.idle && !launched_before)
		return 0;
	if (!hot.now.tintr) {
		hot.now.tintr = time;
		hot.now.vector = vector;
	}
	if (!hot.idle)
		settle_message_to_awake(vector, launched_before);
	return 0;
}

#define INTERRUPT(tracepoint, vector)                                                              \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(on_##tracepoint)                                                              \
	{                                                                                          \
		return interrupt(vector);                                                          \
	}

/* irq_vectors: x86. */
INTERRUPT(local_timer_entry, VECTOR_LOCAL_TIMER)
INTERRUPT(call_function_single_entry, VECTOR_CALL_FUNCTION_SINGLE)
INTERRUPT(call_function_entry, VECTOR_CALL_FUNCTION)
INTERRUPT(reschedule_entry, VECTOR_RESCHEDULE)
INTERRUPT(irq_work_entry, VECTOR_IRQ_WORK)
INTERRUPT(x86_platform_ipi_entry, VECTOR_OTHER)
INTERRUPT(error_apic_entry, VECTOR_OTHER)
INTERRUPT(spurious_apic_entry, VECTOR_OTHER)
INTERRUPT(thermal_apic_entry, VECTOR_OTHER)
INTERRUPT(threshold_apic_entry, VECTOR_OTHER)
INTERRUPT(deferred_error_apic_entry, VECTOR_OTHER)
/* ipi: arm64 and others. */
INTERRUPT(ipi_entry, VECTOR_IPI)

/* The launch that was waited for has come. */
static __always_inline void note_numbered_launch(__u32 number, __u32 packets)
{
	launched++;
	if (bpf_get_smp_processor_id() != cpu) {
		strayed++;
		return;
	}
	/* The CPU has not been idle since the launch before. */
	if (hot.fired.pending)
		settle_fired();
	hot.fired.number = number;
	hot.fired.packets = packets;
	hot.fired.found_awake = hot.found_awake;
	hot.fired.armed_at = device_armed_at;
	hot.fired_softirqs = hot.now.softirqs;
	hot.fired_until = bpf_ktime_get_ns();
	barrier();
	hot.fired.pending = 1;
	if (hot.awake_counts && !hot.idle && hot.now.state == AWAKE)
		settle_fired();
}

/* True for one of those who find it: the program gives it up in the same way. */
static __always_inline bool take_awaited(__u32 number)
{
	/* A full barrier. */
	return number && number == awaited && __sync_lock_test_and_set(&awaited, 0) == number;
}

/*
 * irq: every architecture. NIC source: the card's interrupt at a target time of its clock, which
 * the program alone can read. It may come for another cause, ahead of the launch; then the program
 * finds that by the times.
 */
SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	interrupt(irq == device_irq ? VECTOR_SOURCE : VECTOR_DEVICE);
	if (source == SOURCE_NIC && irq == device_irq) {
		__u32 number = awaited;

		if (take_awaited(number))
			note_numbered_launch(number, 0);
	}
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry)
{
	return expiry_is_interrupt ? interrupt(VECTOR_TIMER_EXPIRY) : 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry)
{
	if (bpf_get_smp_processor_id() == cpu && !(hot.now.tintr && hot.now.tai))
		hot.now.softirqs++;
	return 0;
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi_handler)
{
	if (bpf_get_smp_processor_id() == cpu && !(hot.now.tintr && hot.now.tai))
		hot.now.nmis++;
	return 0;
}

/*
 * The CPU may be offline for less than the reader's interval, but its timers, counters and threads
 * have moved. A CPU that goes offline has a target below CPUHP_ONLINE; when a module registers its
 * callbacks (msr, a PMU), the target is not below it.
 */
SEC("tp_btf/cpuhp_enter")
int BPF_PROG(on_cpuhp_enter, unsigned int changed, int target)
{
	if (changed == cpu && target < (int)bpf_core_enum_value(enum cpuhp_state, CPUHP_ONLINE))
		replugged = 1;
	return 0;
}

/*
 * Any timer armed on the measured CPU points to its hrtimer_cpu_base. The symbol hrtimer_bases
 * would need CONFIG_KALLSYMS_ALL. Without high resolution the tick serves timers, and
 * `expires_next` is not kept up to date.
 */
static __always_inline void find_timers(struct hrtimer *hrtimer)
{
	struct hrtimer_cpu_base *base;

	if (!bpf_core_field_exists(struct hrtimer, base) ||
	    !bpf_core_field_exists(struct hrtimer_clock_base, cpu_base) ||
	    !bpf_core_field_exists(struct hrtimer_cpu_base, cpu) ||
	    !bpf_core_field_exists(struct hrtimer_cpu_base, hres_active) ||
	    !bpf_core_field_exists(struct hrtimer_cpu_base, expires_next))
		return;
	base = hrtimer->base->cpu_base;
	if (base->cpu == cpu && BPF_CORE_READ_BITFIELD(base, hres_active))
		hot.timers = (unsigned long long)base;
}

/* A relative timer's expiry is known only here. */
SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_hrtimer_start, struct hrtimer *hrtimer)
{
	if (!hot.timers)
		find_timers(hrtimer);
	if (arming && bpf_get_smp_processor_id() == cpu)
		armed_expiry = BPF_CORE_READ(hrtimer, node.expires);
	return 0;
}

/*
 * Timer source.
 */

static int arm_next(struct alarm *alarm)
{
	unsigned long long distance = distances[next_distance++ & (DISTANCES - 1)];
	unsigned long long armed_at = bpf_ktime_get_ns();
	unsigned long long launch = armed_at + distance;
	long result;

	/* Before the timer is started: its callback may run at once. */
	hot.armed.time = launch;
	hot.armed.armed_at = armed_at;
	hot.armed.pending = 1;
	launched++;
	barrier();
	if (timer_flags & TIMER_ABSOLUTE) {
		result = bpf_timer_start(&alarm->timer, launch, timer_flags);
	} else {
		armed_expiry = 0;
		arming = true;
		result = bpf_timer_start(&alarm->timer, distance, timer_flags);
		arming = false;
		if (armed_expiry && hot.armed.armed_at == armed_at)
			hot.armed.time = armed_expiry;
	}
	if (result) {
		hot.armed.pending = 0;
		launched--;
	}
	return result;
}

static int on_alarm(void *map, __u32 *key, struct alarm *alarm)
{
	unsigned int pending;

	if (bpf_get_smp_processor_id() != cpu) {
		hot.armed.pending = 0;
		strayed++;
		return 0;
	}
	/* The CPU has not been idle since the launch before. */
	if (hot.fired.pending)
		settle_fired();
	/* Cleared already if its interrupt was the datapoint (floor). */
	pending = hot.armed.pending;
	hot.fired.time = hot.armed.time;
	hot.fired.armed_at = hot.armed.armed_at;
	hot.armed.pending = 0;
	if (!stop)
		arm_next(alarm);
	hot.fired_softirqs = hot.now.softirqs;
	hot.fired_until = bpf_ktime_get_ns();
	barrier();
	hot.fired.pending = pending;
	return 0;
}

/* Starts the chain of launches on the CPU that runs this: the measured one. */
SEC("syscall")
int start_timer(void *context)
{
	__u32 key = 0;
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &key);
	int result;

	if (!alarm)
		return -ENOENT;
	result = bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC);
	if (result && result != -EBUSY)
		return result;
	result = bpf_timer_set_callback(&alarm->timer, on_alarm);
	if (result)
		return result;
	/* The kernel refuses flags that it does not support. */
	timer_flags = TIMER_ABSOLUTE | TIMER_PINNED;
	result = arm_next(alarm);
	if (result == -EINVAL) {
		timer_flags = TIMER_ABSOLUTE;
		result = arm_next(alarm);
	}
	if (result == -EINVAL) {
		timer_flags = 0;
		result = arm_next(alarm);
	}
	return result;
}

/*
 * Remote source: the waking thread reads a perf event of the measured CPU, which makes the kernel
 * send that CPU a message and wait for the answer.
 */

/* Run by the waking thread: its ID in its own PID namespace is of no use here. */
SEC("syscall")
int begin_to_wake(void *context)
{
	waker = (__u32)bpf_get_current_pid_tgid();
	return 0;
}

static __always_inline bool is_waker(void)
{
	/* The idle task's ID is 0, too. */
	return waker && (__u32)bpf_get_current_pid_tgid() == waker;
}

/*
 * The launch is timestamped as late as this kernel allows: by the thread before its system call,
 * here before the message is queued, or, for an interrupt, just before it is sent.
 */
SEC("fentry/smp_call_function_single")
int BPF_PROG(on_message, int target)
{
	if (target != cpu || !is_waker() || hot.armed.pending)
		return 0;
	hot.armed.armed_at = waker_armed_at;
	hot.armed.by_flag = 0;
	hot.armed.time = bpf_ktime_get_ns();
	launched++;
	/* A full barrier: the measured CPU sees the rest when it sees this. */
	__sync_lock_test_and_set(&hot.armed.pending, 1);
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_ipi_sent, unsigned int target)
{
	if (target == cpu && is_waker())
		hot.armed.time = bpf_ktime_get_ns();
	return 0;
}

/* The measured CPU polls or monitors its flag, so no interrupt is sent. */
SEC("tp_btf/sched_wake_idle_without_ipi")
int BPF_PROG(on_flag_written, int target)
{
	if (target == cpu && is_waker())
		hot.armed.by_flag = 1;
	return 0;
}

/*
 * HPET source: the kernel's handler arms the next interrupt each time, one period ahead. The launch
 * time is the comparator's, which fired: read here, with the main counter between two timestamps.
 */

/* Of the brackets of the main counter, the narrowest counts. The first finds the caches cold, and
 * an emulator may be away for long: reading ends with one that is hardly wider than the narrowest
 * ever. */
#define HPET_READS 25

static unsigned long long hpet_narrowest = NEVER;

/* Between its timestamps a read is as short as the kernel allows. */
static __always_inline __u32 hpet_counter(const struct hpet *hpet)
{
	if (bpf_rdonly_cast) {
		hpet = bpf_rdonly_cast(hpet, bpf_core_type_id_kernel(struct hpet));
		return *(volatile __u32 *)&hpet->_u0._hpet_mc32;
	}
	return BPF_CORE_READ(hpet, _u0._hpet_mc32);
}

static __always_inline void note_hpet_launch(const struct hpet_dev *device)
{
	const struct hpet *hpet = BPF_CORE_READ(device, hd_hpet);
	__u32 comparator = BPF_CORE_READ(device, hd_timer, _u1._hpet_hc32);
	__u64 period_fs = BPF_CORE_READ(hpet, hpet_cap) >> 32;
	unsigned long long width = NEVER, middle = 0, since_fs;
	__s32 ticks = 0;

	for (int i = 0; i < HPET_READS; i++) {
		unsigned long long before = bpf_ktime_get_ns();
		__u32 counter = hpet_counter(hpet);
		unsigned long long after = bpf_ktime_get_ns();

		if (after - before >= width)
			continue;
		width = after - before;
		middle = before + width / 2;
		ticks = counter - comparator;
		if (width < hpet_narrowest)
			hpet_narrowest = width;
		if (i && width <= hpet_narrowest + hpet_narrowest / 16)
			break;
	}
	/* The line is shared, and another device's interrupt came. */
	if (ticks < 0 || !period_fs)
		return;
	/* The counter stands at a tick from its edge until the next one. */
	since_fs = ticks * period_fs + period_fs / 2;
	hot.fired.time = middle - since_fs / 1000000;
	/* Half a tick, half the bracket, and 500 ppm between the two clocks since the launch. */
	hot.fired.error = period_fs / 2000000 + width / 2 + since_fs / 2000000000 + 2;
	hot.fired.clock = comparator;
	hot.fired.armed_at = device_armed_at;
	hot.fired.by_flag = 0;
	launched++;
	hot.fired_softirqs = hot.now.softirqs;
	device_armed_at = hot.fired_until = bpf_ktime_get_ns();
	barrier();
	hot.fired.pending = 1;
	if (hot.awake_counts && !hot.idle && hot.now.state == AWAKE)
		settle_fired();
}

SEC("fentry/hpet_interrupt")
int BPF_PROG(on_hpet_interrupt, int irq, struct hpet_dev *device)
{
	if (irq != device_irq)
		return 0;
	if (bpf_get_smp_processor_id() != cpu) {
		launched++;
		strayed++;
		return 0;
	}
	/* The CPU has not been idle since the launch before. */
	if (hot.fired.pending)
		settle_fired();
	note_hpet_launch(device);
	return 0;
}

/*
 * Reply source: another machine is pinged through a network card, which timestamps the reply as it
 * arrives, and interrupts. Only the kernel's sockets know how to read every card's timestamp, so
 * the program gets it there; here the launch is the reply's number.
 */

static __always_inline bool is_of_the_card(const struct sk_buff *skb)
{
	return skb->dev->ifindex == interface && skb->dev->nd_net.net->ns.inum == namespace;
}

/* Received or sent before the reply, and announced by the same interrupt: its cause. */
static __always_inline void note_other_packet(void)
{
	if (!hot.fired.pending)
		hot.packets++;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_netif_receive_skb, struct sk_buff *skb)
{
	__u32 reply;

	if (!is_of_the_card(skb))
		return 0;
	reply = echo_reply(skb->data, skb->protocol);
	if (!take_awaited(reply)) {
		if (bpf_get_smp_processor_id() == cpu)
			note_other_packet();
		return 0;
	}
	note_numbered_launch(reply, hot.packets);
	return 0;
}

/* Among others what the card has sent. */
SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume_skb, struct sk_buff *skb)
{
	if (bpf_get_smp_processor_id() == cpu && is_of_the_card(skb))
		note_other_packet();
	return 0;
}

/*
 * Characterisation: the cost of the probes' own steps, run on the measured CPU. Not "syscall"
 * programs: those may sleep, and the verifier refuses them perf-event arrays.
 */

SEC("raw_tp")
int cost_of_timestamp(void *context)
{
	for (int i = 0; i < COST_ROUNDS; i++) {
		unsigned long long start = bpf_ktime_get_ns();

		costs[i] = bpf_ktime_get_ns() - start;
	}
	return 0;
}

/* All counters, as the probes read them; includes one timestamp. */
SEC("raw_tp")
int cost_of_counters(void *context)
{
	for (int i = 0; i < COST_ROUNDS; i++) {
		unsigned long long start = bpf_ktime_get_ns();

		READ_COUNTERS(before)
		costs[i] = bpf_ktime_get_ns() - start;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

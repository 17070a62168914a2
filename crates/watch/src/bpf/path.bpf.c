// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The latency of received packets, by stage.
 *
 * Every CPU keeps when it last went to sleep and woke, which interrupt it serves, and which
 * interrupt raised the softirq that receives packets. A matching packet copies these instants when
 * it reaches the protocols (net:netif_receive_skb), and is then its CPU's current packet (`now`)
 * until the next one or the end of the softirq. The events in between belong to it: an echo reply
 * is queued, or a socket's reader is woken. From there it is followed by the reply's skb or by the
 * reader's thread, in a hash.
 *
 * Only a CPU itself writes its `struct cpu`. Interrupts nest inside the observed code, but not
 * inside the programs; an interrupt writes its own fields (`interrupt`, `raised`) until the softirq
 * takes them.
 */
#include "kernel.h"
#include "packet.h"
#include "path.h"

/* include/linux/interrupt.h */
#define NET_RX_SOFTIRQ 3
/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

/* Packets handed over by the driver and held back by GRO: 8 at a time (gro_normal_batch). */
#define HANDED 16
/* The interval in which the rate is limited, ns. */
#define RATE_WINDOW 100000000ULL

/* Set before loading. */
const volatile enum follow follow;
/* 0: all interfaces. */
const volatile unsigned int interface;
/* The interface has no device, so its senders are on this machine. */
const volatile bool senders_here;
/* The network namespace whose packets are followed. */
const volatile unsigned int namespace;
/* 0: any. Host byte order. */
const volatile unsigned int port;
/* The index of the polling state, which interrupts do not always end; below 0: none. */
const volatile int poll_state = -2;
/* The kernel has sock:sk_data_ready. */
const volatile bool sees_data_ready;
/* The most packets followed in a window on one CPU. */
const volatile unsigned int budget = 1000;

/* Read by the program. */
struct counts counts;

/* What raised the receiving softirq. */
struct raised {
	unsigned long long slept;
	unsigned long long woke;
	unsigned long long interrupt;
	enum cause cause;
	int state;
	unsigned int irq;
};

struct handed {
	unsigned long long skb;
	unsigned long long time;
};

struct cpu {
	/* The last idle period; `woke` is 0 until its first code ran. */
	unsigned long long slept;
	unsigned long long woke;
	int state;
	unsigned int idle;
	/* The code after idle ran first; the interrupt that woke the CPU is still to come. */
	unsigned int interrupt_to_come;
	/* In the idle loop, after the end of an idle state. */
	unsigned int in_idle_loop;
	/* The current interrupt; its time is 0 if there is none. */
	unsigned long long interrupt;
	enum cause cause;
	unsigned int irq;
	unsigned int in_softirq;
	/* Of the raised softirq, and of the running one. */
	struct raised raised;
	struct raised taken;
	unsigned long long softirq;
	unsigned int position;
	/* A packet's address as a number: see slot_of(). */
	unsigned long long address;
	/* The current packet; `skb` is 0 if there is none. */
	unsigned long long skb;
	struct packet now;
	/* The current window: packets seen, and every `stride`-th is followed. */
	unsigned long long window;
	unsigned int seen;
	unsigned int stride;
	struct handed handed[HANDED];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	/* The possible CPUs; set before loading. */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} packets SEC(".maps");

/* Echo requests with a queued reply, by the reply's skb. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct packet);
} replies SEC(".maps");

/* Packets whose reader was woken, by its thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct packet);
} readers SEC(".maps");

struct departure {
	unsigned long long time;
	unsigned long long transport;
};

/* Packets sent on this machine that may arrive on it, by their skb. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct departure);
} departures SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	__u32 number = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &number);
}

static __always_inline void count(unsigned long long *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/*
 * Sleep and interrupts.
 */

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, unsigned int state, unsigned int number)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	if (state == PWR_EVENT_EXIT) {
		cpu->in_idle_loop = 1;
		if (!cpu->idle)
			return 0; /* its entry was not observed */
		cpu->idle = 0;
		/* Polling takes interrupts without ending; the flag ends it. */
		if (!cpu->woke || cpu->state == poll_state) {
			cpu->woke = bpf_ktime_get_ns();
			cpu->interrupt_to_come = 1;
		}
		return 0;
	}
	cpu->state = state;
	cpu->woke = 0;
	cpu->interrupt_to_come = 0;
	cpu->in_idle_loop = 0;
	cpu->idle = 1;
	cpu->slept = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int interrupt_entry(enum cause cause, unsigned int irq)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->interrupt = bpf_ktime_get_ns();
	cpu->cause = cause;
	cpu->irq = irq;
	/* A polling CPU may take many interrupts in one idle period: each meets it idle. */
	if (cpu->idle && (!cpu->woke || (cpu->state == poll_state && !cpu->in_softirq)))
		cpu->woke = cpu->interrupt;
	return 0;
}

static __always_inline int interrupt_exit(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->interrupt = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	return interrupt_entry(CAUSE_DEVICE, irq);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit)
{
	return interrupt_exit();
}

#define INTERRUPT(name, cause)                                                                     \
	SEC("tp_btf/" #name "_entry")                                                              \
	int BPF_PROG(on_##name##_entry)                                                            \
	{                                                                                          \
		return interrupt_entry(cause, 0);                                                  \
	}                                                                                          \
                                                                                                   \
	SEC("tp_btf/" #name "_exit")                                                               \
	int BPF_PROG(on_##name##_exit)                                                             \
	{                                                                                          \
		return interrupt_exit();                                                           \
	}

/* irq_vectors: x86. */
INTERRUPT(local_timer, CAUSE_TIMER)
INTERRUPT(call_function_single, CAUSE_OTHER_CPU)
INTERRUPT(call_function, CAUSE_OTHER_CPU)
INTERRUPT(reschedule, CAUSE_OTHER_CPU)
/* ipi: arm64 and others. */
INTERRUPT(ipi, CAUSE_OTHER_CPU)

SEC("tp_btf/softirq_raise")
int BPF_PROG(on_softirq_raise, unsigned int vector)
{
	struct cpu *cpu;

	if (vector != NET_RX_SOFTIRQ)
		return 0;
	cpu = this_cpu();
	if (!cpu || cpu->raised.cause != CAUSE_UNSEEN)
		return 0;
	cpu->raised.interrupt = cpu->interrupt;
	cpu->raised.irq = cpu->irq;
	cpu->raised.state = AWAKE;
	cpu->raised.woke = 0;
	cpu->raised.slept = 0;
	if (cpu->interrupt)
		cpu->raised.cause = cpu->cause;
	else if (cpu->in_idle_loop && !cpu->in_softirq)
		/* The monitored flag ended idle: the message has no interrupt. */
		cpu->raised.cause = CAUSE_OTHER_CPU;
	else
		cpu->raised.cause = CAUSE_SOFTWARE;
	if (cpu->raised.cause == CAUSE_SOFTWARE)
		return 0;
	/* In a softirq the CPU is awake, though it may not have left idle yet. */
	if (cpu->woke && !cpu->in_softirq && (cpu->idle || cpu->interrupt_to_come)) {
		cpu->raised.slept = cpu->slept;
		cpu->raised.woke = cpu->woke;
		cpu->raised.state = cpu->state;
	}
	return 0;
}

/*
 * Receiving.
 */

/* Gives up the current packet. */
static __always_inline void give_up(struct cpu *cpu)
{
	if (!cpu->skb)
		return;
	cpu->skb = 0;
	count(follow == FOLLOW_PING ? &counts.unanswered : &counts.nobody_woken);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->in_softirq = 1;
	if (vector != NET_RX_SOFTIRQ)
		return 0;
	cpu->taken = cpu->raised;
	cpu->raised.cause = CAUSE_UNSEEN;
	cpu->position = 0;
	cpu->softirq = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->in_softirq = 0;
	cpu->interrupt_to_come = 0;
	if (vector != NET_RX_SOFTIRQ)
		return 0;
	give_up(cpu);
	cpu->taken.cause = CAUSE_UNSEEN;
	cpu->softirq = 0;
	return 0;
}

/* After each poll: its packets have been handled, or wait in another CPU's queue. */
SEC("tp_btf/napi_poll")
int BPF_PROG(on_napi_poll)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		give_up(cpu);
	return 0;
}

/*
 * A slot of the table by a packet's address: skbs are some 256 bytes apart. The verifier forbids
 * shifting a pointer; stored and loaded again, it is a number.
 */
static __always_inline struct handed *slot_of(struct cpu *cpu, const struct sk_buff *skb)
{
	*(volatile unsigned long long *)&cpu->address = (unsigned long long)skb;
	return &cpu->handed[(*(volatile unsigned long long *)&cpu->address >> 8) & (HANDED - 1)];
}

static __always_inline int driver_hands_over(struct sk_buff *skb)
{
	struct cpu *cpu = this_cpu();
	struct handed *slot;

	if (!cpu)
		return 0;
	slot = slot_of(cpu, skb);
	slot->skb = cpu->address;
	slot->time = bpf_ktime_get_ns();
	return 0;
}

#define DRIVER(name)                                                                               \
	SEC("tp_btf/" #name)                                                                       \
	int BPF_PROG(on_##name, struct sk_buff *skb)                                               \
	{                                                                                          \
		return driver_hands_over(skb);                                                     \
	}

DRIVER(napi_gro_receive_entry)
DRIVER(napi_gro_frags_entry)
DRIVER(netif_receive_skb_entry)
DRIVER(netif_receive_skb_list_entry)

static __always_inline bool is_looked_for(const struct headers *headers)
{
	if (follow == FOLLOW_PING)
		return is_echo_request(headers);
	if (!port)
		return true;
	return (headers->protocol == IPPROTO_UDP || headers->protocol == IPPROTO_TCP) &&
	       headers->ports.destination == bpf_htons(port);
}

/* Limits the rate: only every `stride`-th of too many packets is followed. */
static __always_inline bool is_sampled(struct cpu *cpu, unsigned long long time)
{
	if (!cpu->stride || time - cpu->window > RATE_WINDOW) {
		cpu->stride = cpu->seen / budget + 1;
		/* After a long pause the previous rate is meaningless. */
		if (time - cpu->window > 2 * RATE_WINDOW)
			cpu->stride = 1;
		cpu->seen = 0;
		cpu->window = time;
	}
	cpu->seen++;
	/* By the rate of the previous window; a burst after a quiet one is cut off. */
	return cpu->seen % cpu->stride == 0 && cpu->seen / cpu->stride <= 2 * budget;
}

static __always_inline void take_instants(struct cpu *cpu, struct packet *now,
					  const struct sk_buff *skb)
{
	struct handed *slot = slot_of(cpu, skb);

	now->slept = cpu->taken.slept;
	now->woke = cpu->taken.woke;
	now->interrupt = cpu->taken.interrupt;
	now->state = cpu->taken.state;
	now->cause = cpu->taken.cause;
	now->irq = cpu->taken.irq;
	if (cpu->taken.cause == CAUSE_UNSEEN) {
		now->slept = now->woke = now->interrupt = 0;
		now->state = AWAKE;
	}
	now->softirq = cpu->softirq;
	now->driver = slot->skb == cpu->address ? slot->time : 0;
	now->position = cpu->position;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_netif_receive_skb, struct sk_buff *skb)
{
	unsigned long long key = (unsigned long long)skb;
	unsigned long long time = bpf_ktime_get_ns();
	struct cpu *cpu = this_cpu();
	struct departure *departure;
	struct headers headers;
	struct packet *now;

	if (!cpu)
		return 0;
	give_up(cpu);
	cpu->position++;
	if ((interface && skb->dev->ifindex != interface) ||
	    skb->dev->nd_net.net->ns.inum != namespace)
		return 0;
	/* The network header is set only after this tracepoint; the data begins with it. */
	if (!read_headers(skb->data, skb->protocol, &headers) || !is_looked_for(&headers))
		return 0;
	count(&counts.seen);
	if (headers.fragment) {
		count(&counts.fragments);
		return 0;
	}
	if (!is_sampled(cpu, time)) {
		count(&counts.left_out);
		return 0;
	}
	now = &cpu->now;
	take_instants(cpu, now, skb);
	now->protocol = time;
	now->answered = now->transmit = now->transmitted = 0;
	now->ready = now->waking = now->reader_slept = now->reader_woke = 0;
	now->switched = now->returned = 0;
	now->cpu = bpf_get_smp_processor_id();
	now->interface = skb->dev->ifindex;
	now->length = skb->len;
	now->identifier = headers.icmp.identifier;
	now->sequence = headers.icmp.sequence;
	now->sent = 0;
	departure = bpf_map_lookup_elem(&departures, &key);
	if (departure) {
		/* An skb's memory is reused: this checks that it is the same packet. */
		if (departure->transport == headers.transport)
			now->sent = departure->time;
		bpf_map_delete_elem(&departures, &key);
	}
	cpu->skb = key;
	return 0;
}

static __always_inline void send(struct packet *packet)
{
	/* No wake-up of the reader: it polls. */
	if (bpf_ringbuf_output(&packets, packet, sizeof(*packet), BPF_RB_NO_WAKEUP))
		count(&counts.ring_full);
	else
		count(&counts.followed);
}

/*
 * Transmitting: requests of senders on this machine, and replies.
 */

static __always_inline bool read_sent(const struct sk_buff *skb, struct headers *headers)
{
	return read_headers(skb->head + skb->network_header, skb->protocol, headers);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_net_dev_queue, struct sk_buff *skb)
{
	unsigned long long key = (unsigned long long)skb;
	struct cpu *cpu = this_cpu();
	struct headers headers;
	unsigned long long time;

	if (!cpu || !cpu->skb || cpu->interrupt)
		return 0;
	time = bpf_ktime_get_ns();
	if (!read_sent(skb, &headers) || !is_echo_reply(&headers) ||
	    headers.icmp.identifier != cpu->now.identifier ||
	    headers.icmp.sequence != cpu->now.sequence)
		return 0;
	cpu->now.answered = time;
	cpu->skb = 0;
	bpf_map_update_elem(&replies, &key, &cpu->now, BPF_ANY);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_net_dev_start_xmit, struct sk_buff *skb)
{
	unsigned long long key = (unsigned long long)skb;
	struct departure departure;
	struct headers headers;
	struct packet *packet;

	if (follow == FOLLOW_PING) {
		packet = bpf_map_lookup_elem(&replies, &key);
		if (packet) {
			packet->transmit = bpf_ktime_get_ns();
			return 0;
		}
		if (!read_sent(skb, &headers) || !is_echo_request(&headers))
			return 0;
	} else if (!senders_here || !read_sent(skb, &headers) || !is_looked_for(&headers)) {
		return 0;
	}
	departure.transport = headers.transport;
	departure.time = bpf_ktime_get_ns();
	bpf_map_update_elem(&departures, &key, &departure, BPF_ANY);
	return 0;
}

SEC("tp_btf/net_dev_xmit")
int BPF_PROG(on_net_dev_xmit, struct sk_buff *skb, int result)
{
	unsigned long long key = (unsigned long long)skb;
	struct packet *packet = bpf_map_lookup_elem(&replies, &key);

	/* A busy driver gets it again. */
	if (!packet || result)
		return 0;
	packet->transmitted = bpf_ktime_get_ns();
	send(packet);
	bpf_map_delete_elem(&replies, &key);
	return 0;
}

/*
 * The socket's reader.
 */

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_sk_data_ready)
{
	struct cpu *cpu = this_cpu();

	if (cpu && cpu->skb && !cpu->interrupt)
		cpu->now.ready = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	struct cpu *cpu = this_cpu();
	__u32 reader;

	/* Wake-ups by an interrupt do not belong to the packet. */
	if (!cpu || !cpu->skb || cpu->interrupt || (sees_data_ready && !cpu->now.ready) ||
	    task->flags & PF_KTHREAD)
		return 0;
	cpu->now.waking = bpf_ktime_get_ns();
	cpu->skb = 0;
	reader = task->pid;
	cpu->now.reader = reader;
	cpu->now.reader_state = AWAKE;
	bpf_probe_read_kernel_str(cpu->now.reader_name, NAME_LENGTH, task->comm);
	if (bpf_map_lookup_elem(&readers, &reader))
		count(&counts.not_returned);
	bpf_map_update_elem(&readers, &reader, &cpu->now, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempted, struct task_struct *before, struct task_struct *next)
{
	struct cpu *cpu = this_cpu();
	struct packet *packet;
	__u32 reader;

	if (!cpu)
		return 0;
	cpu->interrupt_to_come = 0;
	cpu->in_idle_loop = 0;
	if (follow != FOLLOW_SOCKET)
		return 0;
	reader = next->pid;
	packet = bpf_map_lookup_elem(&readers, &reader);
	if (!packet || packet->switched)
		return 0;
	packet->reader_cpu = bpf_get_smp_processor_id();
	/*
	 * Only if it was asleep when the wake-up began: not the receiving CPU, and not one that
	 * went to sleep later while the reader waited elsewhere.
	 */
	if (packet->reader_cpu != packet->cpu && cpu->slept <= packet->waking &&
	    cpu->woke >= packet->waking) {
		packet->reader_slept = cpu->slept;
		packet->reader_woke = cpu->woke;
		packet->reader_state = cpu->state;
	}
	packet->switched = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit)
{
	__u32 reader = bpf_get_current_pid_tgid();
	struct packet *packet = bpf_map_lookup_elem(&readers, &reader);

	if (!packet || !packet->switched)
		return 0;
	packet->returned = bpf_ktime_get_ns();
	send(packet);
	bpf_map_delete_elem(&readers, &reader);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

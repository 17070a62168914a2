// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Traffic, of interfaces and disks, that asks for a latency bound.
 *
 * A packet that matches a rule notes its time on its CPU. If the rule's bound is not in force
 * there, it rings the bell of the CPU's thread, which is bound to the CPU: it runs before that CPU
 * can go idle, and sets the bound. While the bound is in force a packet does nothing but store its
 * time, and the thread alone looks from time to time whether the traffic has ended. Without
 * traffic nothing runs.
 *
 * The tasks that a packet wakes are its readers: a bound is held on their CPUs as well, if the
 * rule asks for it. Between a packet and the end of the poll, what is woken belongs to the packet.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include "govern.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
/* More fragments, or an offset (include/net/ip.h): only the first one has ports. */
#define OFFSET 0x1fff
/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* Set before loading. */
const volatile unsigned int rules_count;
const volatile struct traffic rules[RULES];
/* The network namespace of the interfaces. */
const volatile unsigned int namespace;

/* Of each rule; 0: its packets, or requests, are not watched now. The program writes them. */
unsigned int interfaces[RULES];
unsigned int disks[RULES];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs; set before loading */
	__type(key, __u32);
	__type(value, struct served);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* CPUs; set before loading */
	__type(key, __u32);
	__array(
	    values, struct {
		    __uint(type, BPF_MAP_TYPE_RINGBUF);
		    __uint(max_entries, 4096);
	    });
} bells SEC(".maps");

/* Wakes the thread of a CPU. */
static __always_inline void ring(__u32 cpu)
{
	void *bell = bpf_map_lookup_elem(&bells, &cpu);
	char something = 0;

	/* A full buffer has been rung. */
	if (bell)
		bpf_ringbuf_output(bell, &something, sizeof(something), BPF_RB_FORCE_WAKEUP);
}

/* Keeps a gap that the rule's quiet time could miss. */
static __always_inline void note_gap(struct seen *seen, unsigned long long min_ns,
				     unsigned long long now)
{
	unsigned long long gap = now - seen->last_ns;
	unsigned int nth = seen->gaps_count & (GAPS - 1);

	if (!seen->last_ns || gap <= min_ns)
		return;
	gap /= 1000;
	seen->gaps[nth].us = gap > 0xffffffff ? 0xffffffff : gap;
	seen->gaps[nth].packets = seen->packets;
	seen->gaps_count++;
}

/* Traffic of these rules on a CPU, now. */
static __always_inline void serve(__u32 cpu, unsigned int matching, unsigned long long now)
{
	struct served *served = bpf_map_lookup_elem(&cpus, &cpu);
	unsigned int wanted = 0;

	if (!served)
		return;
	for (unsigned int nth = 0; nth < RULES; nth++) {
		struct seen *seen = &served->seen[nth];
		const volatile struct traffic *rule = &rules[nth];

		if (nth >= rules_count)
			break;
		if (!(matching & 1U << nth))
			continue;
		seen->packets++;
		if (rule->packets > 1 && !(served->held & 1U << nth)) {
			if (now - seen->window_ns > rule->window_ns) {
				seen->window_ns = now;
				seen->in_window = 0;
			}
			if (++seen->in_window < rule->packets)
				continue;
		}
		note_gap(seen, rule->gap_ns, now);
		seen->last_ns = now;
		wanted |= 1U << nth;
	}
	wanted &= ~served->held & ~served->called;
	if (wanted) {
		__sync_fetch_and_or(&served->called, wanted);
		ring(cpu);
	}
}

/* What is compared of a packet's headers; 0 where it has none. */
struct headers {
	unsigned int family;
	unsigned int protocol;
	unsigned int ports[2];
	unsigned char addresses[2][16];
};

struct ipv4 {
	__u8 version_and_length;
	__u8 service;
	__be16 total;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 check;
	__u8 addresses[2][4];
};

struct ipv6 {
	__be32 flow;
	__be16 length;
	__u8 next;
	__u8 hops;
	__u8 addresses[2][16];
};

static __always_inline void read_ports(struct headers *headers, const void *transport)
{
	__be16 ports[2];

	if (headers->protocol != IPPROTO_TCP && headers->protocol != IPPROTO_UDP)
		return;
	if (bpf_probe_read_kernel(ports, sizeof(ports), transport))
		return;
	headers->ports[0] = bpf_ntohs(ports[0]);
	headers->ports[1] = bpf_ntohs(ports[1]);
}

/* The headers of IPv4, and of IPv6 without extension headers. */
static __always_inline void read_headers(struct sk_buff *skb, struct headers *headers)
{
	/*
	 * skb->data is the network header when the protocols get the packet. Fields of the
	 * tracepoint's own argument are loaded; a helper for each would take some 20 ns.
	 */
	const void *network = skb->data;

	switch (bpf_ntohs(skb->protocol)) {
	case ETH_P_IP: {
		struct ipv4 ip;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), network))
			return;
		headers->family = 4;
		headers->protocol = ip.protocol;
		__builtin_memcpy(headers->addresses[0], ip.addresses[0], 4);
		__builtin_memcpy(headers->addresses[1], ip.addresses[1], 4);
		if (!(bpf_ntohs(ip.fragment) & OFFSET))
			read_ports(headers, network + (ip.version_and_length & 0xf) * 4);
		return;
	}
	case ETH_P_IPV6: {
		struct ipv6 ip;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), network))
			return;
		headers->family = 6;
		headers->protocol = ip.next;
		__builtin_memcpy(headers->addresses, ip.addresses, 32);
		read_ports(headers, network + sizeof(ip));
		return;
	}
	}
}

static __always_inline bool is_in_net(const unsigned char *address,
				      const volatile struct traffic *rule)
{
	unsigned int bits = rule->prefix;

	for (unsigned int nth = 0; nth < 16; nth++) {
		unsigned char mask;

		if (bits <= nth * 8)
			return true;
		mask = bits >= nth * 8 + 8 ? 0xff : 0xff00 >> (bits - nth * 8);
		if ((address[nth] ^ rule->address[nth]) & mask)
			return false;
	}
	return true;
}

static __always_inline bool matches(const struct headers *headers,
				    const volatile struct traffic *rule)
{
	if (rule->protocol && rule->protocol != headers->protocol)
		return false;
	if (rule->port && rule->port != headers->ports[0] && rule->port != headers->ports[1])
		return false;
	if (!rule->family)
		return true;
	return rule->family == headers->family &&
	       (is_in_net(headers->addresses[0], rule) || is_in_net(headers->addresses[1], rule));
}

static __always_inline bool asks_for_headers(const volatile struct traffic *rule)
{
	return rule->protocol || rule->port || rule->family;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(packet, struct sk_buff *skb)
{
	unsigned int interface = skb->dev->ifindex;
	struct headers headers = {};
	unsigned int matching = 0;
	bool has_headers = false;
	struct served *served;
	__u32 cpu;

	for (unsigned int nth = 0; nth < RULES; nth++) {
		const volatile struct traffic *rule = &rules[nth];

		if (nth >= rules_count)
			break;
		if (interfaces[nth] != interface)
			continue;
		if (asks_for_headers(rule)) {
			if (!has_headers)
				read_headers(skb, &headers);
			has_headers = true;
			if (!matches(&headers, rule))
				continue;
		}
		matching |= 1U << nth;
	}
	if (matching && skb->dev->nd_net.net->ns.inum != namespace)
		matching = 0;
	cpu = bpf_get_smp_processor_id();
	served = bpf_map_lookup_elem(&cpus, &cpu);
	if (!served)
		return 0;
	served->now = matching;
	if (matching)
		serve(cpu, matching, bpf_ktime_get_ns());
	return 0;
}

/* The end of a poll, of any device: what is woken from here on has nothing to do with the packet.
 */
SEC("tp_btf/napi_poll")
int BPF_PROG(polled)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct served *served = bpf_map_lookup_elem(&cpus, &cpu);

	if (served && served->now)
		served->now = 0;
	return 0;
}

/* A reader of the packet: the bound is for the CPU on which it ran last, too. */
SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct served *served = bpf_map_lookup_elem(&cpus, &cpu);
	unsigned int readers = 0;

	if (!served || !served->now || task->flags & PF_KTHREAD)
		return 0;
	if ((__u32)task->wake_cpu == cpu)
		return 0;
	for (unsigned int nth = 0; nth < RULES; nth++) {
		if (nth >= rules_count)
			break;
		if (served->now & 1U << nth && rules[nth].readers)
			readers |= 1U << nth;
	}
	if (readers)
		serve(task->wake_cpu, readers, bpf_ktime_get_ns());
	return 0;
}

/* A request to a disk, on the CPU of the task that waits for it: it has not gone idle yet. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(request, struct request *rq)
{
	struct gendisk *disk = rq->q->disk;
	unsigned int matching = 0, number;

	if (!disk)
		return 0;
	/* As the kernel numbers devices inside. */
	number = disk->major << 20 | disk->first_minor;
	for (unsigned int nth = 0; nth < RULES; nth++) {
		if (nth >= rules_count)
			break;
		if (disks[nth] == number)
			matching |= 1U << nth;
	}
	if (matching)
		serve(bpf_get_smp_processor_id(), matching, bpf_ktime_get_ns());
	return 0;
}

/* Counts whether bounds come in time; only where that is asked for. */
SEC("tp_btf/cpu_idle")
int BPF_PROG(idle, unsigned int state, unsigned int number)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct served *served;

	if (state == PWR_EVENT_EXIT)
		return 0;
	served = bpf_map_lookup_elem(&cpus, &cpu);
	if (served && served->called)
		served->late++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

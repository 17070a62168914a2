// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which interrupt of a network card brings the reply to a ping, and to which CPU.
 *
 * The card's driver polls in the softirq that its interrupt has raised, on the same CPU: the last
 * interrupt there before the reply is the one.
 */
#include "packet.h"

/* Set before loading. */
const volatile int interface;
const volatile unsigned int namespace;

/* The reply that is waited for, by its identifier and number; 0: none. */
unsigned int awaited;

/* Read by the program: what brought it. */
int found_irq;
unsigned int found_cpu;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, int);
} last SEC(".maps");

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	__u32 key = 0;
	int *here = bpf_map_lookup_elem(&last, &key);

	if (here)
		*here = irq;
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_netif_receive_skb, struct sk_buff *skb)
{
	__u32 key = 0, reply;
	const int *here = bpf_map_lookup_elem(&last, &key);

	if (!here || skb->dev->ifindex != interface || skb->dev->nd_net.net->ns.inum != namespace)
		return 0;
	reply = echo_reply(skb->data, skb->protocol);
	if (!reply || reply != awaited)
		return 0;
	found_irq = *here;
	found_cpu = bpf_get_smp_processor_id();
	/* Last: the program then reads the others. */
	__sync_lock_test_and_set(&awaited, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

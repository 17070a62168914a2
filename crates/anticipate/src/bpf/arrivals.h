/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets. Those of a flow that arrive periodically are anticipated as requests of disks are; of a
 * client that announces its requests (a hint), what it announces.
 *
 * The process that reads packets is the one whose task two of them in turn wake first: between a
 * packet that wakes nobody and the end of its processing, an interrupt may wake anybody. The CPU to
 * be ready is the one on which that task waits. Where the packet's interrupt comes to another CPU
 * that sleeps, that one is to be ready, too.
 *
 * A part of anticipate.bpf.c, which includes it below the plans.
 */
#ifndef REVEILLE_ARRIVALS_H
#define REVEILLE_ARRIVALS_H

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

/* Packets closer than this, or than an eighth of the period, are one arrival. */
#define ONE_ARRIVAL_NS 1000000
/* A period for which a CPU is to be awake for more than one part in so many is none. */
#define IRREGULAR 4
/* The model learns times of requests by their sizes; arrivals have one size. */
#define ARRIVAL_SECTORS 8
/* Hints of a client that are open at a time. */
#define HINTS 4
/* After so many arrivals that woke nobody, nobody is known to read them. */
#define UNREAD 4

/* Set before loading. What is anticipated. */
const volatile bool periodic;
const volatile bool hinted;
/* By number; 0 ends the list. None: all of this network namespace. */
const volatile unsigned int interfaces[INTERFACES];
const volatile unsigned int network_namespace;

struct readers {
	/* The process whose task the last packet woke. */
	unsigned int tgid;
	/* The CPU on which it waits, and 1; 0: nobody is known to read. */
	unsigned int cpu;
	/* Arrivals since that woke nobody. */
	unsigned int unread;
};

struct flow {
	struct model model;
	/* The last arrival as it would have been without its jitter; the next one's time from then
	 * on, 0: unknown. */
	unsigned long long reference;
	unsigned long long predicted;
	unsigned long long arrived;
	/* The next arrival's window, if it is assisted, and whose plan it is in. */
	unsigned long long ticket;
	unsigned int cpu;
	/* Of the next arrival: `enum treatment`. */
	unsigned int treatment;
	struct readers readers;
	unsigned int learning;
	struct owner owner;
	unsigned long long arrivals;
	unsigned long long assisted;
	unsigned long long in_time;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* What a new flow is made of: it is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} new_flow SEC(".maps");

struct client {
	struct {
		/* 0: none. */
		unsigned long long ticket;
		unsigned long long at;
		/* From when on an arrival is what was announced. */
		unsigned long long from;
		unsigned long long end;
		unsigned int cpu;
	} hints[HINTS];
	struct readers readers;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HINTED);
	__type(key, struct client_key);
	__type(value, struct client);
} clients SEC(".maps");

/* As new_flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct client);
} new_client SEC(".maps");

/* Who reads a service's packets, by a client of no address. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HINTED);
	__type(key, struct client_key);
	__type(value, struct readers);
} services SEC(".maps");

static __always_inline void is_read(struct readers *readers, unsigned int tgid, unsigned int cpu)
{
	readers->unread = 0;
	if (readers->tgid == tgid)
		readers->cpu = cpu;
	else
		readers->tgid = tgid;
}

/* Its reader, and 1, if it was not long ago that it read. */
static __always_inline unsigned int reader_of(struct readers *readers)
{
	if (++readers->unread > UNREAD) {
		readers->cpu = 0;
		readers->tgid = 0;
	}
	return readers->cpu;
}

static __always_inline bool is_watched(const struct net_device *device)
{
	unsigned int index = device->ifindex;

	if (device->nd_net.net->ns.inum != network_namespace)
		return false;
	if (!interfaces[0])
		return true;
	for (int i = 0; i < INTERFACES && interfaces[i]; i++) {
		if (interfaces[i] == index)
			return true;
	}
	return false;
}

/* Which flow a packet belongs to; false of one that brings nobody anything. */
static __always_inline bool flow_of(const unsigned char *ip, __u16 type, struct flow_key *key)
{
	struct headers headers = {};
	__u16 length = 0;
	__u8 first = 0, words = 0;
	unsigned int header = 40;

	if (!read_headers(ip, type, &headers) || headers.fragment)
		return false;
	if (headers.protocol != IPPROTO_TCP && headers.protocol != IPPROTO_UDP)
		return false;
	key->family = headers.family;
	key->protocol = headers.protocol;
	key->ports[0] = bpf_ntohs(headers.ports.source);
	key->ports[1] = bpf_ntohs(headers.ports.destination);
	if (headers.family == 4) {
		bpf_probe_read_kernel(key->addresses[0], 4, ip + 12);
		bpf_probe_read_kernel(key->addresses[1], 4, ip + 16);
	} else {
		bpf_probe_read_kernel(key->addresses, 32, ip + 8);
	}
	if (headers.protocol == IPPROTO_UDP)
		return true;
	/* An acknowledgement alone is nothing that a task waits for. */
	if (headers.family == 4) {
		bpf_probe_read_kernel(&first, 1, ip);
		header = (first & 15) * 4;
	}
	bpf_probe_read_kernel(&length, 2, ip + (headers.family == 4 ? 2 : 4));
	length = bpf_ntohs(length);
	bpf_probe_read_kernel(&words, 1, ip + header + 12);
	/* 0: a packet of the kernel's that is longer than the field can tell. */
	return !length || length > (words >> 4) * 4 + (headers.family == 4 ? header : 0);
}

/* Opens a window for the next arrival of a flow, if that is of use: what becomes of it. */
static __always_inline enum treatment await(struct flow *flow, struct outcome *outcome,
					    unsigned long long now, __u32 here, __u32 cpu)
{
	struct prediction prediction = {};
	unsigned long long lead, early, start, end, costs;
	unsigned int second = 0, ratio;
	struct plan *plan = plan_of(cpu);
	struct owner owner = flow->owner;
	struct charge *charge;
	long long ticket;

	if (!model_predict(&flow->model, ARRIVAL_SECTORS, &prediction)) {
		ADD(outcome->learning, 1);
		return ALONE;
	}
	flow->predicted = prediction.ns;
	if ((prediction.late_ns - prediction.early_ns) * IRREGULAR > prediction.ns) {
		ADD(outcome->irregular, 1);
		return ALONE;
	}
	if (!plan)
		return ALONE;
	lead = lead_for(plan, prediction.early_ns);
	if (here != cpu && is_idle_task()) {
		struct agent *agent = bpf_map_lookup_elem(&agents, &here);

		second = here + 1;
		lead += agent && agent->late_ns ? agent->late_ns : lead;
	}
	early = flow->reference + prediction.early_ns;
	start = early > now + lead ? early - lead : now;
	end = flow->reference + prediction.late_ns + (prediction.late_ns - prediction.early_ns) +
	      2 * lead;
	costs = flow->reference + prediction.ns;
	costs = (second ? 2 : 1) * (costs > start ? costs - start : 0);
	ratio = ratio_of(lead, costs);
	worth += (ratio >> 6) - (worth >> 6);
	if (!affordable(plan, now, ratio, costs)) {
		ADD(outcome->over_budget, 1);
		return ALONE;
	}
	if (bpf_get_prandom_u32() < control) {
		ADD(outcome->control, 1);
		return CONTROL;
	}
	ticket = open_window(plan, now, start, end, &owner, 0, second);
	if (ticket < 0) {
		ADD(outcome->plan_full, 1);
		return ALONE;
	}
	flow->ticket = ticket;
	flow->cpu = cpu;
	flow->assisted++;
	ADD(outcome->assisted, 1);
	if (second)
		ADD(outcome->two_cpus, 1);
	charge = bpf_map_lookup_elem(&charges, &owner);
	if (charge)
		ADD(charge->assisted, 1);
	return ASSISTED;
}

/* An arrival of a flow; another packet of the last one is none. */
static __always_inline void arrive(struct flow *flow, struct plan *plan, unsigned long long now,
				   __u32 here)
{
	unsigned long long gap = now - flow->arrived, predicted = flow->predicted, took;
	struct outcome *outcome;
	struct charge *charge;
	enum ending ending;
	__u32 key = OF_PACKETS;
	unsigned int reader;

	if (gap < ONE_ARRIVAL_NS || gap < predicted >> 3)
		return;
	outcome = bpf_map_lookup_elem(&outcomes, &key);
	if (!outcome || __sync_val_compare_and_swap(&flow->learning, 0, 1))
		return;
	plan->packet_treatment = flow->treatment;
	if (flow->treatment == ASSISTED) {
		ending = close_window(flow->cpu, flow->ticket, now, true);
		count_ending(outcome, ending);
		flow->in_time += ending == IN_TIME;
	}
	flow->treatment = ALONE;
	took = now - flow->reference;
	if (flow->arrived)
		model_observe(&flow->model, ARRIVAL_SECTORS, took);
	/*
	 * Half of a deviation is the sender's jitter, which the next packet does not have, and half
	 * is its delay, which the next one has: the error is least whichever of the two it is.
	 */
	if (predicted && model_distance(took, predicted) < predicted >> 2)
		flow->reference += (predicted + took) >> 1;
	else
		flow->reference = now;
	flow->arrived = now;
	flow->predicted = 0;
	flow->arrivals++;
	ADD(outcome->requests, 1);
	charge = bpf_map_lookup_elem(&charges, &flow->owner);
	if (charge)
		ADD(charge->requests, 1);
	reader = reader_of(&flow->readers);
	if (reader)
		flow->treatment = await(flow, outcome, now, here, reader - 1);
	else
		ADD(outcome->unattended, 1);
	SET(flow->learning, 0);
}

/* Gives up the hints whose time is over. */
static __always_inline void forget_hints(struct client *client, struct outcome *outcome,
					 unsigned long long now)
{
	for (unsigned int i = 0; i < HINTS; i++) {
		unsigned long long ticket = client->hints[i].ticket;

		if (ticket && client->hints[i].end <= now &&
		    __sync_val_compare_and_swap(&client->hints[i].ticket, ticket, 0) == ticket)
			ADD(outcome->late, 1);
	}
}

/* What a client announced has come: its first hint for about now. */
static __always_inline void keep_promise(struct client *client, unsigned long long now)
{
	unsigned int first = HINTS;
	unsigned long long ticket;
	struct outcome *outcome;
	__u32 key = OF_HINTS;

	outcome = bpf_map_lookup_elem(&outcomes, &key);
	if (!outcome)
		return;
	forget_hints(client, outcome, now);
	for (unsigned int i = 0; i < HINTS; i++) {
		if (!client->hints[i].ticket || client->hints[i].from > now)
			continue;
		if (first == HINTS || client->hints[i].at < client->hints[first & (HINTS - 1)].at)
			first = i;
	}
	if (first == HINTS)
		return;
	first &= HINTS - 1;
	ticket = client->hints[first].ticket;
	if (__sync_val_compare_and_swap(&client->hints[first].ticket, ticket, 0) == ticket)
		count_ending(outcome, close_window(client->hints[first].cpu, ticket, now, true));
}

static __always_inline void client_of(const struct flow_key *packet, struct client_key *client)
{
	__builtin_memcpy(client->address, packet->addresses[0], sizeof(client->address));
	client->port = packet->ports[1];
	client->family = packet->family;
	client->protocol = packet->protocol;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_packet, struct sk_buff *skb)
{
	__u32 here = bpf_get_smp_processor_id();
	struct plan *plan = plan_of(here);
	struct client_key client_key = {};
	struct flow_key key = {};
	unsigned long long now;
	struct client *client;
	struct flow *flow;

	if (!plan)
		return 0;
	plan->packet_ns = 0;
	if (!running || !is_watched(skb->dev) || !flow_of(skb->data, skb->protocol, &key))
		return 0;
	now = bpf_ktime_get_ns();
	plan->packet_treatment = ALONE;
	if (periodic) {
		flow = bpf_map_lookup_elem(&flows, &key);
		if (flow)
			arrive(flow, plan, now, here);
	}
	if (hinted) {
		client_of(&key, &client_key);
		client = bpf_map_lookup_elem(&clients, &client_key);
		if (client) {
			keep_promise(client, now);
			reader_of(&client->readers);
		}
	}
	plan->packet = key;
	plan->packet_ns = now;
	return 0;
}

/* The end of a poll of any device: what is woken from here on has nothing to do with the packet. */
SEC("tp_btf/napi_poll")
int BPF_PROG(on_polled)
{
	struct plan *plan = plan_of(bpf_get_smp_processor_id());

	if (plan && plan->packet_ns)
		plan->packet_ns = 0;
	return 0;
}

/* A flow is entered when somebody reads it: what is sent to nobody takes no place. */
static __always_inline struct flow *flow_read(const struct flow_key *key, unsigned long long now)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, key), *empty;
	__u32 none = 0;

	if (flow)
		return flow;
	empty = bpf_map_lookup_elem(&new_flow, &none);
	if (!empty || bpf_map_update_elem(&flows, key, empty, BPF_NOEXIST))
		return NULL;
	flow = bpf_map_lookup_elem(&flows, key);
	if (flow) {
		flow->arrived = now;
		flow->reference = now;
	}
	return flow;
}

/* The packet's reader, on the CPU on which it waits. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct plan *plan = plan_of(bpf_get_smp_processor_id()), *others;
	unsigned int tgid = task->tgid, cpu = task->wake_cpu;
	struct client_key service = {};
	struct readers *readers, first = {.tgid = tgid};
	struct client *client;
	struct flow *flow;
	unsigned long long arrived;

	if (!plan || !plan->packet_ns || task->flags & PF_KTHREAD)
		return 0;
	arrived = plan->packet_ns;
	plan->packet_ns = 0;
	flow = periodic ? flow_read(&plan->packet, arrived) : NULL;
	if (flow) {
		is_read(&flow->readers, tgid, cpu + 1);
		if (flow->readers.cpu && flow->owner.tgid != tgid) {
			flow->owner.tgid = tgid;
			flow->owner.device = PACKETS;
			flow->owner.cgroup = task->cgroups->dfl_cgrp->kn->id;
			charge_of(&flow->owner, task);
		}
		others = plan_of(cpu);
		if (others && plan->packet_treatment != ALONE)
			wait_of(others, task->pid, arrived,
				OF_PACKETS * 2 + (plan->packet_treatment == ASSISTED), WOKEN);
	}
	if (!hinted)
		return 0;
	client_of(&plan->packet, &service);
	client = bpf_map_lookup_elem(&clients, &service);
	if (client)
		is_read(&client->readers, tgid, cpu + 1);
	__builtin_memset(service.address, 0, sizeof(service.address));
	readers = bpf_map_lookup_elem(&services, &service);
	if (readers)
		is_read(readers, tgid, cpu + 1);
	else
		bpf_map_update_elem(&services, &service, &first, BPF_NOEXIST);
	return 0;
}

/*
 * The socket on which hints arrive. What a stranger sends, and what one address sends too often, is
 * dropped here: it wakes nobody, and takes no place from the hints of others.
 */

/* Time in which an address may send a tenth of what it may in a second. */
#define TENTH_NS 100000000ULL

const volatile struct network nets[NETS];
/* Datagrams of an address, and of all, in a second. */
const volatile unsigned int datagrams_of_address = 1000;
const volatile unsigned int datagrams_of_all = 20000;

struct count {
	unsigned long long since;
	unsigned int count;
	unsigned int reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, unsigned char[16]);
	__type(value, struct count);
} addresses SEC(".maps");

struct count datagrams;
unsigned long long strangers;
unsigned long long floods;

/* One more than so many in a second? */
static __always_inline bool exceeds(struct count *count, unsigned int most, unsigned long long now)
{
	if (now - count->since > TENTH_NS) {
		count->since = now;
		count->count = 0;
	}
	return ++count->count > most / 10;
}

static __always_inline bool is_of(const unsigned char *address, unsigned int family)
{
	for (int i = 0; i < NETS && nets[i].family; i++) {
		const volatile struct network *net = &nets[i];
		bool same = net->family == family;

		for (unsigned int byte = 0; byte < 16 && byte * 8 < net->bits; byte++) {
			unsigned int left = net->bits - byte * 8;
			unsigned char mask = left < 8 ? 0xff << (8 - left) : 0xff;

			same &= !((address[byte] ^ net->address[byte]) & mask);
		}
		if (same)
			return true;
	}
	return false;
}

SEC("socket")
int filter_hints(struct __sk_buff *skb)
{
	bool four = skb->protocol == bpf_htons(ETH_P_IP);
	unsigned long long now = bpf_ktime_get_ns();
	unsigned char address[16] = {};
	struct count *count, first = {.since = now};

	if (four ? bpf_skb_load_bytes_relative(skb, 12, address, 4, BPF_HDR_START_NET)
		 : bpf_skb_load_bytes_relative(skb, 8, address, 16, BPF_HDR_START_NET))
		return 0;
	if (!is_of(address, four ? 4 : 6)) {
		ADD(strangers, 1);
		return 0;
	}
	count = bpf_map_lookup_elem(&addresses, address);
	if (!count) {
		bpf_map_update_elem(&addresses, address, &first, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&addresses, address);
	}
	if ((count && exceeds(count, datagrams_of_address, now)) ||
	    exceeds(&datagrams, datagrams_of_all, now)) {
		ADD(floods, 1);
		return 0;
	}
	return skb->len;
}

#endif

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A network card for the lab, on QEMU's `edu` device, which really interrupts (MSI). Its hardware
 * clock is CLOCK_MONOTONIC with an offset and a drift that are known here; its target times follow
 * the rules of a driver, igb (i210) or igc, under whose name it registers. A timer of `host_cpu`
 * writes to the device at a target time, as the card's own clock would.
 *
 * Its link leads to a neighbour that has every address, and answers ARP, neighbour solicitations
 * and pings after a random time. What is received is timestamped by the clock, if that is asked
 * for.
 *
 * debugfs card/launches: the clock's and CLOCK_MONOTONIC's ns of each launch, the truth to which a
 * measurement is compared; card/arrivals: the same of received packets; card/filter: which of them
 * are timestamped; card/counts: launches, lost ones, resets, requests in frequency mode. So many ns
 * that are written to card/back set its clock back, as another program would.
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/hrtimer.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_arp.h>
#include <linux/interrupt.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/version.h>
#include <net/ip6_checksum.h>
#include <net/ndisc.h>

#define EDU_IDENTIFICATION 0x00
#define EDU_STATUS 0x24
#define EDU_RAISE 0x60
#define EDU_ACKNOWLEDGE 0x64
#define TARGET_TIME 1
#define RECEIVED 2

#define CHANNELS 2
#define PINS 4
#define LAUNCHES 16384
/* Packets on the link at a time. */
#define ON_LINK 64

static char *driver = "igb";
module_param(driver, charp, 0444);
MODULE_PARM_DESC(driver, "whose rules and name: igb or igc");
static int drift_ppb = 12345;
module_param(drift_ppb, int, 0444);
MODULE_PARM_DESC(drift_ppb, "how much faster than CLOCK_MONOTONIC its clock runs");
static bool pps = true;
module_param(pps, bool, 0444);
MODULE_PARM_DESC(pps, "has a pulse per second, as the i210 and not the i350 under igb");
static bool fibre;
module_param(fibre, bool, 0444);
static int pins = PINS;
module_param(pins, int, 0444);
static uint host_cpu;
module_param(host_cpu, uint, 0444);
MODULE_PARM_DESC(host_cpu, "whose timer stands for the card's clock");
static uint lose_every;
module_param(lose_every, uint, 0644);
MODULE_PARM_DESC(lose_every, "every nth launch has no interrupt; 0: none");
static uint reset_every;
module_param(reset_every, uint, 0644);
MODULE_PARM_DESC(reset_every, "the card resets itself instead of every nth launch; 0: never");

static uint answer_min_us = 200, answer_max_us = 5000;
module_param(answer_min_us, uint, 0644);
module_param(answer_max_us, uint, 0644);
MODULE_PARM_DESC(answer_max_us, "the neighbour answers after answer_min_us to answer_max_us");
static uint lose_answer_every;
module_param(lose_answer_every, uint, 0644);
MODULE_PARM_DESC(lose_answer_every, "every nth reply to a ping is lost; 0: none, 1: all");
static uint repeat_answer_every;
module_param(repeat_answer_every, uint, 0644);
MODULE_PARM_DESC(repeat_answer_every, "every nth reply to a ping comes twice; 0: none");
static uint others;
module_param(others, uint, 0644);
MODULE_PARM_DESC(others, "other packets that come for each ping, at random");
static bool stamps = true;
module_param(stamps, bool, 0444);
MODULE_PARM_DESC(stamps, "can timestamp every packet, as the i210; false: only PTP's");

/* On the link until `at`, of CLOCK_MONOTONIC. */
struct coming {
	struct sk_buff *packet;
	s64 at;
};

struct output {
	bool on;
	s64 target; /* the card's clock */
	s64 half;
};

struct card {
	struct pci_dev *pci;
	struct net_device *net;
	void __iomem *registers;
	struct ptp_clock *clock;
	struct ptp_clock_info info;
	struct ptp_pin_desc pin[PINS];
	struct dentry *folder;
	struct napi_struct napi;
	/* Arrived, and not yet taken by the driver. */
	struct sk_buff_head received;
	struct hrtimer arrival;
	call_single_data_t delivery;
	/* Of all below. */
	spinlock_t lock;
	/* At `base` of CLOCK_MONOTONIC the clock was `clock_base`; since then it runs `ppb` faster.
	 */
	s64 base, clock_base;
	s64 ppb;
	struct output out[CHANNELS];
	struct hrtimer timer;
	call_single_data_t arming;
	s64 truth[LAUNCHES][2];
	u64 launches, lost, resets, in_frequency_mode;
	struct hwtstamp_config stamping;
	struct coming link[ON_LINK];
	s64 arrived[LAUNCHES][2];
	u64 arrivals, pinged;
};

static bool is_igc(void)
{
	return !strcmp(driver, "igc");
}

/* Below, under the lock: */

static s64 clock_at(const struct card *card, s64 monotonic)
{
	s64 since = monotonic - card->base;

	return card->clock_base + since + div_s64(since * card->ppb, NSEC_PER_SEC);
}

/* The inverse, to 1 ns; its range is some minutes from the last change of the clock. */
static s64 monotonic_at(const struct card *card, s64 clock)
{
	s64 since = clock - card->clock_base;

	return card->base + since - div_s64(since * card->ppb, NSEC_PER_SEC + card->ppb);
}

static void set_clock(struct card *card, s64 monotonic, s64 clock, s64 ppb)
{
	card->base = monotonic;
	card->clock_base = clock;
	card->ppb = ppb;
}

static const struct output *first_due(const struct card *card)
{
	const struct output *first = NULL;

	for (int i = 0; i < CHANNELS; i++)
		if (card->out[i].on && (!first || card->out[i].target < first->target))
			first = &card->out[i];
	return first;
}

static ktime_t expiry(const struct card *card, const struct output *output)
{
	return ns_to_ktime(max(monotonic_at(card, output->target), (s64)ktime_get_ns()));
}

static void reset(struct card *card)
{
	/* As igb: no outputs, and its clock is CLOCK_REALTIME. */
	memset(card->out, 0, sizeof(card->out));
	set_clock(card, ktime_get_ns(), ktime_get_real_ns(), card->ppb);
	card->resets++;
}

static void fire(struct card *card, struct output *output)
{
	u64 number = ++card->launches;
	s64 *truth = card->truth[number % LAUNCHES];

	truth[0] = 0;
	if (reset_every && number % reset_every == 0) {
		reset(card);
		return;
	}
	if (lose_every && number % lose_every == 0) {
		output->on = false;
		card->lost++;
		return;
	}
	truth[0] = output->target;
	truth[1] = monotonic_at(card, output->target);
	output->target += output->half;
	writel(TARGET_TIME, card->registers + EDU_RAISE);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct card *card = container_of(timer, struct card, timer);
	const struct output *next;
	unsigned long flags;

	spin_lock_irqsave(&card->lock, flags);
	for (int i = 0; i < CHANNELS; i++)
		if (card->out[i].on && clock_at(card, ktime_get_ns()) >= card->out[i].target)
			fire(card, &card->out[i]);
	next = first_due(card);
	if (next)
		hrtimer_set_expires(timer, expiry(card, next));
	spin_unlock_irqrestore(&card->lock, flags);
	return next ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/* On `host_cpu`. */
static void arm_here(void *data)
{
	struct card *card = data;
	const struct output *next;
	ktime_t at = 0;
	unsigned long flags;

	spin_lock_irqsave(&card->lock, flags);
	next = first_due(card);
	if (next)
		at = expiry(card, next);
	spin_unlock_irqrestore(&card->lock, flags);
	if (next)
		hrtimer_start(&card->timer, at, HRTIMER_MODE_ABS_PINNED_HARD);
}

/* After a change, not under the lock. */
static void arm(struct card *card)
{
	hrtimer_cancel(&card->timer);
	smp_call_function_single(host_cpu, arm_here, card, true);
}

static struct card *card_of(struct ptp_clock_info *info)
{
	return container_of(info, struct card, info);
}

static int get_time(struct ptp_clock_info *info, struct timespec64 *ts,
		    struct ptp_system_timestamp *system)
{
	struct card *card = card_of(info);
	unsigned long flags;
	s64 now;

	spin_lock_irqsave(&card->lock, flags);
	ptp_read_system_prets(system);
	/* One read of the card; igc reads twice, and the first latches. */
	readl(card->registers + EDU_IDENTIFICATION);
	now = clock_at(card, ktime_get_ns());
	if (is_igc())
		readl(card->registers + EDU_IDENTIFICATION);
	ptp_read_system_postts(system);
	spin_unlock_irqrestore(&card->lock, flags);
	*ts = ns_to_timespec64(now);
	return 0;
}

static int set_time(struct ptp_clock_info *info, const struct timespec64 *ts)
{
	struct card *card = card_of(info);
	unsigned long flags;

	spin_lock_irqsave(&card->lock, flags);
	set_clock(card, ktime_get_ns(), timespec64_to_ns(ts), card->ppb);
	spin_unlock_irqrestore(&card->lock, flags);
	arm(card);
	return 0;
}

static int adjust_time(struct ptp_clock_info *info, s64 delta)
{
	struct card *card = card_of(info);
	unsigned long flags;
	s64 now;

	spin_lock_irqsave(&card->lock, flags);
	now = ktime_get_ns();
	set_clock(card, now, clock_at(card, now) + delta, card->ppb);
	spin_unlock_irqrestore(&card->lock, flags);
	arm(card);
	return 0;
}

static int adjust_rate(struct ptp_clock_info *info, long scaled_ppm)
{
	struct card *card = card_of(info);
	unsigned long flags;
	s64 now;

	spin_lock_irqsave(&card->lock, flags);
	now = ktime_get_ns();
	set_clock(card, now, clock_at(card, now),
		  drift_ppb + div_s64((s64)scaled_ppm * 1000, 65536));
	spin_unlock_irqrestore(&card->lock, flags);
	arm(card);
	return 0;
}

/* The rules of igb_ptp_feature_enable_i210() and igc_ptp_feature_enable_i225(). */
static int enable(struct ptp_clock_info *info, struct ptp_clock_request *request, int on)
{
	struct card *card = card_of(info);
	struct output new = {};
	unsigned long flags;
	bool by_frequency;
	s64 first;

	if (request->type != PTP_CLK_REQ_PEROUT)
		return -EOPNOTSUPP;
	if (request->perout.flags)
		return -EOPNOTSUPP;
	if (on && ptp_find_pin(card->clock, PTP_PF_PEROUT, request->perout.index) < 0)
		return -EBUSY;
	new.half = request->perout.period.sec *NSEC_PER_SEC + request->perout.period.nsec;
	new.half >>= 1;
	by_frequency = on && (new.half <= 70000000 || new.half == 125000000 ||
			      new.half == 250000000 || new.half == 500000000);
	if (by_frequency && new.half < 8)
		return -EINVAL;
	new.on = on && !by_frequency;
	spin_lock_irqsave(&card->lock, flags);
	card->in_frequency_mode += by_frequency;
	new.target = request->perout.start.sec;
	if (is_igc()) {
		first = div_s64(clock_at(card, ktime_get_ns()), NSEC_PER_SEC) + 2;
		new.target = max(new.target, first);
	}
	new.target = new.target *NSEC_PER_SEC + request->perout.start.nsec;
	card->out[request->perout.index] = new;
	spin_unlock_irqrestore(&card->lock, flags);
	arm(card);
	return 0;
}

static int verify(struct ptp_clock_info *info, unsigned int pin, enum ptp_pin_function function,
		  unsigned int channel)
{
	return function == PTP_PF_PHYSYNC ? -1 : 0;
}

static irqreturn_t on_interrupt(int irq, void *data)
{
	struct card *card = data;
	u32 status = readl(card->registers + EDU_STATUS);

	if (!status)
		return IRQ_NONE;
	writel(status, card->registers + EDU_ACKNOWLEDGE);
	if (status & RECEIVED)
		napi_schedule(&card->napi);
	return IRQ_HANDLED;
}

static int receive(struct napi_struct *napi, int budget)
{
	struct card *card = container_of(napi, struct card, napi);
	struct sk_buff *packet;
	int done = 0;

	while (done < budget && (packet = skb_dequeue(&card->received))) {
		packet->protocol = eth_type_trans(packet, card->net);
		napi_gro_receive(napi, packet);
		done++;
	}
	if (done < budget && napi_complete_done(napi, done) && !skb_queue_empty(&card->received))
		napi_schedule(napi);
	return done;
}

/* Under the lock: the first packet on the link, or NULL. */
static struct coming *first_coming(struct card *card)
{
	struct coming *first = NULL;

	for (int i = 0; i < ON_LINK; i++)
		if (card->link[i].packet && (!first || card->link[i].at < first->at))
			first = &card->link[i];
	return first;
}

/* Under the lock. */
static void arrive(struct card *card, struct coming *coming)
{
	s64 now = ktime_get_ns();
	s64 *truth = card->arrived[++card->arrivals % LAUNCHES];

	truth[0] = clock_at(card, now);
	truth[1] = now;
	if (card->stamping.rx_filter == HWTSTAMP_FILTER_ALL)
		skb_hwtstamps(coming->packet)->hwtstamp = ns_to_ktime(truth[0]);
	skb_queue_tail(&card->received, coming->packet);
	coming->packet = NULL;
	writel(RECEIVED, card->registers + EDU_RAISE);
}

static enum hrtimer_restart on_arrival(struct hrtimer *timer)
{
	struct card *card = container_of(timer, struct card, arrival);
	struct coming *first;
	unsigned long flags;

	spin_lock_irqsave(&card->lock, flags);
	while ((first = first_coming(card)) && first->at <= ktime_get_ns())
		arrive(card, first);
	if (first)
		hrtimer_set_expires(timer, ns_to_ktime(first->at));
	spin_unlock_irqrestore(&card->lock, flags);
	return first ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/* On `host_cpu`. */
static void deliver_here(void *data)
{
	struct card *card = data;
	struct coming *first;
	unsigned long flags;

	spin_lock_irqsave(&card->lock, flags);
	first = first_coming(card);
	if (first)
		hrtimer_start(&card->arrival, ns_to_ktime(first->at), HRTIMER_MODE_ABS_PINNED_HARD);
	spin_unlock_irqrestore(&card->lock, flags);
}

/* Puts the packet on the link, from the neighbour. */
static void send_back(struct card *card, struct sk_buff *packet, u32 after_us)
{
	unsigned long flags;
	bool full = true;

	spin_lock_irqsave(&card->lock, flags);
	for (int i = 0; i < ON_LINK && full; i++)
		if (!card->link[i].packet) {
			card->link[i].packet = packet;
			card->link[i].at = ktime_get_ns() + (s64)after_us * NSEC_PER_USEC;
			full = false;
		}
	spin_unlock_irqrestore(&card->lock, flags);
	if (full)
		dev_kfree_skb_any(packet);
	else
		smp_call_function_single_async(host_cpu, &card->delivery);
}

static u32 random_us(u32 least, u32 most)
{
	return least + get_random_u32() % (most > least ? most - least : 1);
}

static const u8 neighbour[ETH_ALEN] = {0x02, 0, 0, 0, 0, 0x01};

static void answer_arp(u8 *data)
{
	struct arphdr *arp = (struct arphdr *)data;
	u8 *sender = data + sizeof(*arp), *target = sender + ETH_ALEN + 4, address[4];

	arp->ar_op = htons(ARPOP_REPLY);
	memcpy(address, target + ETH_ALEN, 4);
	memcpy(target, sender, ETH_ALEN + 4);
	memcpy(sender, neighbour, ETH_ALEN);
	memcpy(sender + ETH_ALEN, address, 4);
}

static void answer_ping(struct iphdr *ip)
{
	struct icmphdr *icmp = (void *)ip + ip->ihl * 4;

	swap(ip->saddr, ip->daddr);
	icmp->type = ICMP_ECHOREPLY;
	csum_replace2(&icmp->checksum, htons(ICMP_ECHO << 8), htons(ICMP_ECHOREPLY << 8));
}

/* A solicitation with the sender's link-layer address becomes the advertisement with ours. */
static void answer_ipv6(struct ipv6hdr *ip, unsigned int length)
{
	struct icmp6hdr *icmp = (void *)(ip + 1);
	struct nd_msg *message = (void *)icmp;

	if (icmp->icmp6_type == NDISC_NEIGHBOUR_SOLICITATION) {
		ip->daddr = ip->saddr;
		ip->saddr = message->target;
		icmp->icmp6_type = NDISC_NEIGHBOUR_ADVERTISEMENT;
		icmp->icmp6_solicited = icmp->icmp6_override = 1;
		message->opt[0] = ND_OPT_TARGET_LL_ADDR;
		memcpy(message->opt + 2, neighbour, ETH_ALEN);
	} else {
		swap(ip->saddr, ip->daddr);
		icmp->icmp6_type = ICMPV6_ECHO_REPLY;
	}
	icmp->icmp6_cksum = 0;
	icmp->icmp6_cksum = csum_ipv6_magic(&ip->saddr, &ip->daddr, length, IPPROTO_ICMPV6,
					    csum_partial(icmp, length, 0));
}

static bool is_ping_or_solicitation(const struct ipv6hdr *ip)
{
	const struct icmp6hdr *icmp = (const void *)(ip + 1);

	if (ip->nexthdr != IPPROTO_ICMPV6)
		return false;
	/* Not the one that looks whether an address is taken: it has no sender. */
	if (icmp->icmp6_type == NDISC_NEIGHBOUR_SOLICITATION)
		return !ipv6_addr_any(&ip->saddr) && ntohs(ip->payload_len) == 32;
	return icmp->icmp6_type == ICMPV6_ECHO_REQUEST;
}

/* Makes a packet that was sent the neighbour's answer; false if there is none. */
static bool answer(struct sk_buff *packet, bool *is_ping)
{
	struct ethhdr *ethernet = (struct ethhdr *)packet->data;
	struct iphdr *ip = (struct iphdr *)(ethernet + 1);
	struct ipv6hdr *ipv6 = (struct ipv6hdr *)(ethernet + 1);

	*is_ping = true;
	switch (ntohs(ethernet->h_proto)) {
	case ETH_P_ARP:
		*is_ping = false;
		answer_arp((u8 *)(ethernet + 1));
		break;
	case ETH_P_IP:
		if (ip->protocol != IPPROTO_ICMP || ((u8 *)ip)[ip->ihl * 4] != ICMP_ECHO)
			return false;
		answer_ping(ip);
		break;
	case ETH_P_IPV6:
		if (!is_ping_or_solicitation(ipv6))
			return false;
		*is_ping = ((u8 *)(ipv6 + 1))[0] == ICMPV6_ECHO_REQUEST;
		answer_ipv6(ipv6, ntohs(ipv6->payload_len));
		break;
	default:
		return false;
	}
	memcpy(ethernet->h_dest, ethernet->h_source, ETH_ALEN);
	memcpy(ethernet->h_source, neighbour, ETH_ALEN);
	return true;
}

/* A packet of no protocol. */
static void send_other(struct card *card)
{
	struct sk_buff *packet = netdev_alloc_skb(card->net, ETH_ZLEN);
	struct ethhdr *ethernet;

	if (!packet)
		return;
	ethernet = skb_put_zero(packet, ETH_ZLEN);
	memcpy(ethernet->h_dest, card->net->dev_addr, ETH_ALEN);
	memcpy(ethernet->h_source, neighbour, ETH_ALEN);
	ethernet->h_proto = htons(ETH_P_802_EX1);
	send_back(card, packet, random_us(0, 2 * answer_max_us));
}

static void answer_over_link(struct card *card, const struct sk_buff *sent)
{
	struct sk_buff *packet = netdev_alloc_skb(card->net, sent->len);
	bool is_ping;
	u64 number;

	if (!packet)
		return;
	skb_copy_bits(sent, 0, skb_put(packet, sent->len), sent->len);
	if (!answer(packet, &is_ping)) {
		dev_kfree_skb(packet);
		return;
	}
	number = is_ping ? ++card->pinged : 0;
	for (uint i = 0; is_ping && i < others; i++)
		send_other(card);
	if (is_ping && repeat_answer_every && number % repeat_answer_every == 0) {
		struct sk_buff *again = skb_copy(packet, GFP_ATOMIC);

		if (again)
			send_back(card, again, random_us(answer_min_us, answer_max_us));
	}
	if (is_ping && lose_answer_every && number % lose_answer_every == 0)
		dev_kfree_skb(packet);
	else
		send_back(card, packet, random_us(answer_min_us, answer_max_us));
}

static int open(struct net_device *net)
{
	struct card *card = netdev_priv(net);
	int result = request_irq(pci_irq_vector(card->pci, 0), on_interrupt, 0, net->name, card);

	if (result)
		return result;
	napi_enable(&card->napi);
	netif_start_queue(net);
	return 0;
}

static int stop(struct net_device *net)
{
	struct card *card = netdev_priv(net);

	netif_stop_queue(net);
	napi_disable(&card->napi);
	free_irq(pci_irq_vector(card->pci, 0), card);
	return 0;
}

static netdev_tx_t transmit(struct sk_buff *packet, struct net_device *net)
{
	answer_over_link(netdev_priv(net), packet);
	dev_kfree_skb(packet);
	return NETDEV_TX_OK;
}

/* As igb: what it cannot do exactly, it does for more packets. */
static int set_stamping(struct card *card, struct hwtstamp_config *wanted)
{
	if (wanted->tx_type > HWTSTAMP_TX_ON)
		return -ERANGE;
	switch (wanted->rx_filter) {
	case HWTSTAMP_FILTER_NONE:
	case HWTSTAMP_FILTER_PTP_V2_EVENT:
		break;
	case HWTSTAMP_FILTER_ALL:
		if (stamps)
			break;
		fallthrough;
	default:
		return -ERANGE;
	}
	card->stamping = *wanted;
	return 0;
}

static int control(struct net_device *net, struct ifreq *request, int command)
{
	struct card *card = netdev_priv(net);
	struct hwtstamp_config wanted;
	int result;

	switch (command) {
	case SIOCSHWTSTAMP:
		if (copy_from_user(&wanted, request->ifr_data, sizeof(wanted)))
			return -EFAULT;
		result = set_stamping(card, &wanted);
		if (result)
			return result;
		fallthrough;
	case SIOCGHWTSTAMP:
		return copy_to_user(request->ifr_data, &card->stamping, sizeof(card->stamping))
			   ? -EFAULT
			   : 0;
	default:
		return -EOPNOTSUPP;
	}
}

static const struct net_device_ops net_ops = {
    .ndo_open = open,
    .ndo_stop = stop,
    .ndo_start_xmit = transmit,
    .ndo_set_mac_address = eth_mac_addr,
    .ndo_eth_ioctl = control,
};

static int link_settings(struct net_device *net, struct ethtool_link_ksettings *settings)
{
	settings->base.speed = SPEED_1000;
	settings->base.duplex = DUPLEX_FULL;
	settings->base.port = fibre ? PORT_FIBRE : PORT_TP;
	return 0;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define kernel_ethtool_ts_info ethtool_ts_info
#endif

static int stamping_info(struct net_device *net, struct kernel_ethtool_ts_info *info)
{
	struct card *card = netdev_priv(net);

	info->so_timestamping = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	info->phc_index = ptp_clock_index(card->clock);
	info->tx_types = BIT(HWTSTAMP_TX_OFF);
	info->rx_filters = BIT(HWTSTAMP_FILTER_NONE) | BIT(HWTSTAMP_FILTER_PTP_V2_EVENT) |
			   (stamps ? BIT(HWTSTAMP_FILTER_ALL) : 0);
	return 0;
}

static const struct ethtool_ops ethtool_ops = {
    .get_ts_info = stamping_info,
    .get_link = ethtool_op_get_link,
    .get_link_ksettings = link_settings,
};

static int launches_show(struct seq_file *file, void *data)
{
	struct card *card = file->private;
	u64 last = READ_ONCE(card->launches);

	for (u64 i = last < LAUNCHES ? 1 : last - LAUNCHES + 1; i <= last; i++)
		if (card->truth[i % LAUNCHES][0])
			seq_printf(file, "%lld %lld\n", card->truth[i % LAUNCHES][0],
				   card->truth[i % LAUNCHES][1]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(launches);

static int arrivals_show(struct seq_file *file, void *data)
{
	struct card *card = file->private;
	u64 last = READ_ONCE(card->arrivals);

	for (u64 i = last < LAUNCHES ? 1 : last - LAUNCHES + 1; i <= last; i++)
		seq_printf(file, "%lld %lld\n", card->arrived[i % LAUNCHES][0],
			   card->arrived[i % LAUNCHES][1]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(arrivals);

static int counts_show(struct seq_file *file, void *data)
{
	struct card *card = file->private;
	int on = card->out[0].on + card->out[1].on;

	seq_printf(file, "launches %llu\nlost %llu\nresets %llu\nin_frequency_mode %llu\non %d\n",
		   card->launches, card->lost, card->resets, card->in_frequency_mode, on);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

static int set_back(void *data, u64 ns)
{
	struct card *card = data;

	return adjust_time(&card->info, -(s64)ns);
}
DEFINE_DEBUGFS_ATTRIBUTE(back_fops, NULL, set_back, "%llu\n");

static int start_clock(struct card *card)
{
	card->info = (struct ptp_clock_info){
	    .owner = THIS_MODULE,
	    .name = "lab's card",
	    .max_adj = 62499999,
	    .n_per_out = CHANNELS,
	    .n_pins = clamp(pins, 0, PINS),
	    .pin_config = card->pin,
	    .pps = pps,
	    .adjfine = adjust_rate,
	    .adjtime = adjust_time,
	    .gettimex64 = get_time,
	    .settime64 = set_time,
	    .enable = enable,
	    .verify = verify,
	};
	for (int i = 0; i < PINS; i++) {
		snprintf(card->pin[i].name, sizeof(card->pin[i].name), "SDP%d", i);
		card->pin[i].index = i;
	}
	set_clock(card, ktime_get_ns(), ktime_get_real_ns(), drift_ppb);
	hrtimer_init(&card->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	card->timer.function = on_timer;
	card->clock = ptp_clock_register(&card->info, &card->pci->dev);
	return PTR_ERR_OR_ZERO(card->clock);
}

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct net_device *net;
	struct card *card;
	int result = pcim_enable_device(pci);

	if (result)
		return result;
	net = devm_alloc_etherdev(&pci->dev, sizeof(*card));
	if (!net)
		return -ENOMEM;
	card = netdev_priv(net);
	card->pci = pci;
	card->net = net;
	spin_lock_init(&card->lock);
	skb_queue_head_init(&card->received);
	INIT_CSD(&card->delivery, deliver_here, card);
	hrtimer_init(&card->arrival, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	card->arrival.function = on_arrival;
	netif_napi_add(net, &card->napi, receive);
	SET_NETDEV_DEV(net, &pci->dev);
	net->netdev_ops = &net_ops;
	net->ethtool_ops = &ethtool_ops;
	eth_hw_addr_random(net);
	pci_set_drvdata(pci, card);
	result = pcim_iomap_regions(pci, BIT(0), "card");
	if (result)
		return result;
	card->registers = pcim_iomap_table(pci)[0];
	pci_set_master(pci);
	result = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_MSI);
	if (result < 0)
		return result;
	result = start_clock(card);
	if (result)
		goto no_clock;
	result = register_netdev(net);
	if (result)
		goto no_net;
	card->folder = debugfs_create_dir("card", NULL);
	debugfs_create_file("launches", 0444, card->folder, card, &launches_fops);
	debugfs_create_file("arrivals", 0444, card->folder, card, &arrivals_fops);
	/* As another program would set it. */
	debugfs_create_u32("filter", 0644, card->folder, (u32 *)&card->stamping.rx_filter);
	debugfs_create_file("counts", 0444, card->folder, card, &counts_fops);
	debugfs_create_file("back", 0200, card->folder, card, &back_fops);
	return 0;

no_net:
	ptp_clock_unregister(card->clock);
no_clock:
	pci_free_irq_vectors(pci);
	return result;
}

static void remove(struct pci_dev *pci)
{
	struct card *card = pci_get_drvdata(pci);

	debugfs_remove(card->folder);
	unregister_netdev(card->net);
	hrtimer_cancel(&card->arrival);
	for (int i = 0; i < ON_LINK; i++)
		kfree_skb(card->link[i].packet);
	skb_queue_purge(&card->received);
	ptp_clock_unregister(card->clock);
	hrtimer_cancel(&card->timer);
	pci_free_irq_vectors(pci);
}

static const struct pci_device_id ids[] = {
    {PCI_DEVICE(0x1234, 0x11e8)},
    {},
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver card_driver = {
    .id_table = ids,
    .probe = probe,
    .remove = remove,
};

static int __init start(void)
{
	card_driver.name = driver;
	return pci_register_driver(&card_driver);
}
module_init(start);

static void __exit end(void)
{
	pci_unregister_driver(&card_driver);
}
module_exit(end);

MODULE_DESCRIPTION("A network card for the lab, on QEMU's edu device");
MODULE_LICENSE("Dual BSD/GPL");

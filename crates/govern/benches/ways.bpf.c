// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Three ways to keep a CPU from states that a bound forbids while packets come, and what each does:
 * which state the CPU enters next after a packet, and where its time goes. All of them begin at the
 * packet, on the CPU that takes it, and end when no packet came for `quiet_ns`.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <linux/errno.h>
#include <stddef.h>
#include "ways.h"

#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif

/* Kernel flag of bpf_timer_start since 6.7: the timer stays on its CPU. */
#define TIMER_PINNED (1ULL << 1)

/* Of an IPv4 packet without options that carries UDP. */
#define TO_PORT 22
#define PAYLOAD 28

/* From 10 ms on the kernel complains of work that hogs a CPU. */
#define LONGEST_LOOP_NS 5000000
#define ROUNDS (1 << 20)
/* In a longer round the CPU was somebody else's. */
#define ROUND_NS 2000

/* include/linux/workqueue.h: Linux 6.10 and later. */
extern int bpf_wq_init(struct bpf_wq *work, void *map, unsigned int flags) __weak __ksym;
extern int bpf_wq_start(struct bpf_wq *work, unsigned int flags) __weak __ksym;
extern int bpf_wq_set_callback_impl(struct bpf_wq *work,
				    int(callback)(void *map, int *key, void *value),
				    unsigned int flags, void *aux__ign) __weak __ksym;

/* Set before loading. */
const volatile unsigned int cpu;
const volatile unsigned int port;
const volatile unsigned int namespace;
/* Idle states, a bit each. */
const volatile unsigned int forbidden;
const volatile unsigned long long quiet_ns;
/* Of the timer. */
const volatile unsigned long long period_ns;
/* The kernel has bpf_wq. */
const volatile bool has_work;

unsigned long long timer_flags;
/* The timer is armed; the loop is to run, or does. */
unsigned int armed;
unsigned int working;
/* Since a packet no idle state was entered: 1 after a burst's first, 2 after another. */
unsigned int pending;
/* The idle state that the CPU is in, and the turn in which it entered it. */
unsigned int state;
unsigned int entered_in;
unsigned long long since;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct board);
} boards SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sums);
} sums_of_turn SEC(".maps");

struct keeper {
	struct bpf_timer timer;
	struct bpf_wq work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct keeper);
} keepers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
	    values, struct {
		    __uint(type, BPF_MAP_TYPE_RINGBUF);
		    __uint(max_entries, 4096);
	    });
} bells SEC(".maps");

static __always_inline struct board *the_board(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&boards, &only);
}

static __always_inline struct keeper *the_keeper(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&keepers, &only);
}

static __always_inline struct sums *the_sums(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&sums_of_turn, &only);
}

static __always_inline bool is_quiet(const struct board *board, unsigned long long now)
{
	unsigned long long last = *(volatile unsigned long long *)&board->last_ns;

	return now > last && now - last >= quiet_ns;
}

/*
 * A: a thread
 */

static __always_inline void wake_thread(struct board *board, struct sums *sums)
{
	__u32 only = 0;
	void *bell;
	char something = 0;

	if (board->held || board->called)
		return;
	board->called = 1;
	sums->rung++;
	bell = bpf_map_lookup_elem(&bells, &only);
	if (bell)
		bpf_ringbuf_output(bell, &something, sizeof(something), BPF_RB_FORCE_WAKEUP);
}

/*
 * B: a timer
 */

static __always_inline void arm(struct keeper *keeper, struct sums *sums)
{
	armed = 1;
	if (bpf_timer_start(&keeper->timer, period_ns, timer_flags)) {
		sums->refused++;
		armed = 0;
	}
}

static int on_alarm(void *map, __u32 *key, struct keeper *keeper)
{
	struct board *board = the_board();
	struct sums *sums = the_sums();

	armed = 0;
	if (!board || !sums)
		return 0;
	if (bpf_get_smp_processor_id() != cpu) {
		sums->strayed++;
		return 0;
	}
	sums->fired++;
	if (board->way == TIMER && !is_quiet(board, bpf_ktime_get_ns()))
		arm(keeper, sums);
	return 0;
}

/*
 * C: a kernel thread
 */

struct spin {
	struct board *board;
	unsigned long long began;
	unsigned long long now;
	unsigned long long awake;
};

static long go_round(__u32 round, struct spin *spin)
{
	unsigned long long now = bpf_ktime_get_ns();

	if (now - spin->now < ROUND_NS)
		spin->awake += now - spin->now;
	spin->now = now;
	return bpf_get_current_task_btf()->se.cfs_rq->rq->nr_running > 1 ||
	       now - spin->began >= LONGEST_LOOP_NS || is_quiet(spin->board, now);
}

static int on_work(void *map, int *key, void *value)
{
	unsigned long long now = bpf_ktime_get_ns();
	struct board *board = the_board();
	struct sums *sums = the_sums();
	struct spin spin = {.board = board, .began = now, .now = now};

	if (!board || !sums)
		return 0;
	if (bpf_get_smp_processor_id() == cpu) {
		sums->looped++;
		bpf_loop(ROUNDS, go_round, &spin, 0);
		sums->loop_ns += spin.awake;
	}
	working = 0;
	return 0;
}

static __always_inline void start_loop(struct sums *sums)
{
	struct keeper *keeper = the_keeper();

	if (!has_work || !keeper || working)
		return;
	working = 1;
	if (bpf_wq_start(&keeper->work, 0)) {
		sums->refused++;
		working = 0;
	}
}

/*
 * Events
 */

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(packet, struct sk_buff *skb)
{
	struct board *board;
	struct keeper *keeper;
	struct sums *sums;
	__be16 to = 0;
	__u8 is_first = 0;

	if (skb->dev->nd_net.net->ns.inum != namespace || bpf_get_smp_processor_id() != cpu)
		return 0;
	bpf_probe_read_kernel(&to, sizeof(to), skb->data + TO_PORT);
	board = the_board();
	keeper = the_keeper();
	if (bpf_ntohs(to) != port || !board || !keeper)
		return 0;
	bpf_probe_read_kernel(&is_first, sizeof(is_first), skb->data + PAYLOAD);
	sums = the_sums();
	if (!sums)
		return 0;
	sums->packets++;
	board->last_ns = bpf_ktime_get_ns();
	pending = is_first ? 1 : 2;
	switch (board->way) {
	case THREAD:
		wake_thread(board, sums);
		break;
	case TIMER:
		if (!armed)
			arm(keeper, sums);
		break;
	case WORK:
		start_loop(sums);
		break;
	}
	return 0;
}

static __always_inline unsigned long long
in_pause(const struct board *board, unsigned long long from, unsigned long long until)
{
	if (from < board->pause_from)
		from = board->pause_from;
	if (until > board->pause_until)
		until = board->pause_until;
	return until > from ? until - from : 0;
}

static __always_inline void leave(struct board *board, struct sums *sums, unsigned long long now)
{
	unsigned long long stay = now - since, paused = in_pause(board, since, now);
	unsigned int left = state & (STATES - 1);

	if (!since)
		return;
	sums->pause_ns[left] += paused;
	if (entered_in && entered_in == board->turn) {
		sums->burst_ns[left] += stay - paused;
		if (!paused)
			sums->entries[left]++;
	}
	since = 0;
}

static __always_inline void count_next(struct next *next, unsigned int entered, bool stays)
{
	next->entries++;
	if (!(forbidden & 1U << (entered & 31)))
		return;
	next->chosen++;
	if (stays)
		next->stayed++;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(idle, unsigned int entered, unsigned int number)
{
	unsigned long long now;
	struct board *board;
	struct sums *sums;

	if (bpf_get_smp_processor_id() != cpu)
		return 0;
	board = the_board();
	sums = the_sums();
	if (!board || !sums)
		return 0;
	now = bpf_ktime_get_ns();
	leave(board, sums, now);
	if (entered == PWR_EVENT_EXIT)
		return 0;
	if (board->way == WORK && !is_quiet(board, now))
		start_loop(sums);
	/* A CPU that was not let run until then is held no more. */
	if (pending && !is_quiet(board, now)) {
		bool stays = !bpf_get_current_task_btf()->se.cfs_rq->rq->nr_running;

		count_next(pending == 1 ? &sums->first : &sums->rest, entered, stays);
	}
	pending = 0;
	state = entered;
	entered_in = board->turn;
	since = now;
	return 0;
}

/* Run by the benchmark, once: 0, or an error. */
SEC("syscall")
int prepare(void *context)
{
	struct keeper *keeper = the_keeper();
	int result;

	if (!keeper)
		return -1;
	result = bpf_timer_init(&keeper->timer, &keepers, CLOCK_MONOTONIC);
	/* It may be tried again: what is ready is busy. */
	if (!result || result == -EBUSY)
		result = bpf_timer_set_callback(&keeper->timer, on_alarm);
	if (has_work && !result)
		result = bpf_wq_init(&keeper->work, &keepers, 0);
	if (has_work && (!result || result == -EBUSY))
		result = bpf_wq_set_callback_impl(&keeper->work, on_work, 0, NULL);
	if (result)
		return result;
	/* Ask the kernel whether it knows the flag: it refuses others. */
	timer_flags = TIMER_PINNED;
	if (!bpf_timer_start(&keeper->timer, period_ns, timer_flags))
		return 0;
	timer_flags = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Anticipatory wake-up. When a synchronous request is issued to a block device, its completion is
 * predicted (and after a packet of a periodic flow the next one's arrival: arrivals.h), and the CPU
 * on which a task waits is ready from a little before until the completion, or until the window
 * that was opened for it ends.
 *
 * Each CPU has a plan: its open windows, one timer for the next of them, and a budget of time. The
 * timer is armed when the CPU enters an idle state, not before: a busy CPU needs none, and what it
 * takes to arm one (in a virtual machine a way to the hypervisor and back) does not hold up the
 * request. A window is a slot of the plan; `enum window_state` lists its transitions,
 * which need no locks.
 *
 * Ready means awake: a kernel thread (a bpf_wq) goes round in a loop until the completion, and ends
 * when anything else is runnable. A window that begins at once needs no timer: the thread is
 * started at the issue, or when the CPU is about to sleep, and the CPU does not sleep at all.
 * Kernels before 6.10 have only the timer: its callback, in a softirq on top of the idle task, goes
 * round in the loop, and ends at any interrupt, softirq or request of another CPU. Where short
 * sleeps are cheap, short timers in turn keep the CPU ready in naps instead.
 */
#include "kernel.h"
#include <linux/errno.h>
#include "anticipate.h"
#include "model.h"
#include "packet.h"
#include "pid_namespace.h"

#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif

/* Kernel flags of bpf_timer_start: 6.4 and 6.7. The header on the build machine may be older. */
#define TIMER_ABSOLUTE (1ULL << 0)
#define TIMER_PINNED (1ULL << 1)

/* include/linux/interrupt.h */
#define HRTIMER_SOFTIRQ 8

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* include/linux/workqueue.h: Linux 6.10 and later. */
extern int bpf_wq_init(struct bpf_wq *work, void *map, unsigned int flags) __weak __ksym;
extern int bpf_wq_start(struct bpf_wq *work, unsigned int flags) __weak __ksym;
extern int bpf_wq_set_callback_impl(struct bpf_wq *work,
				    int(callback)(void *map, int *key, void *value),
				    unsigned int flags, void *aux__ign) __weak __ksym;

/* include/linux/blk_types.h: the operation is the lowest byte of the flags. */
#define OPERATION 0xff

/* No timer comes sooner. */
#define SOON_NS 1000
/* One that never comes: the latest time that the kernel has (KTIME_MAX). */
#define NEVER (~0ULL >> 1)
/* Rounds of the loop; the budget and the windows end it long before. */
#define ROUNDS (1 << 20)
/* A round takes some 50 ns. */
#define ROUND_NS 2000

/*
 * Where the thread was not kept awake for longer than that, of late, before its CPU had something
 * to run, it takes more than it saves: it is tried one time in so many.
 */
#define SHORT_SPELL_NS 10000
#define SPELLS_AGAIN 32
/* From 10 ms on the kernel complains of work that hogs a CPU. */
#define LONGEST_SPELL_NS 5000000

/* Naps are explored so often at the beginning, and then one time in so many. */
#define NAPS_AT_FIRST 16
#define NAPS_AGAIN 4096
/* A nap is for the CPU that comes back from it within this. */
#define NAP_CHEAP_NS 3000

/* So long after the completion, which another CPU may see, its waiter is woken at the latest. */
#define WAITER_NS 20000

/* Of a CPU, whose waits are followed at a time; one that is older is forgotten. */
#define WAITERS 4
#define FORGOTTEN_NS 1000000000
#define FOLLOWED 4

/* A sleep that is not so many times as long as waking takes is not worth it. */
#define SHORT_SLEEP 4

/* More in flight than that, and no request is anticipated: the CPU hardly sleeps. */
#define MOST_IN_FLIGHT 2

/*
 * A request that is not complete after this (the kernel's own limit for most) was missed at its
 * end: a program that would run inside of itself, for an interrupt's sake, does not run. That is
 * looked into so often, where many requests seem to be in flight; ns.
 */
#define MISSED_NS 30000000000ULL
#define SWEEP_NS 10000000000ULL

/* Set before loading. */
const volatile unsigned int cpus_count = 1;
/* Bits: 1 reads, 2 writes. */
const volatile unsigned int operations = 3;
/* Only this process's requests, by its number in this program's PID namespace; 0: anybody's. */
const volatile unsigned int process;
/* Only requests from this cgroup, at this level of the tree, and below it; 0: any. */
const volatile unsigned long long cgroup;
const volatile int cgroup_level;
/* Shares of time awake, in 1/65536. */
const volatile unsigned int budget_per_cpu = 3277;
const volatile unsigned int budget_in_all = 3277;
/* Of 2^32: requests that are left alone at random. */
const volatile unsigned int control;
/* 0: learnt from how late the timers come. */
const volatile unsigned long long fixed_lead_ns;
/* Until something is learnt, by the length of sleep. */
const volatile unsigned long long first_lead_ns[32];
const volatile unsigned long long nap_ns = 10000;
const volatile enum readiness readiness;
/* The kernel has bpf_wq, and it is to be used. */
const volatile bool threads;
/* Idle states look whether something became runnable between the tracepoint and their sleep: those
 * of cpuidle do, the default idle loop does not.
 */
const volatile bool idle_looks;

/* Flags of bpf_timer_start that this kernel takes. */
unsigned long long timer_flags;
/* Cleared until all programs are attached. */
unsigned int running;

/* Budget of all CPUs together. */
long long tokens_in_all;
unsigned long long refilled_in_all;
/* What requests were worth for what they cost, of late: 1/256. */
unsigned int worth;

/* Of a sum that begins with it the verifier does not follow each value that it may have. */
unsigned int zero;
/* Requests in flight were looked through last. */
unsigned long long swept;

/*
 * What a slot of a plan is used for.
 *
 *	FREE	  nothing
 *	CLAIMED	  a window that is just filled in
 *	OPEN	  a window of which its CPU has seen nothing yet: it was busy since
 *	ARMED	  a window for which a timer or the thread will come
 *	BEGUN	  a window that the CPU is kept ready for
 *	NOTIFIED  the same, and the CPU that takes the interrupt was notified
 *	COMPLETE  a window that began, and whose request is complete: its time is to be charged
 *
 * A slot's word (of the plan) has the state in its lowest bits and above them how many windows it
 * had: this window's number. A word never comes back, so an exchange of words succeeds only if
 * nothing has happened to the slot since its word was read, and whatever was read in between is of
 * that window. Each transition is such an exchange, but for the one out of CLAIMED, which its one
 * owner makes. So a slot is never given to two, and nobody frees what is another's. Who may make
 * them:
 *
 *	FREE	        -> CLAIMED  who opens a window, on any CPU, with the next number
 *	CLAIMED	        -> OPEN     the same
 *	OPEN	        -> ARMED    the CPU itself, as all that follows without another word
 *	OPEN, ARMED     -> BEGUN
 *	BEGUN	        -> NOTIFIED who writes `notice` before; nobody reads it in another state
 *	OPEN, ARMED     -> FREE     a completion or cancellation, on any CPU; the CPU, at its end
 *	BEGUN, NOTIFIED -> COMPLETE a completion or cancellation, on any CPU
 *	BEGUN, NOTIFIED -> FREE     at its end
 *	COMPLETE        -> FREE     who made it COMPLETE, unless the CPU was in the loop then;
 *				    the CPU, at the end of its loop or nap
 *
 * And no slot is lost: who opens a window takes any slot whose window is over, under the next
 * number. From OPEN and ARMED it does so at the window's end; from BEGUN, NOTIFIED and COMPLETE a
 * spell later, when the program that kept the CPU ready has charged for it. It needs no timer, no
 * thread and no idle CPU for that. CLAIMED lasts for some instructions.
 */
enum window_state {
	FREE = 0,
	CLAIMED = 1,
	COMPLETE = 2,
	OPEN = 4,
	ARMED = 5,
	BEGUN = 6,
	NOTIFIED = 7,
};

/* Bits of the states: the window is open; it has begun. To test them makes no paths to verify. */
#define IS_OPEN 4
#define HAS_BEGUN 2
#define STATE_BITS 3
#define STATES ((1ULL << STATE_BITS) - 1)
/* A ticket is the number, and the slot below it. */
#define SLOT_BITS 4 /* WINDOWS */
/* Transitions that the CPU itself makes before a completion: OPEN to NOTIFIED. */
#define MOVES 3

/* The second CPU's notification: of `struct agent`, and when. */
struct notice {
	unsigned long long since;
	unsigned long long until;
	unsigned int claim;
	/* The CPU, and 1. */
	unsigned int cpu;
};

struct window {
	unsigned long long start;
	unsigned long long end;
	struct owner owner;
	/* Whose it is, if it was announced. */
	unsigned int uid;
	/* The CPU that takes the interrupt, and 1; 0 where it is this one. */
	unsigned int second;
	struct notice notice;
};

/* The task that waits for a request: from its issue until it runs again. */
enum wait_state { NOBODY = 0, RUNS = 1, BLOCKED = 2, WOKEN = 3 };

struct waiter {
	unsigned int state;
	int pid;
	unsigned long long issued;
	/* Into `latencies`. */
	__u32 key;
};

struct plan {
	struct bpf_timer timer;
	struct bpf_wq work;
	/* The timer's expiry, 0 for none, and when it was armed. */
	unsigned long long armed;
	unsigned long long armed_at;
	/* The thread or the timer's callback keeps the CPU awake just now. */
	unsigned int spinning;
	/* The thread is to run, or does. */
	unsigned int working;
	/* For how long the thread keeps the CPU awake; ns, smoothed. */
	unsigned int spell;
	/* Work was queued behind the thread's, which is to end. */
	unsigned int queued;
	/* Since the last idle state's entry something came that the CPU is to do. */
	unsigned int kicked;
	/* From an idle state's entry to its end. */
	unsigned int asleep;
	/* Some of the waiters may be tasks. */
	unsigned int waited;
	/* Requests that were issued here, by whomever. */
	unsigned int in_flight;
	/* Windows were opened, or are still open, since the timer was armed. */
	unsigned int unarmed;
	/* The end of the last window that was announced. */
	unsigned long long announced_until;
	/* The loop goes on until then for waiters whose requests are complete. */
	unsigned long long linger;
	/* Ready in naps since then; 0: not. */
	unsigned long long napping_since;
	long long tokens;
	unsigned long long refilled;
	/* By the length of sleep: how late nine of ten timers come, at most; ns. */
	unsigned int late[32]; /* SLEEPS */
	unsigned int nap_late;
	unsigned int naps_tried;
	struct waiter waiters[WAITERS];
	/* What is woken here belongs to the packet that arrived then; 0: to none. */
	unsigned long long packet_ns;
	struct flow_key packet;
	unsigned int packet_treatment;
	struct cpu_sums sums;
	/* Of the windows' slots, side by side: most are free, and then the window is not touched.
	 */
	unsigned long long words[WINDOWS];
	struct window windows[WINDOWS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs */
	__type(key, __u32);
	__type(value, struct plan);
} plans SEC(".maps");

/* dev_t, as the kernel numbers it, -> index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DEVICES);
	__type(key, __u32);
	__type(value, __u32);
} chosen SEC(".maps");

struct device {
	unsigned int in_flight;
	unsigned int learning;
	struct model models[OPERATIONS][DEPTHS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEVICES);
	__type(key, __u32);
	__type(value, struct device);
} devices SEC(".maps");

/* [device][issuing CPU]: the CPU that took the last completion's interrupt, and 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* DEVICES * CPUs */
	__type(key, __u32);
	__type(value, __u32);
} interrupted SEC(".maps");

/* [device][operation]; OF_PACKETS, OF_HINTS */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OUTCOMES);
	__type(key, __u32);
	__type(value, struct outcome);
} outcomes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OUTCOMES);
	__type(key, __u32);
	__type(value, struct errors);
} errors SEC(".maps");

/* [device][operation][0 left alone, 1 assisted] */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OUTCOMES * 2);
	__type(key, __u32);
	__type(value, struct latencies);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct owner);
	__type(value, struct charge);
} charges SEC(".maps");

enum treatment { ALONE = 0, CONTROL = 1, ASSISTED = 2 };

/* A request on its way. */
struct flight {
	unsigned long long issued;
	unsigned long long predicted;
	unsigned int sectors;
	unsigned int cpu;
	/* The window's, of an assisted one. */
	unsigned long long ticket;
	unsigned char device;
	unsigned char operation;
	unsigned char depth;
	unsigned char treatment;
	/* On the CPU's plan, and 1; 0: nobody whose wait is followed. */
	unsigned int waiter;
	int pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct flight);
} flights SEC(".maps");

/* The threads of this program, one for each CPU. */
struct agent {
	/*
	 * Stay awake until the latest of these; the program reads them. Each belongs to one window
	 * until it is over: nobody takes or ends another's.
	 */
	unsigned long long claims[CLAIMS];
	/* When its bell was rung last. */
	unsigned long long rung_ns;
	/* How late the thread comes; the program writes it. */
	unsigned long long late_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CPUs */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct agent);
} agents SEC(".maps");

/* What wakes a thread: it waits for something to read. */
struct bell {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* CPUs */
	__type(key, __u32);
	__array(values, struct bell);
} bells SEC(".maps");

#define ADD(to, amount) __sync_fetch_and_add(&(to), amount)
#define READ(from) (*(volatile typeof(from) *)&(from))
#define SET(to, value) __sync_lock_test_and_set(&(to), value)

static __always_inline struct plan *plan_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&plans, &cpu);
}

/* floor(log2(value)), 0 for 0. */
static __always_inline __u32 log2_of(unsigned long long value)
{
	__u32 log = 0;

#define HALVE(bits)                                                                                \
	if (value >> bits) {                                                                       \
		value >>= bits;                                                                    \
		log += bits;                                                                       \
	}
	HALVE(32)
	HALVE(16)
	HALVE(8)
	HALVE(4)
	HALVE(2)
	HALVE(1)
#undef HALVE
	return log;
}

/*
 * How late timers come
 */

static __always_inline __u32 sleep_of(unsigned long long ns)
{
	__u32 sleep = log2_of(ns >> 10);

	return sleep < SLEEPS ? sleep : SLEEPS - 1;
}

/* Moves an estimate of a 90% quantile by what was seen. */
static __always_inline void learn_late(unsigned int *late, unsigned long long seen)
{
	unsigned int step = *late / 32 + 20;

	if (seen > 10000000)
		seen = 10000000;
	if (!*late)
		*late = seen;
	else if (seen > *late)
		*late += 9 * step;
	else if (*late > step)
		*late -= step;
}

static __always_inline unsigned long long lead_for(const struct plan *plan, unsigned long long ns)
{
	unsigned int learnt;

	if (fixed_lead_ns)
		return fixed_lead_ns;
	learnt = plan->late[sleep_of(ns) & 31 /* for the verifier */];
	return learnt ? learnt : first_lead_ns[sleep_of(ns) & 31];
}

/*
 * Budget
 */

static __always_inline long long most_tokens(unsigned int budget)
{
	/* What accrues in a tenth of a second. */
	return (100000000ULL * budget) >> 16;
}

/* What others spend meanwhile is spent. */
static __always_inline void fill(long long *tokens, long long amount, long long most)
{
	long long room = most - READ(*tokens);

	if (amount > room)
		amount = room;
	if (amount > 0)
		ADD(*tokens, amount);
}

static __always_inline long long refill(struct plan *plan, unsigned long long now)
{
	unsigned long long before = plan->refilled, passed = now - before;

	if (now > before && __sync_val_compare_and_swap(&plan->refilled, before, now) == before) {
		if (passed > 100000000)
			passed = 100000000;
		fill(&plan->tokens, (passed * budget_per_cpu) >> 16, most_tokens(budget_per_cpu));
	}
	before = refilled_in_all;
	passed = now - before;
	if (now > before + 1000000 &&
	    __sync_val_compare_and_swap(&refilled_in_all, before, now) == before) {
		if (passed > 100000000)
			passed = 100000000;
		fill(&tokens_in_all, ((passed * budget_in_all) >> 16) * cpus_count,
		     most_tokens(budget_in_all) * cpus_count);
	}
	return plan->tokens < tokens_in_all ? plan->tokens : tokens_in_all;
}

static __always_inline void spend(struct plan *plan, unsigned long long ns)
{
	ADD(plan->tokens, -(long long)ns);
	ADD(tokens_in_all, -(long long)ns);
}

/* The wake latency that is saved for the time awake that it costs; 1/256. */
static __always_inline unsigned int ratio_of(unsigned long long saves, unsigned long long costs)
{
	if (!costs)
		costs = 1;
	return saves > costs * 64 ? 16384 : (saves * 256) / costs;
}

/*
 * What does not fit is dropped by what it is worth. With half of the budget left everything is
 * taken; below, what is better than others of late, by more and more. What others are worth is
 * learnt from requests only: with announcements, which cost nothing, a user could raise it.
 */
static __always_inline bool affordable(struct plan *plan, unsigned long long now,
				       unsigned int ratio, unsigned long long costs)
{
	long long left = refill(plan, now), most = most_tokens(budget_per_cpu);

	if (left < (long long)costs)
		return false;
	if (left >= most / 2)
		return true;
	/* From nothing at a half to twice the usual worth at the end of the budget. */
	return (unsigned long long)ratio * most >= 2ULL * worth * (most - 2 * left);
}

/*
 * The plan of a CPU
 */

static int on_alarm(void *map, __u32 *key, struct plan *plan);
static int on_work(void *map, int *key, void *value);

static __always_inline int arm(struct plan *plan, unsigned long long now, unsigned long long at)
{
	int result;

	if (at < now + SOON_NS)
		at = now + SOON_NS;
	plan->armed = at;
	plan->armed_at = now;
	ADD(plan->sums.armed, 1);
	result = bpf_timer_start(&plan->timer, timer_flags & TIMER_ABSOLUTE ? at : at - now,
				 timer_flags);
	if (result) {
		plan->armed = 0;
		plan->unarmed = 1;
		ADD(plan->sums.refused, 1);
	}
	return result;
}

static __always_inline bool is_open(unsigned long long word)
{
	return word & IS_OPEN;
}

static __always_inline bool has_begun(unsigned long long word)
{
	return word & HAS_BEGUN;
}

/* Is the slot free, or as good as that? */
static __always_inline bool is_vacant(struct window *window, unsigned long long word,
				      unsigned long long now)
{
	if ((word & STATES) <= CLAIMED)
		return (word & STATES) == FREE;
	return window->end + (has_begun(word) ? LONGEST_SPELL_NS : 0) <= now;
}

static __always_inline bool move(unsigned long long *slot, unsigned long long word,
				 enum window_state to)
{
	return __sync_val_compare_and_swap(slot, word, (word & ~STATES) | to) == word;
}

/* When the next window of the CPU begins, 0 for none. */
static __always_inline unsigned long long next_start(struct plan *plan, unsigned long long now)
{
	unsigned long long next = 0;

	for (int i = 0; i < WINDOWS; i++) {
		struct window *window = &plan->windows[i];
		unsigned long long word = READ(plan->words[i]);

		if (!is_open(word) || window->end <= now)
			continue;
		if ((word & STATES) == OPEN)
			move(&plan->words[i], word, ARMED);
		if (!next || window->start < next)
			next = window->start;
	}
	return next;
}

static __always_inline bool any_open(struct plan *plan)
{
	unsigned long long words = 0;

	for (int i = 0; i < WINDOWS; i++)
		words |= READ(plan->words[i]);
	return words & IS_OPEN;
}

static __always_inline void charge(const struct owner *owner, unsigned long long ns)
{
	struct charge *charge = bpf_map_lookup_elem(&charges, owner);

	if (charge)
		ADD(charge->awake_ns, ns);
}

/* The second CPU need not be awake any more: called by whoever moved the window out of NOTIFIED. */
static __noinline void release_second(const struct notice *notice, const struct owner *owner,
				      unsigned long long now)
{
	__u32 second = notice->cpu - 1;
	struct agent *agent = bpf_map_lookup_elem(&agents, &second);
	struct plan *others = plan_of(second);
	unsigned long long ns;

	if (agent)
		__sync_val_compare_and_swap(&agent->claims[notice->claim & (CLAIMS - 1)],
					    notice->until, 0);
	if (now > notice->until)
		now = notice->until;
	ns = now > notice->since ? now - notice->since : 0;
	if (others) {
		ADD(others->sums.awake_ns, ns);
		spend(others, ns);
	}
	charge(owner, ns);
}

/* A window's ticket, or -1 where the plan is full. */
static __always_inline long long open_window(struct plan *plan, unsigned long long now,
					     unsigned long long start, unsigned long long end,
					     const struct owner *owner, unsigned int uid,
					     unsigned int second)
{
	for (int i = 0; i < WINDOWS; i++) {
		struct window *window = &plan->windows[i];
		unsigned long long word = READ(plan->words[i]), next;
		struct owner owner_before;
		struct notice notice_before;

		if (!is_vacant(window, word, now))
			continue;
		owner_before = window->owner;
		notice_before = window->notice;
		next = (word | STATES) + 1;
		if (__sync_val_compare_and_swap(&plan->words[i], word, next | CLAIMED) != word)
			continue;
		if ((word & STATES) == NOTIFIED)
			release_second(&notice_before, &owner_before, now);
		window->start = start;
		window->end = end;
		window->owner = *owner;
		window->uid = uid;
		window->second = second;
		SET(plan->words[i], next | OPEN);
		/* Before any look at plan->asleep, which the CPU sets before it reads this. */
		SET(plan->unarmed, 1);
		return (next >> STATE_BITS) << SLOT_BITS | i;
	}
	return -1;
}

/* Has this program's thread of the CPU run: whatever it does, the CPU wakes. */
static __always_inline void ring(struct plan *plan, __u32 cpu, unsigned long long now)
{
	struct agent *agent = bpf_map_lookup_elem(&agents, &cpu);
	void *bell = bpf_map_lookup_elem(&bells, &cpu);

	if (!agent || !bell)
		return;
	ADD(plan->sums.notices, 1);
	agent->rung_ns = now;
	/* What is in it nobody reads. */
	bpf_ringbuf_output(bell, &now, sizeof(now), BPF_RB_FORCE_WAKEUP);
}

/* The CPU is to arm its timer: it does when it goes to sleep. */
static __always_inline void have_armed(struct plan *plan, __u32 cpu, unsigned long long now)
{
	SET(plan->unarmed, 1);
	if (READ(plan->asleep))
		ring(plan, cpu, now);
}

/* The CPU was kept ready for all windows that had begun: each owner is charged its part. */
static __always_inline void account(struct plan *plan, unsigned long long ns)
{
	unsigned int sharers = 0;

	ADD(plan->sums.awake_ns, ns);
	spend(plan, ns);
	for (int i = 0; i < WINDOWS; i++)
		sharers += (READ(plan->words[i]) & HAS_BEGUN) / HAS_BEGUN;
	if (sharers)
		ns /= sharers;
	for (int i = 0; i < WINDOWS; i++) {
		unsigned long long word = READ(plan->words[i]);
		struct owner owner;

		if (!has_begun(word))
			continue;
		owner = plan->windows[i].owner;
		if ((word & STATES) == COMPLETE ? move(&plan->words[i], word, FREE)
						: READ(plan->words[i]) == word)
			charge(&owner, ns);
	}
}

/* Gives up the windows whose time is over. */
static __always_inline void close_ended(struct plan *plan, unsigned long long now)
{
	for (int i = 0; i < WINDOWS; i++) {
		struct window *window = &plan->windows[i];
		unsigned long long word = READ(plan->words[i]);
		struct owner owner;
		struct notice notice;

		if (!(is_open(word) && window->end <= now) && (word & STATES) != COMPLETE)
			continue;
		owner = window->owner;
		notice = window->notice;
		if (move(&plan->words[i], word, FREE) && (word & STATES) == NOTIFIED)
			release_second(&notice, &owner, now);
	}
}

/* Is a window open now? Those that are have begun. */
static __always_inline bool wanted(struct plan *plan, unsigned long long now)
{
	bool wanted = false;

	for (int i = 0; i < WINDOWS; i++) {
		struct window *window = &plan->windows[i];
		unsigned long long word = READ(plan->words[i]);

		if (!is_open(word) || window->start > now || window->end <= now)
			continue;
		if (!has_begun(word))
			move(&plan->words[i], word, BEGUN);
		wanted = true;
	}
	return wanted;
}

/* Takes a claim on an agent's CPU that is over: which, or -1. */
static __always_inline int claim(struct agent *agent, unsigned long long now,
				 unsigned long long until)
{
	for (int i = 0; i < CLAIMS; i++) {
		unsigned long long before = READ(agent->claims[i]);

		/* One that is over is below any that is not: nobody mistakes his for it. */
		if (before <= now &&
		    __sync_val_compare_and_swap(&agent->claims[i], before, until) == before)
			return i;
	}
	return -1;
}

/* Notifies the thread of the CPU that takes the interrupt, which keeps it awake. */
static __always_inline void tell_second(struct plan *plan, __u32 slot, unsigned long long word,
					unsigned long long now)
{
	struct window *window = &plan->windows[slot];
	unsigned long long until = window->end;
	__u32 second = window->second - 1;
	struct agent *agent = bpf_map_lookup_elem(&agents, &second);
	struct plan *others = plan_of(second);
	struct notice notice = {.since = now, .cpu = window->second};
	long long left;
	int taken;

	if (!window->second || !agent || !others)
		return;
	left = refill(others, now);
	if (left <= 0 || until <= now)
		return;
	if (until > now + left)
		until = now + left;
	taken = claim(agent, now, until);
	if (taken < 0)
		return;
	notice.until = until;
	notice.claim = taken;
	window->notice = notice;
	if (move(&plan->words[slot], word, NOTIFIED))
		ring(plan, second, now);
	else
		__sync_val_compare_and_swap(&agent->claims[taken & (CLAIMS - 1)], until, 0);
}

static __always_inline void tell_seconds(struct plan *plan, unsigned long long now)
{
	for (int i = 0; i < WINDOWS; i++) {
		unsigned long long word = READ(plan->words[i]);

		if ((word & STATES) == BEGUN)
			tell_second(plan, i, word, now);
	}
}

struct spin {
	struct plan *plan;
	unsigned long long limit;
	unsigned long long now;
	/* Awake on behalf of a task, ns. */
	unsigned long long awake;
};

static __always_inline bool spin_ends(struct spin *spin)
{
	unsigned long long now = bpf_ktime_get_ns(), passed = now - spin->now;

	/* In a longer round the CPU was somebody else's. */
	if (passed < ROUND_NS)
		spin->awake += passed;
	spin->now = now;
	return now >= spin->limit || (!wanted(spin->plan, now) && now >= READ(spin->plan->linger));
}

static long spin_in_softirq(__u32 round, struct spin *spin)
{
	return *(volatile unsigned int *)&spin->plan->kicked || spin_ends(spin);
}

/* Interrupts and softirqs run between its rounds; what they make runnable ends it. */
static long spin_in_thread(__u32 round, struct spin *spin)
{
	return bpf_get_current_task_btf()->se.cfs_rq->rq->nr_running > 1 ||
	       *(volatile unsigned int *)&spin->plan->queued || spin_ends(spin);
}

static __always_inline void keep_awake(struct plan *plan, unsigned long long now, bool in_thread)
{
	struct spin spin = {.plan = plan, .now = now};
	long long left = refill(plan, now);

	if (left > 0 && wanted(plan, now)) {
		tell_seconds(plan, now);
		ADD(plan->sums.spells, 1);
		spin.limit = now + (left < LONGEST_SPELL_NS ? left : LONGEST_SPELL_NS);
		SET(plan->spinning, 1);
		if (in_thread)
			bpf_loop(ROUNDS, spin_in_thread, &spin, 0);
		else
			bpf_loop(ROUNDS, spin_in_softirq, &spin, 0);
		SET(plan->spinning, 0);
		account(plan, spin.awake);
		if (in_thread)
			plan->spell += spin.awake / 8 - plan->spell / 8;
		now = spin.now;
	}
	close_ended(plan, now);
	/* The next idle state's entry arms the timer for the windows that last. */
	plan->unarmed = 1;
}

static int on_work(void *map, int *key, void *value)
{
	unsigned long long now = bpf_ktime_get_ns();
	struct plan *plan = value;

	if (bpf_get_smp_processor_id() == *key)
		keep_awake(plan, now, true);
	else
		/* The CPU went offline. */
		plan->unarmed = 1;
	plan->working = 0;
	return 0;
}

/* The thread keeps the CPU awake, as soon as nothing else runs. */
static __always_inline void start_thread(struct plan *plan)
{
	if (__sync_val_compare_and_swap(&plan->working, 0, 1))
		return;
	plan->queued = 0;
	if (bpf_wq_start(&plan->work, 0)) {
		plan->unarmed = 1;
		plan->working = 0;
	} else {
		/* It may have run and ended already. */
		__sync_val_compare_and_swap(&plan->working, 1, 2);
	}
}

static __always_inline bool thread_pays(const struct plan *plan)
{
	return plan->spell >= SHORT_SPELL_NS || !(bpf_get_prandom_u32() % SPELLS_AGAIN);
}

/* Asleep in a shallow state for short times, or awake? */
static __always_inline bool naps(struct plan *plan)
{
	if (readiness)
		return readiness == READY_NAPPING;
	if (plan->naps_tried < NAPS_AT_FIRST)
		return bpf_get_prandom_u32() & 1;
	if (!(bpf_get_prandom_u32() % NAPS_AGAIN))
		return true;
	return plan->nap_late && plan->nap_late <= NAP_CHEAP_NS;
}

static __always_inline void end_naps(struct plan *plan, unsigned long long now)
{
	unsigned long long since = plan->napping_since;

	if (since && __sync_val_compare_and_swap(&plan->napping_since, since, 0) == since)
		account(plan, now > since ? now - since : 0);
}

/* Until the next short timer. */
static __always_inline void nap(struct plan *plan, unsigned long long now)
{
	tell_seconds(plan, now);
	ADD(plan->sums.spells, 1);
	ADD(plan->sums.naps, 1);
	if (plan->naps_tried < NAPS_AT_FIRST)
		plan->naps_tried++;
	plan->napping_since = now;
	if (arm(plan, now, now + nap_ns))
		plan->napping_since = 0;
}

static int on_alarm(void *map, __u32 *key, struct plan *plan)
{
	unsigned long long now = bpf_ktime_get_ns(), expiry = plan->armed, slept;
	__u32 cpu = bpf_get_smp_processor_id();

	plan->armed = 0;
	ADD(plan->sums.fired, 1);
	if (cpu != *key) {
		/* The kernel moved the timer, for one since the CPU went offline. */
		ADD(plan->sums.strayed, 1);
		end_naps(plan, now);
		have_armed(plan, *key, now);
		return 0;
	}
	if (!is_idle_task()) {
		/* The next idle state's entry arms it again, if the windows last. */
		ADD(plan->sums.busy, 1);
		end_naps(plan, now);
		plan->unarmed = 1;
		return 0;
	}
	slept = expiry > plan->armed_at ? expiry - plan->armed_at : 0;
	if (plan->napping_since) {
		if (now > expiry) {
			plan->nap_late = plan->nap_late ? plan->nap_late - plan->nap_late / 8 +
							      (now - expiry) / 8
							: now - expiry;
		}
		end_naps(plan, now);
	} else if (slept > SOON_NS && now > expiry) {
		learn_late(&plan->late[sleep_of(slept) & 31], now - expiry);
	}
	if (naps(plan)) {
		if (refill(plan, now) > 0 && wanted(plan, now)) {
			nap(plan, now);
			return 0;
		}
	} else if (threads) {
		start_thread(plan);
		return 0;
	} else if (!plan->kicked) {
		keep_awake(plan, now, false);
		return 0;
	}
	close_ended(plan, now);
	plan->unarmed = 1;
	return 0;
}

static __always_inline void before_sleep(struct plan *plan, unsigned long long now)
{
	unsigned long long next = next_start(plan, now);

	if (!next)
		return;
	if (threads && idle_looks && next <= now && !naps(plan)) {
		if (thread_pays(plan)) {
			wanted(plan, now);
			start_thread(plan);
		} else {
			plan->unarmed = 1;
		}
		return;
	}
	/* One that is due may have been put off by another CPU just when it was armed. */
	if (!plan->armed || plan->armed <= now || next < plan->armed)
		arm(plan, now, next);
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, unsigned int state, unsigned int cpu)
{
	struct plan *plan = plan_of(cpu);

	unsigned long long now;

	if (!plan)
		return 0;
	if (state == PWR_EVENT_EXIT) {
		plan->asleep = 0;
		return 0;
	}
	plan->kicked = 0;
	/* Before it looks: see open_window. */
	SET(plan->asleep, 1);
	if (!READ(plan->unarmed))
		return 0;
	now = bpf_ktime_get_ns();
	/* With more requests to wait for, the CPU hardly sleeps until the first one wakes it. */
	if (plan->in_flight <= MOST_IN_FLIGHT || plan->announced_until > now) {
		SET(plan->unarmed, 0);
		before_sleep(plan, now);
	}
	return 0;
}

/*
 * What ends the softirq's loop, or keeps it from beginning: whatever can make something runnable on
 * its CPU, or wait for the softirq that it is in. For windows that are still open the timer is
 * armed again at the next idle state's entry.
 */

static __always_inline int kick(__u32 cpu)
{
	struct plan *plan = plan_of(cpu);

	if (plan)
		plan->kicked = 1;
	return 0;
}

#define KICKED_BY(name)                                                                            \
	SEC("tp_btf/" #name)                                                                       \
	int BPF_PROG(on_##name)                                                                    \
	{                                                                                          \
		return kick(bpf_get_smp_processor_id());                                           \
	}

/*
 * The completion may be the work of a softirq: one that was raised before the loop began waits for
 * its end. The timer's own is the one that the loop is in.
 */
SEC("tp_btf/softirq_raise")
int BPF_PROG(on_softirq_raise, unsigned int vector)
{
	return vector == HRTIMER_SOFTIRQ ? 0 : kick(bpf_get_smp_processor_id());
}

/* The interrupt in which the engine's timer expires is one of these. */
SEC("tp_btf/local_timer_entry")
int BPF_PROG(on_local_timer_entry)
{
	struct plan *plan = plan_of(bpf_get_smp_processor_id());

	if (plan && plan->spinning)
		plan->kicked = 1;
	return 0;
}

KICKED_BY(irq_handler_entry)
/* irq_vectors: x86. */
KICKED_BY(reschedule_entry)
KICKED_BY(call_function_single_entry)
KICKED_BY(call_function_entry)
KICKED_BY(irq_work_entry)
KICKED_BY(x86_platform_ipi_entry)
/* ipi: arm64 and others. */
KICKED_BY(ipi_entry)

/*
 * What ends the thread's loop: its CPU has another task to run, or another work for the same
 * workers, which wait while one of them is running.
 */
SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(on_work_queued, int requested, struct pool_workqueue *queue)
{
	struct plan *plan = plan_of(queue->pool->cpu);

	if (plan && plan->working == 2)
		plan->queued = 1;
	return 0;
}

/* A CPU whose idle task watches its flag is sent no interrupt. */
SEC("tp_btf/sched_wake_idle_without_ipi")
int BPF_PROG(on_flag_set, int target)
{
	return kick(target);
}

/*
 * Requests
 */

static __always_inline unsigned int depth_class(unsigned int in_flight)
{
	return in_flight < 2 ? in_flight : in_flight < 4 ? 2 : 3;
}

static __always_inline bool is_chosen(struct task_struct *task)
{
	if (process && process_here(task) != process)
		return false;
	return !cgroup || bpf_get_current_ancestor_cgroup_id(cgroup_level) == cgroup;
}

static __always_inline bool a_task_waits(unsigned int flags)
{
	unsigned int sync = 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_SYNC);
	unsigned int ahead = 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_RAHEAD);

	return !(flags & ahead) && (!(flags & OPERATION) || flags & sync);
}

static __always_inline struct charge *charge_of(const struct owner *owner, struct task_struct *task)
{
	struct charge *charge = bpf_map_lookup_elem(&charges, owner);
	struct charge none = {};

	if (charge)
		return charge;
	none.process = process_here(task);
	bpf_probe_read_kernel(none.name, sizeof(none.name), task->comm);
	bpf_map_update_elem(&charges, owner, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&charges, owner);
}

/* Opens a window for a request, if that is of use: what becomes of it. */
static __always_inline enum treatment assist(struct flight *flight, const struct model *model,
					     struct outcome *outcome, unsigned int in_flight)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner owner = {.device = flight->device};
	struct prediction prediction = {};
	unsigned long long lead, start, end, now = flight->issued;
	struct plan *plan = plan_of(flight->cpu);
	__u32 key = flight->device * cpus_count + flight->cpu;
	__u32 *taker = bpf_map_lookup_elem(&interrupted, &key);
	bool elsewhere = taker && *taker && *taker != flight->cpu + 1;
	unsigned int second = 0;
	unsigned long long costs;
	struct charge *charge;
	unsigned int ratio;
	long long ticket;

	if (!plan)
		return ALONE;
	if (task->flags & PF_KTHREAD || !task->pid) {
		ADD(outcome->unattended, 1);
		return ALONE;
	}
	owner.tgid = task->tgid;
	owner.cgroup = bpf_get_current_cgroup_id();
	charge = charge_of(&owner, task);
	if (charge)
		ADD(charge->requests, 1);
	if (in_flight >= MOST_IN_FLIGHT) {
		ADD(outcome->crowded, 1);
		return ALONE;
	}
	if (!model_predict(model, flight->sectors, &prediction)) {
		ADD(outcome->learning, 1);
		return ALONE;
	}
	flight->predicted = prediction.ns;
	lead = lead_for(plan, prediction.early_ns);
	if (elsewhere) {
		__u32 other = *taker - 1;
		struct agent *agent = bpf_map_lookup_elem(&agents, &other);
		unsigned long long late = agent && agent->late_ns ? agent->late_ns : lead;

		/* One that would hardly be awake by then is only disturbed. */
		if (prediction.early_ns > SHORT_SLEEP * late) {
			second = *taker;
			lead += late;
		}
	}
	start = now;
	if (prediction.early_ns > SHORT_SLEEP * lead)
		start += prediction.early_ns - lead;
	/* One in ten comes after the late time; to be asleep again by then would cost those most.
	 */
	end = now + prediction.late_ns + (prediction.late_ns - prediction.early_ns) + 2 * lead;
	costs = (second ? 2 : 1) * (now + prediction.ns - start);
	ratio = ratio_of(lead_for(plan, prediction.ns), costs);
	worth += (ratio >> 6) - (worth >> 6);
	if (!affordable(plan, now, ratio, costs)) {
		ADD(outcome->over_budget, 1);
		return ALONE;
	}
	if (bpf_get_prandom_u32() < control)
		return CONTROL;
	ticket = open_window(plan, now, start, end, &owner, 0, second);
	if (ticket < 0) {
		ADD(outcome->plan_full, 1);
		return ALONE;
	}
	flight->ticket = ticket;
	if (second)
		ADD(outcome->two_cpus, 1);
	if (charge)
		ADD(charge->assisted, 1);
	/*
	 * With nothing else to run the CPU goes to the thread, and not to the idle loop. Not where
	 * another CPU will wake the waiter: it would take the CPU from a thread that began beside
	 * it by an interrupt, and leaves one that began on an idle CPU to end by itself.
	 */
	if (threads && start == now && !(elsewhere && idle_looks) &&
	    task->se.cfs_rq->rq->nr_running == 1 && !naps(plan) && thread_pays(plan)) {
		move(&plan->words[ticket & (WINDOWS - 1)],
		     (unsigned long long)ticket >> SLOT_BITS << STATE_BITS | OPEN, ARMED);
		start_thread(plan);
	}
	return ASSISTED;
}

/* Of the requests that are assisted, one in so many is followed: there are enough of them. */
static __always_inline bool sampled(void)
{
	return !(bpf_get_prandom_u32() % FOLLOWED);
}

/* Follows the wait of a task on that CPU: which waiter it is, and 1; 0: there are too many. */
static __always_inline unsigned int wait_of(struct plan *plan, int pid, unsigned long long since,
					    __u32 key, enum wait_state state)
{
	for (unsigned int i = 0; i < WAITERS; i++) {
		struct waiter *waiter = &plan->waiters[i];

		if (waiter->state && waiter->pid != pid && since - waiter->issued < FORGOTTEN_NS)
			continue;
		waiter->pid = pid;
		waiter->issued = since;
		waiter->key = key;
		waiter->state = state;
		plan->waited = 1;
		return i + 1;
	}
	return 0;
}

/* Follows the wait of the task that issues a request here. */
static __always_inline void follow(struct plan *plan, struct flight *flight)
{
	__u32 key =
	    (flight->device * OPERATIONS + flight->operation) * 2 + (flight->treatment == ASSISTED);

	flight->pid = (int)bpf_get_current_pid_tgid();
	flight->waiter = wait_of(plan, flight->pid, flight->issued, key, RUNS);
}

/* Counts on without a request whose end was missed. */
static long forget_missed(void *map, __u64 *request, struct flight *flight, unsigned long long *now)
{
	struct plan *plan = plan_of(flight->cpu);
	__u32 key = flight->device;
	struct device *device = bpf_map_lookup_elem(&devices, &key);
	__u64 ended = *request;

	if (flight->issued + MISSED_NS > *now || bpf_map_delete_elem(&flights, &ended))
		return 0;
	if (device)
		ADD(device->in_flight, -1);
	if (plan)
		ADD(plan->in_flight, -1);
	return 0;
}

static __always_inline void sweep(unsigned long long now)
{
	unsigned long long before = swept;

	if (now > before + SWEEP_NS && __sync_val_compare_and_swap(&swept, before, now) == before)
		bpf_for_each_map_elem(&flights, forget_missed, &now, 0);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *rq)
{
	unsigned int flags = rq->cmd_flags, operation = flags & OPERATION, in_flight;
	struct flight flight = {.issued = bpf_ktime_get_ns()};
	struct gendisk *disk = rq->q->disk;
	__u64 request = (__u64)rq;
	struct outcome *outcome;
	struct device *device;
	struct plan *plan;
	__u32 number, *index, key;

	if (!running || operation >= OPERATIONS || !disk)
		return 0;
	number = (__u32)disk->major << 20 | disk->first_minor;
	index = bpf_map_lookup_elem(&chosen, &number);
	if (!index)
		return 0;
	/* A request that the device could not take is issued again. */
	if (bpf_map_lookup_elem(&flights, &request))
		return 0;
	device = bpf_map_lookup_elem(&devices, index);
	key = *index * OPERATIONS + operation;
	outcome = bpf_map_lookup_elem(&outcomes, &key);
	if (!device || !outcome)
		return 0;
	flight.cpu = bpf_get_smp_processor_id();
	plan = plan_of(flight.cpu);
	if (!plan)
		return 0;
	if (device->in_flight >= MOST_IN_FLIGHT || plan->in_flight >= MOST_IN_FLIGHT)
		sweep(flight.issued);
	in_flight = ADD(device->in_flight, 1);
	ADD(plan->in_flight, 1);
	flight.sectors = rq->__data_len >> 9;
	flight.device = *index;
	flight.operation = operation;
	flight.depth = depth_class(in_flight);
	if (operations & 1 << operation && a_task_waits(flags) &&
	    is_chosen(bpf_get_current_task_btf())) {
		ADD(outcome->requests, 1);
		flight.treatment =
		    assist(&flight, &device->models[operation & 1][flight.depth & (DEPTHS - 1)],
			   outcome, in_flight);
		if (flight.treatment == CONTROL)
			ADD(outcome->control, 1);
		else if (flight.treatment == ASSISTED)
			ADD(outcome->assisted, 1);
		if (flight.treatment == CONTROL || (flight.treatment == ASSISTED && sampled()))
			follow(plan, &flight);
	}
	/* Where the table is full the request is not seen to end. */
	if (bpf_map_update_elem(&flights, &request, &flight, BPF_ANY)) {
		ADD(device->in_flight, -1);
		ADD(plan->in_flight, -1);
	}
	return 0;
}

static __always_inline __u32 bucket(unsigned long long ns)
{
	__u32 exponent;

	if (ns < 32)
		return ns;
	if (ns >> 36)
		return LATENCIES - 1;
	exponent = log2_of(ns);
	/* The five bits after the first one. */
	return (exponent - 4) * 32 + ((ns >> (exponent - 5)) & 31);
}

static __always_inline void count_latency(__u32 key, unsigned long long took)
{
	struct latencies *of = bpf_map_lookup_elem(&latencies, &key);
	__u32 at = bucket(took);

	if (of && at < LATENCIES)
		ADD(of->counts[at], 1);
}

static __always_inline void count_error(const struct flight *flight, unsigned long long took)
{
	__u32 key = flight->device * OPERATIONS + flight->operation;
	struct errors *of = bpf_map_lookup_elem(&errors, &key);
	unsigned long long off =
	    flight->predicted > took ? flight->predicted - took : took - flight->predicted;
	unsigned long long percent = took ? off * 100 / took : ERRORS;

	if (percent >= ERRORS)
		percent = ERRORS - 1;
	if (of)
		ADD(of->counts[percent], 1);
}

/*
 * No window is to come. The timer is put off, not cancelled: its callback may be about to run on
 * this very CPU, beneath the interrupt that this is in, and to cancel it would be to wait for it
 * forever.
 */
static __always_inline void disarm(struct plan *plan)
{
	plan->armed = 0;
	bpf_timer_start(&plan->timer, NEVER, timer_flags);
}

/* No window is to come, unless one was opened just now. */
static __always_inline void cancel_timer(struct plan *plan, __u32 cpu, unsigned long long now)
{
	if (any_open(plan)) {
		plan->unarmed = 1;
		return;
	}
	disarm(plan);
	ADD(plan->sums.cancelled, 1);
	if (any_open(plan)) {
		/* The CPU may have armed it meanwhile, and this has put that off. */
		plan->armed = 0;
		have_armed(plan, cpu, now);
	}
}

/* How a window ended: when its CPU was ready, before, before it slept at all, or after its time. */
enum ending { IN_TIME, TOO_EARLY, WAS_BUSY, TOO_LATE };

static __always_inline void count_ending(struct outcome *outcome, enum ending ending)
{
	ADD(*(ending == IN_TIME	    ? &outcome->in_time
	      : ending == TOO_EARLY ? &outcome->early
	      : ending == WAS_BUSY  ? &outcome->cpu_busy
				    : &outcome->late),
	    1);
}

/*
 * What a window was opened for has come, or is not waited for any more. `waited`: a task that
 * waits for it is woken next.
 */
static __always_inline enum ending close_window(__u32 cpu, unsigned long long ticket,
						unsigned long long now, bool waited)
{
	struct plan *plan = plan_of(cpu);
	unsigned long long word, start, *slot;
	struct window *window;
	struct owner owner;
	struct notice notice;
	bool spinning;
	int tries = 0;

	if (!plan)
		return TOO_LATE;
	slot = &plan->words[ticket & (WINDOWS - 1)];
	window = &plan->windows[ticket & (WINDOWS - 1)];
	spinning = READ(plan->spinning);
	/* The CPU itself may be just about to begin with it. */
	do {
		word = READ(*slot);
		if (word >> STATE_BITS != ticket >> SLOT_BITS || !is_open(word) || tries++ > MOVES)
			return TOO_LATE;
		start = window->start;
		owner = window->owner;
		notice = window->notice;
		/* Before the loop sees that it may end. */
		if (spinning && has_begun(word) && waited)
			plan->linger = now + WAITER_NS;
	} while (!move(slot, word, has_begun(word) ? COMPLETE : FREE));
	if ((word & STATES) == NOTIFIED)
		release_second(&notice, &owner, now);
	if (has_begun(word)) {
		/* The loop charges the time and frees the slot. */
		if (spinning)
			return IN_TIME;
		end_naps(plan, now);
		move(slot, (word & ~STATES) | COMPLETE, FREE);
	}
	/* The timer was for this window: no CPU is to wake for nothing. */
	if (plan->armed && (plan->armed >= start || has_begun(word)))
		cancel_timer(plan, cpu, now);
	return has_begun(word) ? IN_TIME : (word & STATES) == ARMED ? TOO_EARLY : WAS_BUSY;
}

/* The request is complete: its waiter runs again when its CPU switches to it. */
static __always_inline void complete_wait(struct plan *plan, const struct flight *flight,
					  unsigned long long now)
{
	struct waiter *waiter = &plan->waiters[(flight->waiter - 1) & (WAITERS - 1)];

	if (waiter->pid != flight->pid || waiter->issued != flight->issued)
		return;
	if (__sync_val_compare_and_swap(&waiter->state, BLOCKED, WOKEN) == BLOCKED)
		return;
	/* It did not sleep, or goes to sleep just now. */
	if (__sync_val_compare_and_swap(&waiter->state, RUNS, NOBODY) == RUNS)
		count_latency(waiter->key, now - waiter->issued);
	else
		__sync_val_compare_and_swap(&waiter->state, BLOCKED, WOKEN);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *before, struct task_struct *next)
{
	struct plan *plan = plan_of(bpf_get_smp_processor_id());
	bool waited = false;

	if (!plan || !plan->waited)
		return 0;
	for (int i = 0; i < WAITERS; i++) {
		struct waiter *waiter = &plan->waiters[i];

		if (!waiter->state)
			continue;
		waited = true;
		if (waiter->pid == before->pid && !preempted && before->__state)
			__sync_val_compare_and_swap(&waiter->state, RUNS, BLOCKED);
		else if (waiter->pid == next->pid &&
			 __sync_val_compare_and_swap(&waiter->state, BLOCKED, RUNS) == WOKEN) {
			waiter->state = NOBODY;
			count_latency(waiter->key, bpf_ktime_get_ns() - waiter->issued);
		}
	}
	plan->waited = waited;
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *rq)
{
	unsigned long long now = bpf_ktime_get_ns(), took;
	__u64 request = (__u64)rq;
	struct flight *found = bpf_map_lookup_elem(&flights, &request), flight;
	__u32 here = bpf_get_smp_processor_id(), key, *taker;
	struct outcome *outcome;
	struct device *device;
	struct plan *plan;

	if (!found)
		return 0;
	flight = *found;
	if (bpf_map_delete_elem(&flights, &request))
		return 0;
	took = now - flight.issued;
	key = flight.device;
	device = bpf_map_lookup_elem(&devices, &key);
	plan = plan_of(flight.cpu);
	if (!device || !plan)
		return 0;
	ADD(device->in_flight, -1);
	ADD(plan->in_flight, -1);
	if (flight.treatment == ASSISTED) {
		key = flight.device * OPERATIONS + flight.operation;
		outcome = bpf_map_lookup_elem(&outcomes, &key);
		if (outcome)
			count_ending(outcome, close_window(flight.cpu, flight.ticket, now, true));
	}
	if (flight.waiter)
		complete_wait(plan, &flight, now);
	if (flight.predicted)
		count_error(&flight, took);
	key = flight.device * cpus_count + flight.cpu;
	taker = bpf_map_lookup_elem(&interrupted, &key);
	if (taker && *taker != here + 1)
		*taker = here + 1;
	/* Who is second to learn leaves it: the model is one for all CPUs. */
	if (!__sync_val_compare_and_swap(&device->learning, 0, 1)) {
		model_observe(&device->models[flight.operation & 1][flight.depth & (DEPTHS - 1)],
			      flight.sectors, took);
		__sync_lock_test_and_set(&device->learning, 0);
	}
	return 0;
}

#include "arrivals.h"

/*
 * Run by the program
 */

/* Makes the timer of each CPU ready. It may be tried again: what is ready is busy. */
static long init_timer(__u32 cpu, int *result)
{
	struct plan *plan = plan_of(cpu);

	if (!plan)
		return 1;
	*result = bpf_timer_init(&plan->timer, &plans, CLOCK_MONOTONIC);
	if (!*result || *result == -EBUSY)
		*result = bpf_timer_set_callback(&plan->timer, on_alarm);
	if (threads && !*result)
		*result = bpf_wq_init(&plan->work, &plans, 0);
	if (threads && (!*result || *result == -EBUSY))
		*result = bpf_wq_set_callback_impl(&plan->work, on_work, 0, NULL);
	plan->tokens = most_tokens(budget_per_cpu);
	/* Until it is seen. */
	plan->asleep = 1;
	plan->spell = 2 * SHORT_SPELL_NS;
	return *result != 0;
}

SEC("syscall")
int prepare(void *context)
{
	unsigned long long now = bpf_ktime_get_ns();
	struct plan *plan = plan_of(bpf_get_smp_processor_id());
	int result = 0;

	bpf_loop(cpus_count, init_timer, &result, 0);
	if (result || !plan)
		return result;
	tokens_in_all = most_tokens(budget_in_all) * cpus_count;
	refilled_in_all = now;
	/* Ask the kernel which flags it knows: it refuses the others. */
	timer_flags = TIMER_ABSOLUTE | TIMER_PINNED;
	result = arm(plan, now, now + 1000000);
	if (result == -EINVAL) {
		timer_flags = TIMER_ABSOLUTE;
		result = arm(plan, now, now + 1000000);
	}
	if (result == -EINVAL) {
		timer_flags = 0;
		result = arm(plan, now, now + 1000000);
	}
	disarm(plan);
	/* What was tried is not what it does. */
	plan->sums.armed = 0;
	plan->sums.refused = 0;
	return result;
}

/* Opens an announced window: its ticket, or a negative error. */
static __always_inline long long announce(const struct expectation *expected, struct plan *plan)
{
	unsigned long long now = bpf_ktime_get_ns(), at = expected->at_ns, lead, start, costs;
	unsigned long long end = at + expected->window_ns;
	unsigned int announced = READ(zero), of_user = READ(zero), remote = READ(zero);
	struct charge *charge, none = {.process = expected->owner.tgid};
	long long ticket;

	if (end <= now)
		return -ETIME;
	for (int i = 0; i < WINDOWS; i++) {
		struct window *window = &plan->windows[i];

		if (is_vacant(window, READ(plan->words[i]), now) ||
		    window->owner.device != NO_DEVICE)
			continue;
		announced++;
		of_user += window->uid == expected->uid;
		remote += window->uid >> 31;
	}
	/* Root, who may stop the engine as well, has no quota but what is left. */
	if (expected->uid && of_user >= WINDOWS_OF_USER)
		return -EUSERS;
	if (announced >= WINDOWS_ANNOUNCED || (expected->uid >> 31 && remote >= WINDOWS_REMOTE))
		return -ENOSPC;
	if (at < now)
		at = now;
	lead = lead_for(plan, at - now);
	start = at > now + lead ? at - lead : now;
	costs = at - start + (end - at) / 2;
	if (!affordable(plan, now, ratio_of(lead, costs), costs))
		return -EDQUOT;
	charge = bpf_map_lookup_elem(&charges, &expected->owner);
	if (!charge) {
		bpf_map_update_elem(&charges, &expected->owner, &none, BPF_NOEXIST);
		charge = bpf_map_lookup_elem(&charges, &expected->owner);
	}
	ticket = open_window(plan, now, start, end, &expected->owner, expected->uid, 0);
	if (ticket < 0)
		return -ENOSPC;
	if (charge) {
		ADD(charge->requests, 1);
		ADD(charge->assisted, 1);
	}
	if (plan->announced_until < end)
		plan->announced_until = end;
	have_armed(plan, expected->cpu, now);
	return ticket;
}

/* Run on any CPU, by one thread at a time, as the next one. */
SEC("syscall")
int expect_of_client(struct hint *context)
{
	struct hint hint = *context;
	struct client *client = bpf_map_lookup_elem(&clients, &hint.client), *none;
	struct expectation expected = {.at_ns = hint.at_ns, .window_ns = hint.window_ns};
	struct client_key service = hint.client;
	unsigned int reader, at = 0;
	struct outcome *outcome;
	struct readers *known;
	__u32 key = OF_HINTS, first = 0;
	struct plan *plan;

	if (!client) {
		none = bpf_map_lookup_elem(&new_client, &first);
		if (none)
			bpf_map_update_elem(&clients, &hint.client, none, BPF_NOEXIST);
		client = bpf_map_lookup_elem(&clients, &hint.client);
	}
	outcome = bpf_map_lookup_elem(&outcomes, &key);
	if (!client || !outcome)
		return -ENOMEM;
	__builtin_memset(service.address, 0, sizeof(service.address));
	known = bpf_map_lookup_elem(&services, &service);
	reader = client->readers.cpu ? client->readers.cpu : known ? known->cpu : 0;
	plan = plan_of(reader - 1);
	if (!reader || !plan) {
		context->ticket = -ESRCH;
		return 0;
	}
	forget_hints(client, outcome, bpf_ktime_get_ns());
	/* The oldest makes room. */
	for (unsigned int i = 1; i < HINTS; i++) {
		if (client->hints[i].at < client->hints[at & (HINTS - 1)].at)
			at = i;
	}
	at &= HINTS - 1;
	expected.cpu = reader - 1;
	expected.uid = hint.uid;
	expected.owner.device = NO_DEVICE;
	expected.ticket = announce(&expected, plan);
	context->cpu = expected.cpu;
	context->ticket = expected.ticket;
	if (expected.ticket < 0)
		return 0;
	ADD(outcome->requests, 1);
	client->hints[at].at = hint.at_ns;
	client->hints[at].from = hint.at_ns > hint.window_ns ? hint.at_ns - hint.window_ns : 0;
	client->hints[at].end = hint.at_ns + hint.window_ns;
	client->hints[at].cpu = expected.cpu;
	SET(client->hints[at].ticket, expected.ticket);
	return 0;
}

/* Run on any CPU, by one thread at a time. */
SEC("syscall")
int expect(struct expectation *context)
{
	/* The verifier wants to see the context read and written by itself. */
	struct expectation expected = *context;
	struct plan *plan = plan_of(expected.cpu);

	if (!plan)
		return -ENOENT;
	context->ticket = announce(&expected, plan);
	return 0;
}

SEC("syscall")
int cancel(struct cancellation *cancellation)
{
	close_window(cancellation->cpu, cancellation->ticket, bpf_ktime_get_ns(), false);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

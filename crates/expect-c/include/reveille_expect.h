/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Lets an application announce when it will be needed, so that its CPU is awake then.
 *
 *	struct reveille_expect *waker = reveille_expect_open(NULL);
 *	uint64_t kind = reveille_expect_kind("distance kernel");
 *	struct reveille_prediction next;
 *
 *	for (;;) {
 *		uint64_t start = reveille_expect_now();
 *
 *		if (reveille_expect_predict(waker, kind, &next) == 1)
 *			reveille_expect_at(waker, start + next.early_ns,
 *					   next.late_ns - next.early_ns);
 *		begin_and_wait();
 *		reveille_expect_cancel(waker, 0);
 *		reveille_expect_observe(waker, kind, reveille_expect_now() - start);
 *	}
 *
 * Link with -lreveille_expect. Instants and durations are ns of CLOCK_MONOTONIC. What fails returns
 * a negative errno value, as listed with each function. A handle may be used by several threads,
 * one at a time (the others wait). A child made by fork(2) cannot use it and opens its own.
 */
#ifndef REVEILLE_EXPECT_H
#define REVEILLE_EXPECT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to the running engine or, without one, a thread of this process. */
struct reveille_expect;

/* How long the next operation of a kind will take. */
struct reveille_prediction {
	uint64_t duration_ns; /* most likely */
	uint64_t early_ns;    /* one in ten is shorter; at most duration_ns */
	uint64_t late_ns;     /* one in ten is longer; at least duration_ns */
	double drift_ns;      /* by which each call is longer than the one before; 0: no trend */
	/*
	 * 1 less the median relative error of the last predictions, 0 to 1; -1: unknown,
	 * with fewer than four compared.
	 */
	double accuracy;
	uint64_t calls; /* durations that it is made from, at most 16 */
};

/* Outcomes of the requests of a handle. */
struct reveille_expect_counts {
	uint64_t asked;
	uint64_t accepted;  /* as far as the engine has answered yet */
	uint64_t refused;   /* at once, or by the engine's answer */
	uint64_t cancelled; /* before the window was over */
};

/* What keeps CPUs awake. */
#define REVEILLE_BY_NOBODY 0
#define REVEILLE_BY_ENGINE 1
#define REVEILLE_BY_THREAD 2

/*
 * Connects to the engine that listens at that path (NULL: /run/reveille/anticipate.sock) or, where
 * there is none, starts a thread of this process. Waits for the engine's answer, a second at most.
 * Always returns a handle.
 */
struct reveille_expect *reveille_expect_open(const char *path);

/* Ends all requests and the thread. NULL is allowed. */
void reveille_expect_close(struct reveille_expect *waker);

/* REVEILLE_BY_...; -EINVAL for NULL. */
int reveille_expect_served(struct reveille_expect *waker);

/* Why a request is refused: see reveille_expect_refused. */
#define REVEILLE_REFUSED_BUDGET 0      /* the process's budget of time awake is used up */
#define REVEILLE_REFUSED_LIMIT 1       /* too many are open, or too many came at once */
#define REVEILLE_REFUSED_PAST 2	       /* the window is over already */
#define REVEILLE_REFUSED_TOO_FAR 3     /* it begins too far ahead */
#define REVEILLE_REFUSED_TOO_LONG 4    /* it is too long */
#define REVEILLE_REFUSED_EMPTY 5       /* it is empty */
#define REVEILLE_REFUSED_CPU 6	       /* the CPU does not exist, is offline, or is not served */
#define REVEILLE_REFUSED_OTHER 7       /* a reason of a newer engine */
#define REVEILLE_REFUSED_USER_BUDGET 8 /* the time awake of all the user's processes is used up */
#define REVEILLE_REFUSED_SLOTS 9       /* the user's, or all users', windows on that CPU are open */
#define REVEILLE_REFUSED_WAKEUPS 10    /* the user's wake-ups of that CPU are used up */

/*
 * Asks that the CPU of the calling thread be awake from at_ns on, for window_ns. Does not wait:
 * refusals of the engine are counted (reveille_expect_counts, reveille_expect_refused). A window
 * counts as at least 50 us of the budget, however short it is. Returns the request's number, above
 * 0, or
 *
 *	-EINVAL   the window is empty, or waker is NULL
 *	-ETIME    the window is over already
 *	-ERANGE   it begins too far ahead (more than 10 s, if the engine sets no other limit)
 *	-EFBIG    it is too long (more than 10 ms, likewise)
 *	-EDQUOT   the budget of time awake is used up (5 % of each second, likewise)
 *	-EBUSY    too many requests are open (64, likewise), or too many came at once
 *	-ENODEV   the CPU is not served
 *	-ENOTSUP  there is neither an engine nor a thread
 */
int64_t reveille_expect_at(struct reveille_expect *waker, uint64_t at_ns, uint64_t window_ns);

/*
 * Cancels that request; with 0, all of this handle. A request that is over is no error. 0, or
 * -EINVAL for NULL or a number below 0, or -EBUSY where the engine does not listen at present: the
 * windows then pass by themselves.
 */
int reveille_expect_cancel(struct reveille_expect *waker, int64_t request);

/*
 * Waits until the engine has answered all requests, at most timeout_ns: 1 when it has, else 0.
 * -EINVAL for NULL.
 */
int reveille_expect_wait(struct reveille_expect *waker, uint64_t timeout_ns);

/* 0; -EINVAL for NULL. */
int reveille_expect_counts(struct reveille_expect *waker, struct reveille_expect_counts *counts);

/*
 * How many requests were refused for that reason (REVEILLE_REFUSED_...), at once or by the engine's
 * answer. -EINVAL for NULL or a number that is no reason.
 */
int64_t reveille_expect_refused(struct reveille_expect *waker, int why);

/*
 * An operation of that kind has just ended after duration_ns. 0, or -EINVAL for NULL and for what
 * nothing can have taken: 0 or less, or more than an hour.
 */
int reveille_expect_observe(struct reveille_expect *waker, uint64_t kind, int64_t duration_ns);

/*
 * Predicts the duration of an operation of that kind that begins now: 1, or 0 where it is unknown
 * (fewer than three seen after the first, or the first after a silence). -EINVAL for NULL.
 */
int reveille_expect_predict(struct reveille_expect *waker, uint64_t kind,
			    struct reveille_prediction *next);

/* A kind by name (0 for NULL); numbers below 2^32 are kinds, too, which no name has. */
uint64_t reveille_expect_kind(const char *name);

/* CLOCK_MONOTONIC. */
uint64_t reveille_expect_now(void);

/*
 * Hints to another machine, which takes them by `reveille anticipate --hints ADDRESS:PORT`: a
 * client of its services announces a request, so that the CPU that serves it is awake.
 */
struct reveille_hints;

/*
 * Stores a handle for hints to that address ("host:port") in *hints. key_file has the key that both
 * sides share, NULL: none. 0, or
 *
 *	-EINVAL         hints or to is NULL
 *	-EKEYREJECTED   the key is not in a file that only its owner reads, or has less than 16
 *bytes -EHOSTUNREACH   the name is unknown or has no port another one     of the socket
 */
int reveille_hints_open(struct reveille_hints **hints, const char *to, const char *key_file);

/* NULL is allowed. */
void reveille_hints_close(struct reveille_hints *hints);

/*
 * A request to the service of that protocol (IPPROTO_TCP, IPPROTO_UDP) and port comes after_ns from
 * now, at most within_ns earlier or later, from the address that the hint comes from. Does not
 * wait; a hint may be lost, as any datagram. 0, or -EINVAL for NULL, another protocol or port 0, or
 * the socket's error, such as -ECONNREFUSED where nobody took the hint before.
 */
int reveille_hints_send(struct reveille_hints *hints, int protocol, uint16_t port,
			uint64_t after_ns, uint64_t within_ns);

#ifdef __cplusplus
}
#endif

#endif

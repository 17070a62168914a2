/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls every function of the header, with what is allowed and what is not. Takes the socket's
 * path, who is to serve, and perhaps where hints are taken and the file of their key; says nothing
 * if all is well.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reveille_expect.h"

#define SECOND 1000000000ull

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* On a busy machine an engine may take longer to answer than the library waits for it. */
static struct reveille_expect *open_served(const char *path, int served)
{
	uint64_t deadline = reveille_expect_now() + 60 * SECOND;
	struct reveille_expect *waker;

	for (;;) {
		waker = reveille_expect_open(path);
		CHECK(waker);
		if (reveille_expect_served(waker) == served)
			return waker;
		CHECK(reveille_expect_now() < deadline);
		reveille_expect_close(waker);
	}
}

static void ask(struct reveille_expect *waker)
{
	uint64_t now = reveille_expect_now();
	struct reveille_expect_counts counts;
	int64_t first, second;

	first = reveille_expect_at(waker, now + 5 * SECOND, 100000);
	second = reveille_expect_at(waker, now + 6 * SECOND, 100000);
	CHECK(first > 0);
	CHECK(second > first);
	CHECK(reveille_expect_at(waker, now, 0) == -EINVAL);
	CHECK(reveille_expect_at(waker, now - 1000000, 1000) == -ETIME);
	CHECK(reveille_expect_at(waker, now + 60 * SECOND, 1000) == -ERANGE);
	CHECK(reveille_expect_at(waker, now + SECOND, SECOND) == -EFBIG);
	CHECK(reveille_expect_wait(waker, 60 * SECOND) == 1);
	CHECK(reveille_expect_cancel(waker, second) == 0);
	CHECK(reveille_expect_cancel(waker, second) == 0);
	CHECK(reveille_expect_cancel(waker, 12345) == 0);
	CHECK(reveille_expect_cancel(waker, -1) == -EINVAL);
	CHECK(reveille_expect_cancel(waker, 0) == 0);
	CHECK(reveille_expect_counts(waker, &counts) == 0);
	CHECK(counts.asked == 6);
	CHECK(counts.accepted == 2);
	CHECK(counts.refused == 4);
	CHECK(counts.cancelled == 2);
	CHECK(reveille_expect_refused(waker, REVEILLE_REFUSED_EMPTY) == 1);
	CHECK(reveille_expect_refused(waker, REVEILLE_REFUSED_TOO_LONG) == 1);
	CHECK(reveille_expect_refused(waker, REVEILLE_REFUSED_WAKEUPS) == 0);
	CHECK(reveille_expect_refused(waker, REVEILLE_REFUSED_WAKEUPS + 1) == -EINVAL);
	CHECK(reveille_expect_refused(waker, -1) == -EINVAL);
	CHECK(reveille_expect_refused(NULL, REVEILLE_REFUSED_EMPTY) == -EINVAL);
}

static void predict(struct reveille_expect *waker)
{
	uint64_t kind = reveille_expect_kind("distance kernel");
	struct reveille_prediction next;
	int call;

	CHECK(kind > UINT32_MAX);
	CHECK(kind != reveille_expect_kind("update kernel"));
	CHECK(reveille_expect_predict(waker, kind, &next) == 0);
	for (call = 0; call < 20; call++)
		CHECK(reveille_expect_observe(waker, kind, call ? 540000 : 2300000) == 0);
	CHECK(reveille_expect_observe(waker, kind, 0) == -EINVAL);
	CHECK(reveille_expect_observe(waker, kind, -5) == -EINVAL);
	CHECK(reveille_expect_observe(waker, kind, INT64_MAX) == -EINVAL);
	memset(&next, 0xff, sizeof(next));
	CHECK(reveille_expect_predict(waker, kind, &next) == 1);
	CHECK(next.duration_ns == 540000);
	CHECK(next.early_ns == 540000 && next.late_ns == 540000);
	CHECK(next.drift_ns == 0 && next.accuracy == 1);
	CHECK(next.calls == 16);
	CHECK(reveille_expect_predict(waker, 7, &next) == 0);
}

static void pass_null(struct reveille_expect *waker)
{
	struct reveille_prediction next;
	struct reveille_expect_counts counts;

	CHECK(reveille_expect_served(NULL) == -EINVAL);
	CHECK(reveille_expect_at(NULL, reveille_expect_now() + SECOND, 1000) == -EINVAL);
	CHECK(reveille_expect_cancel(NULL, 0) == -EINVAL);
	CHECK(reveille_expect_wait(NULL, 0) == -EINVAL);
	CHECK(reveille_expect_counts(NULL, &counts) == -EINVAL);
	CHECK(reveille_expect_counts(waker, NULL) == -EINVAL);
	CHECK(reveille_expect_observe(NULL, 1, 1000) == -EINVAL);
	CHECK(reveille_expect_predict(NULL, 1, &next) == -EINVAL);
	CHECK(reveille_expect_predict(waker, 1, NULL) == -EINVAL);
	CHECK(reveille_expect_kind(NULL) == 0);
	reveille_expect_close(NULL);
}

/* The protocols' numbers: <netinet/in.h> is not in C99. */
#define TCP 6
#define UDP 17

static void hint(const char *to, const char *key_file)
{
	struct reveille_hints *hints = NULL;

	CHECK(reveille_hints_open(NULL, to, NULL) == -EINVAL);
	CHECK(reveille_hints_open(&hints, NULL, NULL) == -EINVAL);
	CHECK(reveille_hints_open(&hints, "no port", NULL) == -EHOSTUNREACH);
	CHECK(reveille_hints_open(&hints, to, "/dev/null") == -EKEYREJECTED);
	CHECK(!hints);
	CHECK(reveille_hints_open(&hints, to, key_file) == 0);
	CHECK(reveille_hints_send(NULL, TCP, 80, 1, 1) == -EINVAL);
	CHECK(reveille_hints_send(hints, 1, 80, 1, 1) == -EINVAL);
	CHECK(reveille_hints_send(hints, TCP, 0, 1, 1) == -EINVAL);
	CHECK(reveille_hints_send(hints, UDP, 5060, 3000000, 500000) == 0);
	reveille_hints_close(hints);
	reveille_hints_close(NULL);
}

int main(int count, char **arguments)
{
	struct reveille_expect *waker;

	CHECK(count == 3 || count == 5);
	waker = open_served(arguments[1], atoi(arguments[2]));
	ask(waker);
	predict(waker);
	pass_null(waker);
	reveille_expect_close(waker);
	if (count == 5)
		hint(arguments[3], arguments[4]);
	return 0;
}

/* Prints the frequency of this machine's TSC, in kHz. */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define MS 1000000

static long long now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC_RAW, &at);
	return at.tv_sec * 1000LL * MS + at.tv_nsec;
}

/* The TSC, and when that was, ns: nothing else ran between. */
static unsigned long long read_tsc(long long *at)
{
	unsigned long long tsc;
	long long before;

	do {
		before = now();
		tsc = __rdtsc();
		*at = now();
	} while (*at - before > MS / 100);
	return tsc;
}

int main(void)
{
	const struct timespec pause = {.tv_nsec = 100 * MS};
	long long from, to;
	unsigned long long ticks = read_tsc(&from);

	nanosleep(&pause, NULL);
	ticks = read_tsc(&to) - ticks;
	printf("%.0f\n", (double)ticks * MS / (to - from));
	return 0;
}

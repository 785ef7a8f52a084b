// SPDX-License-Identifier: GPL-2.0
/* Calls functions through the thunks of userlib/preload/passed.c: their parameters, results and counts, in many threads. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "preload.h"

#define THREADS 4
#define CALLS 20000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void preload_lock(void) { pthread_mutex_lock(&lock); }
void preload_unlock(void) { pthread_mutex_unlock(&lock); }

struct large { long one, two, three; double four; };

/* More parameters than fit into registers, and a result whose address is a hidden parameter. */
static struct large strange(int a, double b, long c, long d, long e, long f, long g, long h, double i, long j, double k,
			    struct large l)
{
	return (struct large){ a + c + d + e + f, g + h + j + l.one, l.two + l.three, b + i + k + l.four };
}

static int fails(int a) { return -a; }

static struct large (*through)(int, double, long, long, long, long, long, long, double, long, double, struct large);

static void *work(void *unused)
{
	struct large given = { 1, 2, 3, 4.5 }, got;
	int i;

	for (i = 0; i < CALLS; i++) {
		got = through(1, 2.5, 3, 4, 5, 6, 7, 8, 9.5, 10, 11.5, given);
		if (got.one != 19 || got.two != 26 || got.three != 5 || got.four != 28)
			return work;
	}
	return unused;
}

int main(void)
{
	static const char code[300];	/* addresses that are never called */
	pthread_t threads[THREADS];
	const char *name;
	void *wrong = NULL, *one;
	uint64_t calls;
	int i;

	through = (__typeof__(through))passed("strange", (void *)strange);
	if ((void *)through == (void *)strange || passed("strange", (void *)strange) != (void *)through ||
	    passed("strange", (void *)through) != (void *)through)
		return puts("no thunk, or another one for the same function");
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &one);
		wrong = wrong ? wrong : one;
	}
	if (wrong)
		return puts("wrong parameters or results");
	for (i = 0; i < 254; i++)
		passed("filler", (void *)&code[i]);
	if (((int (*)(int))passed("last", (void *)fails))(7) != -7)
		return puts("the last thunk goes elsewhere");
	if (passed("too many", (void *)&code[299]) != (void *)&code[299])
		return puts("a thunk too many");
	calls = passed_calls(&name);
	printf("%llu %s\n", (unsigned long long)calls, name);
	return 0;
}

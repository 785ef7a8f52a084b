// SPDX-License-Identifier: GPL-2.0
/* core_pair CLIENTS [PAIRS REPEATS]: median nanoseconds of one begin and one end, with CLIENTS clients in segments. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../kmod/core/sched.h"

static unsigned long commits;

static void commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	(void)s, (void)only, (void)cause, (void)now;
	commits++;
}

static void event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 what, u64 now)
{
	(void)s, (void)c, (void)what, (void)now;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

int main(int argc, char **argv)
{
	static const struct gpurt_sched_ops ops = { .commit = commit, .event = event };
	unsigned int count = argc > 1 ? atoi(argv[1]) : 64, i, r;
	unsigned int pairs = argc > 2 ? atoi(argv[2]) : 200000, repeats = argc > 3 ? atoi(argv[3]) : 15;
	unsigned int *order = malloc(pairs * sizeof(*order));
	struct gpurt_sched_client *clients = calloc(count, sizeof(*clients));
	double *times = malloc(repeats * sizeof(*times));
	struct gpurt_sched s;
	u64 clock = 0;

	srandom(1);
	gpurt_sched_init(&s, &ops, NULL, 0);
	gpurt_set_policy(&s, GPURT_POLICY_SEGMENT, 0);
	for (i = 0; i < count; i++) {
		gpurt_sched_client_init(&clients[i]);
		gpurt_begin(&s, &clients[i], 1 + random() % 99, 0, clock++);
	}
	for (i = 0; i < pairs; i++)
		order[i] = random() % count;
	for (r = 0; r < repeats; r++) {
		double start = now_ns();

		for (i = 0; i < pairs; i++) {
			struct gpurt_sched_client *c = &clients[order[i]];

			gpurt_end(&s, c, clock++);
			gpurt_begin(&s, c, c->own, 0, clock++);
		}
		times[r] = (now_ns() - start) / pairs;
	}
	qsort(times, repeats, sizeof(*times), compare);
	printf("%.2f\n", times[repeats / 2]);
	return commits ? 0 : 1;
}

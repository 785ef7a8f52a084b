// SPDX-License-Identifier: GPL-2.0
/* From what was drawn to tasksets: priorities by rate, segments cut at random, and their sums. */
#include <math.h>
#include <stdlib.h>

#include "draft.h"
#include "random.h"

/* Rate monotonic, ties by index; best effort comes last. */
static void by_rate(struct maker *m)
{
	u32 i, j;

	for (i = 0; i < m->count; i++) {
		const struct draft *d = &m->drafts[i];

		for (j = i; j; j--) {
			const struct draft *other = &m->drafts[m->order[j - 1]];

			if (other->best_effort < d->best_effort ||
			    (other->best_effort == d->best_effort && other->period <= d->period))
				break;
			m->order[j] = m->order[j - 1];
		}
		m->order[j] = i;
	}
}

/* Cuts a time into parts at places drawn uniformly. */
static void cut(u64 *random, int64_t time, int64_t *parts, u32 count)
{
	u32 i, j;

	for (i = 0; i + 1 < count; i++) {
		int64_t place = (int64_t)random_integer(random, 0, (u64)time);

		for (j = i; j && parts[j - 1] > place; j--)
			parts[j] = parts[j - 1];
		parts[j] = place;
	}
	parts[count - 1] = time;
	for (i = count - 1; i; i--)
		parts[i] -= parts[i - 1];
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Draws the segments of a task, and sums them up. */
static void write_task(struct maker *m, const struct draft *d, struct gpurt_batch *b, struct gpurt_pieces *pieces,
		       u32 at, u32 piece)
{
	int64_t all = llround(d->utilization * (double)d->period);
	int64_t gpu = d->eta ? llround((double)all * d->ratio / (1 + d->ratio)) : 0;
	u32 i;

	cut(&m->random, all - gpu, pieces->cpu + piece, d->eta + 1);
	if (d->eta)
		cut(&m->random, gpu, pieces->pure + piece, d->eta);
	b->cpu_time[at] = all - gpu;
	b->misc[at] = 0;
	b->pure[at] = 0;
	b->slices[at] = 0;
	b->longest[at] = 0;
	b->longest_misc[at] = 0;
	b->longest_pure[at] = 0;
	b->last[at] = 0;
	b->last_misc[at] = 0;
	b->busy[at] = 0;
	b->ends[at] = d->eta && !pieces->cpu[piece + d->eta];	/* else it ends with its last CPU segment */
	b->gaps[at] = d->eta + 1;	/* what follows its last GPU segment needs its CPU, also if it is empty */
	for (i = piece; i < piece + d->eta; i++) {
		int64_t whole = pieces->pure[i], misc = llround((double)whole * d->misc);

		pieces->misc[i] = misc;
		pieces->pure[i] = whole - misc;
		b->misc[at] += misc;
		b->pure[at] += whole - misc;
		b->slices[at] += (whole - misc + b->slice - 1) / b->slice;
		b->longest[at] = larger(b->longest[at], whole);
		b->longest_misc[at] = larger(b->longest_misc[at], misc);
		b->longest_pure[at] = larger(b->longest_pure[at], whole - misc);
	}
	pieces->misc[i] = 0;
	pieces->pure[i] = 0;
	if (b->ends[at]) {
		b->last[at] = pieces->misc[i - 1] + pieces->pure[i - 1];
		b->last_misc[at] = pieces->misc[i - 1];
	}
}

static void write_taskset(struct maker *m, struct gpurt_batch *b, struct gpurt_pieces *pieces, u32 first)
{
	u32 i;

	by_rate(m);
	for (i = 0; i < m->count; i++) {
		const struct draft *d = &m->drafts[m->order[i]];
		u32 at = first + i;

		b->cpu[at] = d->cpu;
		b->priority[at] = d->best_effort ? 0 : m->count - i;
		b->gpu_priority[at] = b->priority[at];
		b->eta[at] = d->eta;
		b->period[at] = d->period;
		b->deadline[at] = d->period;
		write_task(m, d, b, pieces, at, pieces->first[at]);
		pieces->first[at + 1] = pieces->first[at] + d->eta + 1;
	}
}

int gpurt_generate(const struct gpurt_parameters *p, u64 seed, u64 from, u32 count, const double *given,
		   struct gpurt_batch *batch, struct gpurt_pieces *pieces)
{
	u32 room = gpurt_generate_room(p), i;
	struct maker m = {
		.p = p, .drafts = calloc(room + 1, sizeof(*m.drafts)), .order = calloc(room + 1, sizeof(*m.order)),
		.loads = calloc(p->cpus + 1, sizeof(*m.loads)),
	};
	u32 *counts = calloc(p->cpus + 1, sizeof(*counts));
	int err = m.drafts && m.order && m.loads && counts ? 0 : -1;

	batch->first[0] = 0;
	pieces->first[0] = 0;
	for (i = 0; i < count && !err; i++) {
		m.random = draft_seed(seed, from + i);
		draft_taskset(&m, given, counts);
		if (given)
			given += m.count - (p->overlap ? DRAFT_EXTRA : 0);
		if (p->reallocate)
			draft_reallocate(&m);
		write_taskset(&m, batch, pieces, batch->first[i]);
		batch->first[i + 1] = batch->first[i] + m.count;
	}
	batch->count = count;
	free(m.drafts);
	free(m.order);
	free(m.loads);
	free(counts);
	return err;
}

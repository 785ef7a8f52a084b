// SPDX-License-Identifier: GPL-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"

#define MS 1000000
#define EXTRA 3		/* tasks that `overlap` adds */

struct draft {
	double utilization;
	int64_t period;
	u32 cpu, eta;
	bool user, best_effort;
	double ratio, misc;	/* G / C, G^m / G */
};

struct maker {
	const struct gpurt_parameters *p;
	u64 random;
	u32 count;
	struct draft *drafts;
	u32 *order;
	double *loads;
};

static u64 draw(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ULL;	/* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* In [0, 1). */
static double unit(u64 *state)
{
	return (double)(draw(state) >> 11) * 0x1p-53;
}

static double between(u64 *state, double low, double high)
{
	return low + (high - low) * unit(state);
}

/* One of low to high, each with the same probability but for 2^-32 at most. */
static u64 integer(u64 *state, u64 low, u64 high)
{
	return low + (u64)(((unsigned __int128)draw(state) * (high - low + 1)) >> 64);
}

static u64 begin(u64 seed, u64 index)
{
	u64 state = seed ^ 0x6a09e667f3bcc909ULL, mixed = draw(&state);

	state = mixed ^ index * 0xd1342543de82ef95ULL;
	return draw(&state);
}

u32 gpurt_generate_room(const struct gpurt_parameters *p)
{
	u32 most = p->tasks ? p->tasks : p->cpus * p->tasks_max;

	return most + (p->overlap ? EXTRA : 0);
}

/* Tasks that are dealt out leave CPUs without any idle: a load needs somebody to make it. */
static void shape(const struct gpurt_parameters *p, u64 *random, u32 *counts, double *loads)
{
	u32 c;

	for (c = 0; c < p->cpus; c++) {
		if (p->tasks)
			counts[c] = p->tasks / p->cpus + (c < p->tasks % p->cpus);
		else
			counts[c] = (u32)integer(random, p->tasks_min, p->tasks_max);
		loads[c] = between(random, p->load_min, p->load_max);
	}
}

void gpurt_generate_shape(const struct gpurt_parameters *p, u64 seed, u64 index, u32 *counts, double *loads)
{
	u64 random = begin(seed, index);

	shape(p, &random, counts, loads);
}

/* UUniFast (Bini and Buttazzo 2005): each split leaves the rest distributed as the rest should be. */
static void uunifast(struct maker *m, u32 first, u32 count, double load)
{
	u32 i;

	for (i = 0; i < count; i++) {
		u32 left = count - 1 - i;
		double rest = left ? load * pow(unit(&m->random), 1.0 / left) : 0;

		m->drafts[first + i].utilization = load - rest;
		load = rest;
	}
}

/* A random subset of so many tasks: m->order[0] to m->order[size - 1]. */
static void choose(struct maker *m, u32 size)
{
	u32 i, j, swap;

	for (i = 0; i < m->count; i++)
		m->order[i] = i;
	for (i = 0; i < size; i++) {
		j = (u32)integer(&m->random, i, m->count - 1);
		swap = m->order[i];
		m->order[i] = m->order[j];
		m->order[j] = swap;
	}
}

static void add(struct maker *m, u32 cpu, bool user, double utilization, int64_t period)
{
	m->drafts[m->count++] = (struct draft){
		.cpu = cpu, .user = user, .eta = user, .utilization = utilization, .period = period,
		.ratio = user ? 10 : 0, .misc = user ? m->p->misc_min : 0,
	};
}

/* Figure 4.13 of the thesis gives no numbers: "high utilization and small periods", "long GPU execution". */
static void add_overlap(struct maker *m)
{
	u32 i;

	for (i = 0; i < 2; i++)
		add(m, i % m->p->cpus, false, between(&m->random, 0.2, 0.3),
		    (int64_t)integer(&m->random, 5 * MS, 10 * MS));
	add(m, 0, true, between(&m->random, 0.2, 0.3), (int64_t)integer(&m->random, 300 * MS, 500 * MS));
}

/* Everything that is drawn for one taskset but how segments are cut. */
static void draft(struct maker *m, const double *given, u32 *counts)
{
	const struct gpurt_parameters *p = m->p;
	u32 c, i, users;

	shape(p, &m->random, counts, m->loads);
	m->count = 0;
	memset(m->drafts, 0, gpurt_generate_room(p) * sizeof(*m->drafts));
	for (c = 0; c < p->cpus; c++) {
		uunifast(m, m->count, counts[c], m->loads[c]);
		for (i = 0; i < counts[c]; i++, m->count++) {
			m->drafts[m->count].cpu = c;
			if (given)
				m->drafts[m->count].utilization = given[m->count];
		}
	}
	users = (u32)(between(&m->random, p->users_min, p->users_max) * m->count + 0.5);
	choose(m, users);
	for (i = 0; i < users; i++)
		m->drafts[m->order[i]].user = true;
	for (i = 0; i < m->count; i++) {
		struct draft *d = &m->drafts[i];

		d->period = (int64_t)integer(&m->random, (u64)p->period_min, (u64)p->period_max);
		if (!d->user)
			continue;
		d->eta = (u32)integer(&m->random, p->segments_min, p->segments_max);
		d->ratio = between(&m->random, p->ratio_min, p->ratio_max);
		d->misc = between(&m->random, p->misc_min, p->misc_max);
	}
	if (p->overlap)
		add_overlap(m);
	users = (u32)(p->best_effort * m->count + 0.5);
	choose(m, users);
	for (i = 0; i < users; i++)
		m->drafts[m->order[i]].best_effort = true;
}

/* m->order by falling utilization, ties by index. */
static void by_utilization(struct maker *m)
{
	u32 i, j;

	for (i = 0; i < m->count; i++) {
		for (j = i; j && m->drafts[m->order[j - 1]].utilization < m->drafts[i].utilization; j--)
			m->order[j] = m->order[j - 1];
		m->order[j] = i;
	}
}

/* Worst fit decreasing: each task, the largest first, to the CPU with the least load so far. */
static void reallocate(struct maker *m)
{
	u32 i, c, least;

	by_utilization(m);
	memset(m->loads, 0, m->p->cpus * sizeof(*m->loads));
	for (i = 0; i < m->count; i++) {
		for (least = 0, c = 1; c < m->p->cpus; c++)
			if (m->loads[c] < m->loads[least])
				least = c;
		m->drafts[m->order[i]].cpu = least;
		m->loads[least] += m->drafts[m->order[i]].utilization;
	}
}

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
		int64_t place = (int64_t)integer(random, 0, (u64)time);

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
	if (d->eta && !pieces->cpu[i]) {	/* else it ends with its last CPU segment */
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
		m.random = begin(seed, from + i);
		draft(&m, given, counts);
		if (given)
			given += m.count - (p->overlap ? EXTRA : 0);
		if (p->reallocate)
			reallocate(&m);
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

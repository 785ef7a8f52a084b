// SPDX-License-Identifier: GPL-2.0
#include <math.h>
#include <string.h>

#include "draft.h"
#include "random.h"

#define DRAFT_MS 1000000

u64 draft_seed(u64 seed, u64 index)
{
	u64 state = seed ^ 0x6a09e667f3bcc909ULL, mixed = random_bits(&state);

	state = mixed ^ index * 0xd1342543de82ef95ULL;
	return random_bits(&state);
}

u32 gpurt_generate_room(const struct gpurt_parameters *p)
{
	u32 most = p->tasks ? p->tasks : p->cpus * p->tasks_max;

	return most + (p->overlap ? DRAFT_EXTRA : 0);
}

/* How many tasks each CPU has, and its load.  A CPU without tasks stays idle, whatever its load. */
static void shape(const struct gpurt_parameters *p, u64 *random, u32 *counts, double *loads)
{
	u32 c;

	for (c = 0; c < p->cpus; c++) {
		if (p->tasks)
			counts[c] = p->tasks / p->cpus + (c < p->tasks % p->cpus);
		else
			counts[c] = (u32)random_integer(random, p->tasks_min, p->tasks_max);
		loads[c] = random_between(random, p->load_min, p->load_max);
	}
}

void gpurt_generate_shape(const struct gpurt_parameters *p, u64 seed, u64 index, u32 *counts, double *loads)
{
	u64 random = draft_seed(seed, index);

	shape(p, &random, counts, loads);
}

/* UUniFast (Bini and Buttazzo 2005) for the tasks of one CPU. */
static void uunifast(struct maker *m, u32 first, u32 count, double load)
{
	u32 i;

	for (i = 0; i < count; i++) {
		u32 left = count - 1 - i;
		double rest = left ? load * pow(random_unit(&m->random), 1.0 / left) : 0;

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
		j = (u32)random_integer(&m->random, i, m->count - 1);
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
		add(m, i % m->p->cpus, false, random_between(&m->random, 0.2, 0.3),
		    (int64_t)random_integer(&m->random, 5 * DRAFT_MS, 10 * DRAFT_MS));
	add(m, 0, true, random_between(&m->random, 0.2, 0.3), (int64_t)random_integer(&m->random, 300 * DRAFT_MS, 500 * DRAFT_MS));
}

void draft_taskset(struct maker *m, const double *given, u32 *counts)
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
	users = (u32)(random_between(&m->random, p->users_min, p->users_max) * m->count + 0.5);
	choose(m, users);
	for (i = 0; i < users; i++)
		m->drafts[m->order[i]].user = true;
	for (i = 0; i < m->count; i++) {
		struct draft *d = &m->drafts[i];

		d->period = (int64_t)random_integer(&m->random, (u64)p->period_min, (u64)p->period_max);
		if (!d->user)
			continue;
		d->eta = (u32)random_integer(&m->random, p->segments_min, p->segments_max);
		d->ratio = random_between(&m->random, p->ratio_min, p->ratio_max);
		d->misc = random_between(&m->random, p->misc_min, p->misc_max);
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

void draft_reallocate(struct maker *m)
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

// SPDX-License-Identifier: GPL-2.0
/* Audsley's method on GPU segments.  analysis/rta/audsley.py gives the reasons. */
#include "rta_internal.h"

#define LEVELS 99	/* number of GPU priorities */
#define ABOVE 1000	/* tasks without a level have priorities from here on, in the order of CPU priorities */

/*
 * If tasks spin, the bound of a CPU-only task depends on the GPU priority of one task.  The task is the lowest one
 * above the CPU-only task on its CPU that spins.  Returns the entry of that task; UINT32_MAX if there is none.
 */
static u32 rider_of(const struct rta *s, const struct rta_test *test, u32 entry)
{
	const struct rta_task *t = &s->tasks[entry];
	u32 h, last = UINT32_MAX;

	if (t->eta || test->busy == GPURT_RTA_NONE)
		return UINT32_MAX;
	for (h = s->cpu[t->cpu].begin; h < s->cpu[t->cpu].end && s->tasks[h].priority >= t->priority; h++)
		if (s->tasks[h].eta && (test->busy == GPURT_RTA_ALL || s->tasks[h].busy))
			last = h;
	return last;
}

static bool passes(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	return rta_solve(s, test, t) >= 0 || rta_solve_instead(s, test, t) >= 0;
}

/* Whether all CPU-only tasks pass whose bound depends on @entry's GPU priority; UINT32_MAX: on no GPU priority. */
static bool riders_pass(struct rta *s, const struct rta_test *test, u32 entry)
{
	u32 i;

	for (i = 0; i < s->real_time; i++)
		if (!s->tasks[i].eta && rider_of(s, test, i) == entry && !passes(s, test, &s->tasks[i]))
			return false;
	return true;
}

/* The GPU-using entry of lowest CPU priority on a CPU that has no level yet; UINT32_MAX if there is none. */
static u32 lowest_of(const struct rta *s, u32 cpu)
{
	u32 u = s->cpu[cpu].end_user;

	while (u > s->cpu[cpu].first_user)
		if (s->tasks[s->users[--u]].gpu_priority >= ABOVE)
			return s->users[u];
	return UINT32_MAX;
}

/* Whether @entry and the CPU-only tasks that depend on it pass at this level, which the entry keeps if so. */
static bool takes(struct rta *s, const struct rta_test *test, u32 entry, u32 level)
{
	u32 before = s->tasks[entry].gpu_priority;

	s->tasks[entry].gpu_priority = level;
	if (passes(s, test, &s->tasks[entry]) && riders_pass(s, test, entry))
		return true;
	s->tasks[entry].gpu_priority = before;
	return false;
}

/* Whether entry @a comes before @b among candidates: the lower CPU priority first; of equals, that of the lower CPU. */
static bool earlier(const struct rta *s, u32 a, u32 b)
{
	const struct rta_task *one = &s->tasks[a], *other = &s->tasks[b];

	return one->priority != other->priority ? one->priority < other->priority : one->cpu < other->cpu;
}

/* The candidate after @before, or the first if that is UINT32_MAX; UINT32_MAX after the last. */
static u32 next_candidate(const struct rta *s, u32 before)
{
	u32 c, entry, next = UINT32_MAX;

	for (c = 0; c < s->cpus; c++) {
		entry = lowest_of(s, c);
		if (entry == UINT32_MAX || (before != UINT32_MAX && !earlier(s, before, entry)))
			continue;
		if (next == UINT32_MAX || earlier(s, entry, next))
			next = entry;
	}
	return next;
}

/*
 * Gives a level to the first candidate that passes with it; false if no candidate does.  With tasks of equal priority
 * on a CPU the order of candidates can decide whether all levels are taken.  So candidates have the order of
 * audsley.py.
 */
static bool take_level(struct rta *s, const struct rta_test *test, u32 level)
{
	u32 i, entry;

	for (i = s->real_time; i && test->any_order; i--) {
		entry = s->order[i - 1];
		if (s->tasks[entry].eta && s->tasks[entry].gpu_priority >= ABOVE && takes(s, test, entry, level))
			return true;
	}
	if (test->any_order)
		return false;
	for (entry = next_candidate(s, UINT32_MAX); entry != UINT32_MAX; entry = next_candidate(s, entry))
		if (takes(s, test, entry, level))
			return true;
	return false;
}

/* Gives levels until no task can take the next.  Returns how many; -1: a task fails that no level has an influence on. */
static int give(struct rta *s, const struct rta_test *test)
{
	u32 i, level, above = ABOVE;

	s->assume = true;
	if (!riders_pass(s, test, UINT32_MAX))
		return -1;
	for (i = s->real_time; i; i--)
		if (s->tasks[s->order[i - 1]].eta)
			s->tasks[s->order[i - 1]].gpu_priority = above++;
	for (level = 1; level <= s->user_count; level++)
		if (!take_level(s, test, level))
			break;
	return (int)level - 1;
}

int gpurt_rta_levels(const struct gpurt_columns *columns, const struct gpurt_rta_test *facts, u32 *levels, int *given)
{
	struct rta_test test;
	struct rta *s;
	int answer = rta_load(columns, facts, &test, &s);
	u32 i;

	if (!answer && (s->threads || s->user_count > LEVELS))
		answer = GPURT_RTA_REFUSED;
	if (!answer) {
		*given = give(s, &test);
		for (i = 0; i < s->real_time; i++) {
			const struct rta_task *t = &s->tasks[i];

			levels[t->index] = *given >= 0 && t->eta && t->gpu_priority < ABOVE ? t->gpu_priority : 0;
		}
	}
	rta_free(s);
	return answer;
}

// SPDX-License-Identifier: GPL-2.0
/* The order in which tasks are analysed, and what follows from one without a bound (analysis/rta/analyse.py). */
#include <stdlib.h>
#include <string.h>

#include "rta_internal.h"

/* Whether tasks of at least two CPUs use the GPU, best effort included. */
static bool contended(const struct rta *s)
{
	u32 i, cpu = UINT32_MAX;

	for (i = 0; i < s->count; i++) {
		if (!s->tasks[i].eta)
			continue;
		if (cpu != UINT32_MAX && s->tasks[i].cpu != cpu)
			return true;
		cpu = s->tasks[i].cpu;
	}
	return false;
}

/*
 * Whether the GPU priorities of a CPU contradict its CPU priorities.  A task that preempts another must have the higher
 * GPU priority too.  If @distinct, no two GPU-using tasks may have the same CPU priority.
 */
static bool disordered_on(const struct rta *s, const struct rta_cpu *cpu, bool distinct)
{
	u32 u, v, group = cpu->first_user, lowest = UINT32_MAX;

	for (u = cpu->first_user; u < cpu->end_user; u++) {
		const struct rta_task *t = &s->tasks[s->users[u]];

		if (t->priority != s->tasks[s->users[group]].priority) {
			for (v = group; v < u; v++)
				if (s->tasks[s->users[v]].gpu_priority < lowest)
					lowest = s->tasks[s->users[v]].gpu_priority;
			group = u;
		} else if (u > group && distinct) {
			return true;
		}
		if (t->gpu_priority >= lowest)
			return true;
	}
	return false;
}

bool rta_disordered(struct rta *s, const struct rta_test *test)
{
	bool distinct = test->equals == GPURT_RTA_UNBOUNDED ||
			(test->equals == GPURT_RTA_CONTENDED && s->ties && contended(s));
	u32 i;

	if (!(test->ordered || test->any_order) || (s->plain && !s->ties))
		return false;
	for (i = 0; i < s->count; i++)
		if (s->tasks[i].eta && !s->tasks[i].priority == !!s->tasks[i].gpu_priority)
			return true;
	for (i = 0; i < s->cpus && test->ordered; i++)
		if (disordered_on(s, &s->cpu[i], distinct))
			return true;
	return false;
}

int64_t rta_found(struct rta *s, const struct rta_test *test, struct rta_task *t, int64_t bound)
{
	int64_t end = -1;

	if (test->formula->segmented && t->eta && bound >= 0 && !s->threads)
		end = rta_solve_end(s, test, t);
	if (bound < 0)
		bound = rta_solve_instead(s, test, t);
	t->found = bound;
	t->found_end = end < 0 ? bound : end;
	return bound;
}

void rta_settle(struct rta_task *t)
{
	t->response = t->found;
	t->end = t->found_end;
}

bool rta_schedulable(struct rta *s, const struct rta_test *test)
{
	u32 i, settled = 0;

	for (i = 0; i < s->real_time; i++) {
		struct rta_task *t = &s->tasks[s->order[i]];
		int64_t bound;

		if (s->assume) {
			if (!rta_passes(s, test, t))
				return false;
			continue;
		}
		/* Tasks of equal priority use each other's deadlines: only lower priorities use a bound. */
		if (i && t->priority != s->tasks[s->order[i - 1]].priority)
			for (; settled < i; settled++)
				rta_settle(&s->tasks[s->order[settled]]);
		if (test->formula->segmented && !t->eta && !s->ties) {
			if (!rta_passes(s, test, t))	/* no bound looks at its response */
				return false;
			continue;
		}
		bound = t->thread ? rta_serve(s, test, t) : rta_found(s, test, t, rta_solve(s, test, t));
		if (bound < 0)
			return false;
	}
	return true;
}

static enum gpurt_rta_verdict verdict(struct rta *s, const struct gpurt_batch *b, const struct rta_test *test,
				      u32 flags, u32 index)
{
	s->assume = test->formula->charges == RTA_INDEPENDENT;	/* then no formula needs the bounds themselves */
	if (!rta_load(s, b, test, index) || (s->threads && (flags & GPURT_RTA_ASSIGN || s->assume)))
		return GPURT_RTA_REFUSED;
	if (!s->real_time || (!rta_disordered(s, test) && rta_schedulable(s, test)))
		return GPURT_RTA_YES;
	return flags & GPURT_RTA_ASSIGN ? rta_assign(s, test) : GPURT_RTA_NO;
}

/* Memory for the largest of the tasksets; NULL and an error in @err if there is none or a CPU is out of range. */
static struct rta *room_for(const struct gpurt_batch *b, u32 from, u32 to, int *err)
{
	u32 i, tasks = 0, cpus = rta_cpus(b, b->first[from], b->first[to]);

	*err = -GPURT_RTA_EINVAL;
	for (i = from; i < to; i++)
		if (b->first[i + 1] - b->first[i] > tasks)
			tasks = b->first[i + 1] - b->first[i];
	if (!cpus)
		return NULL;
	*err = -GPURT_RTA_ENOMEM;
	return rta_new(tasks, cpus);
}

int gpurt_rta_verdicts(const struct gpurt_batch *b, const struct gpurt_rta_test *facts, u32 flags, u32 from, u32 to,
		       u8 *verdicts)
{
	struct rta_test test;
	struct rta *s;
	int err;
	u32 i;

	if (!rta_test_init(&test, facts) || from > to || to > b->count)
		return -GPURT_RTA_EINVAL;
	s = room_for(b, from, to, &err);
	if (!s)
		return err;
	for (i = from; i < to; i++)
		verdicts[i] = (u8)verdict(s, b, &test, flags, i);
	rta_free(s);
	return 0;
}

int gpurt_rta_levels(const struct gpurt_batch *b, const struct gpurt_rta_test *facts, u32 index, u32 *levels, int *given)
{
	struct rta_test test;
	struct rta *s;
	int err;
	u32 i;

	if (!rta_test_init(&test, facts) || index >= b->count)
		return -GPURT_RTA_EINVAL;
	s = room_for(b, index, index + 1, &err);
	if (!s)
		return err;
	err = !rta_load(s, b, &test, index) || s->threads || s->user_count > RTA_LEVELS;
	if (!err) {
		*given = rta_levels(s, &test);
		for (i = 0; i < s->real_time; i++)
			levels[s->tasks[i].index] = *given < 0 ? 0 : rta_level_of(&s->tasks[i]);
	}
	rta_free(s);
	return err;
}

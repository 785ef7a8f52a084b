// SPDX-License-Identifier: GPL-2.0
/* The order in which tasks are analysed, and what follows from one without a bound (analysis/rta/analyse.py). */
#include <stdlib.h>
#include <string.h>

#include "rta_internal.h"

#define TRIED 2		/* tasks that are tried before all others */

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

/*
 * C + G: no formula gives a task less, and the end of its last segment comes no later than its last CPU segment begins.  At most
 * D, so that jitters stay in the range that rta_small() looks at.
 */
static void respond_soonest(const struct rta *s, struct rta_task *t)
{
	int64_t demand = t->cpu_time + t->misc + t->pure, last = s->batch->piece_cpu[s->batch->piece[t->at + 1] - 1];

	t->response = demand < t->deadline ? demand : t->deadline;
	t->end = demand - last < t->deadline ? demand - last : t->deadline;
}

/* Where bounds look at single segments, and no tasks are equals, responses of tasks that use the GPU count only. */
static void respond(struct rta *s, const struct rta_test *test, bool soonest)
{
	bool users = test->formula->segmented && !s->ties;
	u32 i, count = users ? s->user_count : s->real_time;

	s->soonest = soonest;
	rta_forget_windows(s);
	for (i = 0; i < count; i++) {
		struct rta_task *t = &s->tasks[users ? s->users[i] : i];

		if (soonest)
			respond_soonest(s, t);
		else
			t->response = t->end = t->deadline;
	}
}

/*
 * Whether one of the least urgent tasks that use the GPU fails even if all other tasks respond as soon as they can.
 * Every charge grows with the responses of other tasks, so that it then fails in any case.  These tasks wait for more
 * tasks than all others, and most often decide.
 */
static bool hopeless(struct rta *s, const struct rta_test *test)
{
	u32 i, tried = 0;
	bool passes = true;

	respond(s, test, true);
	if (test->formula->segmented && s->plain && !s->ties)
		passes = test->formula->segmented->least(s);
	for (i = s->real_time; passes && i && tried < TRIED; i--) {
		const struct rta_task *t = &s->tasks[s->order[i - 1]];

		if (!t->eta || t->thread)
			continue;
		passes = rta_passes(s, test, t);
		tried++;
	}
	s->soonest = false;
	if (passes)
		respond(s, test, false);
	return !passes;
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

	if (test->formula->charges == RTA_INDEPENDENT && !s->ties && !s->integers)
		return rta_fixed_schedulable(s);
	if (!s->assume && !s->integers && hopeless(s, test))
		return false;
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
		if (test->formula->segmented && !t->eta && !s->ties && !s->integers) {
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
	const struct rta_segmented *segmented = test->formula->segmented;
	enum rta_quick_answer quick = RTA_QUICK_UNKNOWN;

	if (segmented && segmented->quick && s->small && !s->integers)
		quick = segmented->quick(s, b, index);
	if (quick == RTA_QUICK_YES || (quick == RTA_QUICK_NO && !(flags & GPURT_RTA_ASSIGN)))
		return quick == RTA_QUICK_YES ? GPURT_RTA_YES : GPURT_RTA_NO;
	s->assume = test->formula->charges == RTA_INDEPENDENT;	/* then no formula needs the bounds themselves */
	if (!rta_load(s, b, test, index) || (s->threads && (flags & GPURT_RTA_ASSIGN || s->assume)))
		return GPURT_RTA_REFUSED;
	if (!s->real_time || (quick != RTA_QUICK_NO && !rta_disordered(s, test) && rta_schedulable(s, test)))
		return GPURT_RTA_YES;
	return flags & GPURT_RTA_ASSIGN ? rta_assign(s, test) : GPURT_RTA_NO;
}

/* Memory for the largest of the tasksets; NULL and an error in @err if there is none or a CPU is out of range. */
static struct rta *room_for(const struct gpurt_batch *b, const struct rta_test *test, u32 from, u32 to, int *err)
{
	u32 i, tasks = 0, cpus = rta_cpus(b, b->first[from], b->first[to]);
	struct rta *s;

	*err = -GPURT_RTA_EINVAL;
	for (i = from; i < to; i++)
		if (b->first[i + 1] - b->first[i] > tasks)
			tasks = b->first[i + 1] - b->first[i];
	if (!cpus)
		return NULL;
	*err = -GPURT_RTA_ENOMEM;
	s = rta_new(tasks, cpus);
	if (s)
		s->small = rta_small(b, test, b->first[from], b->first[to], tasks);
	return s;
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
	s = room_for(b, &test, from, to, &err);
	if (!s)
		return err;
	s->integers = flags & GPURT_RTA_INTEGERS;
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
	s = room_for(b, &test, index, index + 1, &err);
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

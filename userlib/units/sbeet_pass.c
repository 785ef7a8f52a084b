// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "sbeet_pass.h"

static u64 key(const struct gpurt_sbeet_tables *t, const struct gpurt_sbeet_state *s, u32 order, u32 task)
{
	switch (order) {
	case GPURT_SBEET_EDF:
		return s->ready[task].deadline;
	case GPURT_SBEET_RM:
		return t->task[task].period;
	default:
		return s->ready[task].release;
	}
}

static bool goes_first(const struct gpurt_sbeet_tables *t, const struct gpurt_sbeet_state *s, u32 order, u32 a, u32 b)
{
	u64 first = key(t, s, order, a), second = key(t, s, order, b);

	if (first != second)
		return first < second;
	return s->ready[a].release != s->ready[b].release ? s->ready[a].release < s->ready[b].release : a < b;
}

/* The tasks with a pending job, in order. */
static u32 sort_ready(const struct gpurt_sbeet_tables *t, const struct gpurt_sbeet_state *s,
		      const struct gpurt_sbeet_pass *p)
{
	u32 i, j, count = 0;

	for (i = 0; i < t->tasks; i++) {
		if (s->ready[i].release == U64_MAX)
			continue;
		for (j = count++; j && goes_first(t, s, p->order, i, p->room[j - 1]); j--)
			p->room[j] = p->room[j - 1];
		p->room[j] = i;
	}
	return count;
}

static bool all_full(const struct gpurt_sbeet_tables *t, const struct gpurt_sbeet_state *s)
{
	u32 i;

	for (i = 0; i < t->gpus; i++)
		if (!gpurt_sgpu_full(&s->gpu[i]))
			return false;
	return true;
}

/* Dispatches all jobs that may be dispatched now.  The queue has each task's oldest pending job. */
void gpurt_sbeet_pass(const struct gpurt_sbeet_tables *t, struct gpurt_sbeet_state *s,
		      const struct gpurt_sbeet_pass *p, u64 now)
{
	u32 count = sort_ready(t, s, p), i;

	for (i = 0; i < count && !all_full(t, s); i++) {
		u32 task = p->room[i];
		struct gpurt_sbeet_future job = s->ready[task];
		struct gpurt_sbeet_decision d;

		if (p->finish[task] != U64_MAX)
			continue;
		d = gpurt_sbeet_decide(t, s, &job, now);
		if (d.units)
			p->start(p->host, task, d);
	}
}

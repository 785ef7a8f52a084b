// SPDX-License-Identifier: GPL-2.0
/* All bounds of one taskset.  A bound that rests on a task without one is withdrawn (analysis/rta/analyse.py). */
#include <stdlib.h>
#include <string.h>

#include "rta_internal.h"

/* The state of every task while bounds are found.  A set of tasks has one bit for each index. */
struct bounds {
	struct rta *s;
	const u32 *rank;
	u8 *state;
	int64_t *wcrt, *end;
	u32 *culprit;
	u32 words;
	uint64_t *failed;
	uint64_t *rows;		/* for each task, `words` words: the set of tasks that its bound rests on */
	u32 *lost;		/* by CPU: index + 1 of a task without a bound that preempts all less urgent ones */
};

/* The task of lowest rank among those in @needs that have no bound; UINT32_MAX if all have one. */
static u32 culprit(const struct bounds *b, const uint64_t *needs)
{
	u32 w, best = UINT32_MAX, index;
	uint64_t both;

	for (w = 0; w < b->words; w++) {
		for (both = needs[w] & b->failed[w]; both; both &= both - 1) {
			index = 64 * w + (u32)__builtin_ctzll(both);
			if (best == UINT32_MAX || b->rank[index] < b->rank[best])
				best = index;
		}
	}
	return best;
}

static void fail(struct bounds *b, u32 index, u8 state, u32 cause)
{
	b->state[index] = state;
	b->culprit[index] = cause;
	b->failed[index / 64] |= 1ULL << index % 64;
}

/* Whether the thread of @t serves the task of that index, too. */
static bool served_by(const struct rta *s, const struct rta_task *t, u32 index)
{
	return t->thread && s->batch->thread[t->at - t->index + index] == t->thread;
}

/* Finds the bound of one task.  All more urgent tasks have been done. */
static void one(struct bounds *b, const struct rta_test *test, struct rta_task *t)
{
	struct rta *s = b->s;
	u32 cause;

	/* A thread's order says what a late task costs the others that it serves. */
	if (b->lost[t->cpu] && !served_by(s, t, b->lost[t->cpu] - 1)) {
		fail(b, t->index, GPURT_RTA_DEPENDS, b->lost[t->cpu] - 1);
		return;
	}
	s->needs = b->rows + (size_t)b->words * t->index;
	if (t->thread)
		rta_serve(s, test, t);
	else
		rta_found(s, test, t, rta_solve(s, test, t));	/* what the bound rests on is the same by either formula */
	b->wcrt[t->index] = t->found;
	b->end[t->index] = t->found_end;
	cause = culprit(b, s->needs);
	s->needs = NULL;
	if (cause != UINT32_MAX) {
		t->found = b->wcrt[t->index] = b->end[t->index] = -1;
		fail(b, t->index, GPURT_RTA_DEPENDS, cause);
	} else if (t->found < 0) {
		fail(b, t->index, GPURT_RTA_MISSED, 0);
	} else {
		b->state[t->index] = GPURT_RTA_BOUND;
		return;
	}
	if ((t->cpu_time || t->misc) && !b->lost[t->cpu])
		b->lost[t->cpu] = t->index + 1;
}

/* Lets lower priorities use the bounds of entries @from to @to - 1. */
static void settle(struct rta *s, u32 from, u32 to)
{
	for (; from < to && !s->assume; from++)
		if (s->tasks[s->order[from]].found >= 0)
			rta_settle(&s->tasks[s->order[from]]);
}

/* A bound that assumed the deadline of a task without a bound becomes a failure, until nothing changes. */
static void withdraw(struct bounds *b)
{
	struct rta *s = b->s;
	bool changed = true;
	u32 i, index, cause;

	while (changed) {
		changed = false;
		for (i = 0; i < s->real_time; i++) {
			index = s->tasks[s->order[i]].index;
			if (b->state[index] != GPURT_RTA_BOUND)
				continue;
			cause = culprit(b, b->rows + (size_t)b->words * index);
			if (cause == UINT32_MAX)
				continue;
			fail(b, index, GPURT_RTA_DEPENDS, cause);
			changed = true;
		}
	}
}

static void all(struct bounds *b, const struct rta_test *test)
{
	struct rta *s = b->s;
	u32 i, settled = 0;

	memset(b->state, GPURT_RTA_BEST_EFFORT, s->count);
	for (i = 0; i < s->real_time; i++) {
		struct rta_task *t = &s->tasks[s->order[i]];

		t->found = -1;
		b->wcrt[t->index] = b->end[t->index] = -1;
		if (i && t->priority != s->tasks[s->order[i - 1]].priority) {
			settle(s, settled, i);
			settled = i;
		}
		one(b, test, t);
	}
	withdraw(b);
}

int gpurt_rta_bounds(const struct gpurt_batch *batch, const struct gpurt_rta_test *facts, u32 assume, u32 index,
		     const u32 *rank, u8 *state, int64_t *wcrt, int64_t *end, u32 *culprits)
{
	struct rta_test test;
	struct bounds b = { .rank = rank, .state = state, .wcrt = wcrt, .end = end, .culprit = culprits };
	u32 count, cpus;
	int err = -GPURT_RTA_ENOMEM;

	if (!rta_test_init(&test, facts) || index >= batch->count)
		return -GPURT_RTA_EINVAL;
	count = batch->first[index + 1] - batch->first[index];
	cpus = rta_cpus(batch, batch->first[index], batch->first[index + 1]);
	if (!cpus)
		return -GPURT_RTA_EINVAL;
	b.words = count / 64 + 1;
	b.s = rta_new(count, cpus);
	b.failed = calloc(b.words, sizeof(*b.failed));
	b.rows = calloc((size_t)b.words * (count + 2), sizeof(*b.rows));
	b.lost = calloc(cpus, sizeof(*b.lost));
	if (b.s && b.failed && b.rows && b.lost) {
		b.s->assume = assume;
		b.s->needs_of = b.rows;
		b.s->words = b.words;
		err = !rta_load(b.s, batch, &test, index) || (assume && b.s->threads);
		if (!err)
			all(&b, &test);
	}
	rta_free(b.s);
	free(b.failed);
	free(b.rows);
	free(b.lost);
	return err;
}

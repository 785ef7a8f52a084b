// SPDX-License-Identifier: GPL-2.0
/* The order in which tasks are analysed, and the effect of a task without a bound (analysis/rta/analyse.py). */
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
	u32 *lost;		/* by CPU: index + 1 of a task without a bound, which preempts all less urgent tasks */
};

/* Finds and stores a task's bound, and the end of its last GPU segment if bounds use it.  Returns the bound, or -1. */
static int64_t found(struct rta *s, const struct rta_formula *formula, struct rta_task *t)
{
	int64_t bound, end = -1;

	if (t->thread)
		return rta_serve(s, formula, t);
	bound = rta_solve(s, formula, t);
	if (formula->segmented && t->eta && bound >= 0 && !s->threads)
		end = rta_solve_end(s, formula, t);
	if (bound < 0)
		bound = rta_solve_instead(s, formula, t);	/* under both formulas the bound rests on the same tasks */
	t->found = bound;
	t->found_end = end < 0 ? bound : end;
	return bound;
}

/*
 * Makes the bounds of entries from @from on known to lower priorities, once all tasks of their priority are done:
 * equals use each other's deadlines.  Entry @i is next.  Returns the first entry whose bound is not used.
 */
static u32 settle(struct rta *s, u32 from, u32 i)
{
	if (!i || s->tasks[s->order[i]].priority == s->tasks[s->order[i - 1]].priority)
		return from;
	for (; from < i; from++) {
		struct rta_task *t = &s->tasks[s->order[from]];

		if (t->found >= 0) {
			t->response = t->found;
			t->end = t->found_end;
		}
	}
	return i;
}

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

/* Whether the thread of @t also serves the task of index @index. */
static bool served_by(const struct rta *s, const struct rta_task *t, u32 index)
{
	return t->thread && s->columns->thread[index] == t->thread;
}

/* Finds the bound of one task.  All more urgent tasks have been done. */
static void one(struct bounds *b, const struct rta_formula *formula, struct rta_task *t)
{
	struct rta *s = b->s;
	u32 cause;

	/* The order of their common thread says what a late task costs the thread's other tasks. */
	if (b->lost[t->cpu] && !served_by(s, t, b->lost[t->cpu] - 1)) {
		fail(b, t->index, GPURT_RTA_DEPENDS, b->lost[t->cpu] - 1);
		return;
	}
	s->needs = b->rows + (size_t)b->words * t->index;
	found(s, formula, t);
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

/* Turns bounds that assumed the deadline of a task without a bound into failures, until nothing changes. */
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

static void all(struct bounds *b, const struct rta_formula *formula)
{
	struct rta *s = b->s;
	u32 i, settled = 0;

	memset(b->state, GPURT_RTA_BEST_EFFORT, s->count);
	for (i = 0; i < s->real_time; i++) {
		struct rta_task *t = &s->tasks[s->order[i]];

		b->wcrt[t->index] = b->end[t->index] = -1;
		settled = settle(s, settled, i);
		one(b, formula, t);
	}
	withdraw(b);
}

int gpurt_rta_bounds(const struct gpurt_columns *columns, u32 place, const u32 *rank, u8 *state, int64_t *wcrt, int64_t *end,
		     u32 *culprits)
{
	const struct rta_formula *formula;
	struct bounds b = { .rank = rank, .state = state, .wcrt = wcrt, .end = end, .culprit = culprits };
	int answer = rta_load(columns, place, &formula, &b.s);

	if (answer) {
		rta_free(b.s);
		return answer;
	}
	b.words = columns->count / 64 + 1;
	b.failed = calloc(b.words, sizeof(*b.failed));
	b.rows = calloc((size_t)b.words * (columns->count + 2), sizeof(*b.rows));
	b.lost = calloc(b.s->cpus, sizeof(*b.lost));
	answer = GPURT_RTA_ENOMEM;
	if (b.failed && b.rows && b.lost) {
		b.s->needs_of = b.rows;
		b.s->words = b.words;
		all(&b, formula);
		answer = 0;
	}
	rta_free(b.s);
	free(b.failed);
	free(b.rows);
	free(b.lost);
	return answer;
}

int gpurt_rta_verdict(const struct gpurt_columns *columns, u32 place)
{
	const struct rta_formula *formula;
	struct rta *s;
	int answer = rta_load(columns, place, &formula, &s);
	u32 i, settled = 0;

	for (i = 0; answer == GPURT_RTA_YES && i < s->real_time; i++) {
		settled = settle(s, settled, i);
		if (found(s, formula, &s->tasks[s->order[i]]) < 0)
			answer = GPURT_RTA_NO;
	}
	rta_free(s);
	return answer;
}

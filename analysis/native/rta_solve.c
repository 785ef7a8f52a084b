// SPDX-License-Identifier: GPL-2.0
/* The search for the least solution of one recurrence (analysis/rta/recurrence.py). */
#include "rta_internal.h"

#define STEPS 1000000	/* after which the search gives up, as the readable one does */

/* One minus far more than the relative error of a sum of up to 2^15 rounded rows. */
#define SLACK (1.0 - 0x1p-36)

/*
 * Sums over rows: of e / T, of J e / T, and of e or caps.  What jobs add to caps is apart: its rate and the rest are upper
 * bounds, and `least` is a lower one of its rate.
 */
struct sums {
	double rate, carried, once;
	double other, least;
};

static inline void add_row(struct sums *sums, const struct rta *s, u32 r)
{
	double rate = (double)s->amount[r] * s->inverse[r];

	sums->rate += rate;
	sums->carried += rate * (double)s->jitter[r];
	sums->once += (double)s->amount[r];
}

static struct sums sum_up(const struct rta *s)
{
	struct sums sums = { 0 };
	u32 r;

	for (r = 0; r < s->rows; r++)
		add_row(&sums, s, r);
	for (r = s->room - s->capped; r < s->room; r++) {
		double rate;

		sums.once += (double)s->base[r];
		if (!s->other[r])
			continue;
		rate = (double)s->other[r] * s->inverse[r];
		sums.other += rate;
		sums.once += rate * (double)s->other_jitter[r] + (double)s->other[r];
		sums.least += s->most[r] == INT64_MAX ? rate : 0;
	}
	return sums;
}

/*
 * A lower bound of the solution: (constant + sum of J e / T) / (1 - sum of e / T), rounded down by more than the errors
 * of rounding.  Returns -1 if there is no solution up to @limit.  From any lower bound the search ends at the same
 * value.
 */
static int64_t below(const struct sums *sums, int64_t constant, int64_t limit)
{
	double rate = (sums->rate + sums->least) * SLACK, x;

	if (rate >= 1)
		return -1;
	x = ((double)constant + sums->carried) * SLACK / (1 - rate) * SLACK;
	if (x >= (double)limit * (1 + 0x1p-36) + 2)
		return -1;
	return rta_max(constant, (int64_t)x < limit ? (int64_t)x : limit);
}

/* Whether ceil(y) < y + 1 alone proves a solution up to @limit.  The sum is rounded up by more than the errors. */
static bool far_below(const struct sums *sums, int64_t constant, int64_t limit)
{
	double rate = (sums->rate + sums->other) / SLACK;

	return constant && (double)constant + sums->carried + sums->once < (double)limit * (1 - rate) * SLACK;
}

/* What caps a row, where @jobs of it count. */
static inline int64_t cap_at(const struct rta *s, u32 r, int64_t jobs)
{
	int64_t others = jobs * s->other[r];

	return s->base[r] + (others < s->most[r] ? others : s->most[r]);
}

static inline int64_t capped_at(const struct rta *s, int64_t window)
{
	int64_t total = 0, part, cap;
	u32 r;

	for (r = s->room - s->capped; r < s->room; r++) {
		part = rta_ceil(window + s->jitter[r], s->period[r], s->inverse[r]) * s->amount[r];
		cap = s->base[r];
		if (s->other[r] && part > cap)
			cap = cap_at(s, r, rta_ceil(window + s->other_jitter[r], s->period[r], s->inverse[r]));
		total += part < cap ? part : cap;
	}
	return total;
}

/* The sum of all rows at a window.  Sets `last` of each row. */
static int64_t open_at(struct rta *s, int64_t window)
{
	int64_t total = 0, k;
	u32 r;

	for (r = 0; r < s->rows; r++) {
		k = rta_ceil(window + s->jitter[r], s->period[r], s->inverse[r]);
		total += k * s->amount[r];
		s->last[r] = k * s->period[r] - s->jitter[r];
	}
	return total;
}

/* By how much the sum of the rows grows from the window before to this one. */
static int64_t grow_to(struct rta *s, int64_t window)
{
	int64_t more = 0, k;
	u32 r;

	for (r = 0; r < s->rows; r++) {
		if (window <= s->last[r])
			continue;
		k = 1;
		if (window - s->last[r] > s->period[r])
			k = rta_ceil(window - s->last[r], s->period[r], s->inverse[r]);
		s->last[r] += k * s->period[r];
		more += k * s->amount[r];
	}
	return more;
}

static int64_t search(struct rta *s, int64_t constant, int64_t start, int64_t limit)
{
	int64_t closed = constant ? 0 : 1, x = start;
	int64_t open = constant + open_at(s, x + closed), total = open + capped_at(s, x + closed);
	u32 step;

	for (step = 0; step < STEPS; step++) {
		if (total == x)
			return x;
		x = total;
		if (x > limit)
			return -1;
		open += grow_to(s, x + closed);
		total = open + capped_at(s, x + closed);
	}
	return -1;
}

/* Solves the recurrence as it is written: from its constant part, with divisions. */
static int64_t written_out(const struct rta *s, int64_t constant, int64_t limit)
{
	int64_t closed = constant ? 0 : 1, x = constant, total, part, cap;
	u32 step, r;

	for (step = 0; step < STEPS && x <= limit; step++) {
		total = constant;
		for (r = 0; r < s->rows; r++)
			total += (x + closed + s->jitter[r] + s->period[r] - 1) / s->period[r] * s->amount[r];
		for (r = s->room - s->capped; r < s->room; r++) {
			part = (x + closed + s->jitter[r] + s->period[r] - 1) / s->period[r] * s->amount[r];
			cap = s->base[r];
			if (s->other[r])
				cap = cap_at(s, r, (x + closed + s->other_jitter[r] + s->period[r] - 1) / s->period[r]);
			total += part < cap ? part : cap;
		}
		if (total == x)
			return x;
		x = total;
	}
	return -1;
}

static int64_t limit_of(const struct rta_task *t)
{
	return t->deadline < t->period ? t->deadline : t->period;
}

static int64_t collect(struct rta *s, rta_demands *demands, const struct rta_task *t)
{
	s->rows = 0;
	s->capped = 0;
	return demands(s, t);
}

static int64_t solution(struct rta *s, rta_demands *demands, const struct rta_task *t)
{
	int64_t limit = limit_of(t), constant = collect(s, demands, t), start;
	struct sums sums;

	if (constant > limit)
		return -1;
	if (s->integers)
		return written_out(s, constant, limit);
	sums = sum_up(s);
	start = below(&sums, constant, limit);
	return start < 0 ? -1 : search(s, constant, start, limit);
}

int64_t rta_solve(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	return solution(s, test->formula->demands, t);
}

int64_t rta_solve_end(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	return solution(s, test->formula->segmented->end, t);
}

/* Whether there is a solution, which takes less time than to find it: one at the limit or below suffices. */
static bool solvable(struct rta *s, const struct sums *sums, int64_t constant, int64_t limit)
{
	int64_t closed = constant ? 0 : 1, start;

	if (constant > limit)
		return false;
	if (s->integers)
		return written_out(s, constant, limit) >= 0;
	if (far_below(sums, constant, limit))
		return true;
	start = below(sums, constant, limit);
	if (start < 0)
		return false;
	if (constant + open_at(s, limit + closed) + capped_at(s, limit + closed) <= limit)
		return true;
	return search(s, constant, start, limit) >= 0;
}

bool rta_passes(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	int64_t constant = collect(s, test->formula->demands, t);
	struct sums sums = sum_up(s);

	return solvable(s, &sums, constant, limit_of(t));
}

/* The rows of a task are those of the task before it on its CPU and one more, so that they are not collected anew. */
bool rta_fixed_schedulable(struct rta *s)
{
	const struct rta_task *t;
	u32 c;

	for (c = 0; c < s->cpus; c++) {
		struct sums sums = { 0 };

		s->rows = 0;
		s->capped = 0;
		for (t = s->tasks + s->cpu[c].begin; t < s->tasks + s->cpu[c].end; t++) {
			int64_t demand = t->cpu_time + t->misc + t->pure;

			if (!solvable(s, &sums, demand, limit_of(t)))
				return false;
			rta_push(s, demand, t, 0);
			if (demand)
				add_row(&sums, s, s->rows - 1);
		}
	}
	return true;
}

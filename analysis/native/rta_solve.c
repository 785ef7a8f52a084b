// SPDX-License-Identifier: GPL-2.0
/* The search for the least solution of one recurrence (analysis/rta/recurrence.py). */
#include "rta_internal.h"

/*
 * Sums over rows: of e / T, of J e / T, and of e or caps.  Additions of parts to caps stand apart: their rate and the
 * rest are upper bounds, and `least` is a lower one of the rate of capped rows.
 */
struct sums {
	double rate, carried, once;
	double parts, least;
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
		const struct rta_part *part = s->part_of + s->part[r], *end = part + s->parts[r];
		double own = (double)s->amount[r] * s->inverse[r], least = 0;

		sums.once += (double)s->base[r];
		for (; part < end; part++) {
			double rate = (double)part->amount * part->inverse;

			if (part->most < INT64_MAX) {
				sums.once += (double)part->most;
				continue;
			}
			sums.parts += rate;
			sums.once += rate * (double)part->jitter + (double)part->amount;
			least += rate;
		}
		sums.least += least < own ? least : own;
	}
	return sums;
}

/* A lower bound of the solution, (constant + sum of J e / T) / (1 - sum of e / T); -1: there is none up to @limit. */
static int64_t below(const struct sums *sums, int64_t constant, int64_t limit)
{
	return rta_below(constant, sums->carried, sums->rate + sums->least, limit);
}

/* Whether ceil(y) < y + 1 alone proves a solution up to @limit.  The sum is rounded up by more than the errors. */
static bool far_below(const struct sums *sums, int64_t constant, int64_t limit)
{
	double rate = (sums->rate + sums->parts) / RTA_SLACK;

	return constant && (double)constant + sums->carried + sums->once < (double)limit * (1 - rate) * RTA_SLACK;
}

/*
 * The cap of a row at a window, or anything that is not less than @total.  Lowers @last to the largest window for which
 * that is still right.
 */
static int64_t cap_at(const struct rta *s, u32 r, int64_t window, int64_t total, int64_t *last)
{
	const struct rta_part *part = s->part_of + s->part[r], *end = part + s->parts[r];
	int64_t cap = s->base[r], jobs, until, next = INT64_MAX;

	for (; part < end && cap < total; part++) {
		jobs = rta_ceil(window + part->jitter, part->period, part->inverse);
		until = jobs * part->period - part->jitter;
		next = until < next ? until : next;
		jobs = (double)jobs * (double)part->amount < 0x1p62 ? jobs * part->amount : INT64_MAX;
		jobs = jobs < part->most ? jobs : part->most;
		cap = jobs < total - cap ? cap + jobs : total;
	}
	if (cap < total)		/* the row itself no longer matters */
		*last = next;
	return cap;
}

/* The total of a capped row at a window.  Sets `last` to the largest window for which it is still right. */
static int64_t capped_row(struct rta *s, u32 r, int64_t window)
{
	int64_t jobs = rta_ceil(window + s->jitter[r], s->period[r], s->inverse[r]), part = jobs * s->amount[r], cap;

	s->last[r] = jobs * s->period[r] - s->jitter[r];
	if (!s->parts[r]) {
		if (part < s->base[r])
			return part;
		s->last[r] = INT64_MAX;		/* the row itself no longer matters */
		return s->base[r];
	}
	cap = cap_at(s, r, window, part, &s->last[r]);
	return part < cap ? part : cap;
}

static int64_t capped_at(struct rta *s, int64_t window)
{
	int64_t total = 0;
	u32 r;

	for (r = s->room - s->capped; r < s->room; r++) {
		s->total[r] = capped_row(s, r, window);
		total += s->total[r];
	}
	return total;
}

/* By how much that grows from the window before to this one. */
static int64_t capped_grow(struct rta *s, int64_t window)
{
	int64_t more = 0, total;
	u32 r;

	for (r = s->room - s->capped; r < s->room; r++) {
		if (window <= s->last[r])
			continue;
		total = capped_row(s, r, window);
		more += total - s->total[r];
		s->total[r] = total;
	}
	return more;
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
	int64_t closed = constant ? 0 : 1, x = start, total;
	u32 step;

	if (x > limit)
		return -1;
	total = constant + open_at(s, x + closed) + capped_at(s, x + closed);
	for (step = 0; step < RTA_STEPS; step++) {
		if (total == x)
			return x;
		x = total;
		if (x > limit)
			return -1;
		total += grow_to(s, x + closed) + capped_grow(s, x + closed);
	}
	return -1;
}

__extension__ typedef __int128 wide;

/* Solves the recurrence as it is written: from its constant part, with divisions. */
static int64_t written_out(const struct rta *s, int64_t constant, int64_t limit)
{
	int64_t closed = constant ? 0 : 1, x = constant, total, part;
	u32 step, r, p;

	for (step = 0; step < RTA_STEPS && x <= limit; step++) {
		total = constant;
		for (r = 0; r < s->rows; r++)
			total += (x + closed + s->jitter[r] + s->period[r] - 1) / s->period[r] * s->amount[r];
		for (r = s->room - s->capped; r < s->room; r++) {
			part = (x + closed + s->jitter[r] + s->period[r] - 1) / s->period[r] * s->amount[r];
			wide cap = s->base[r];

			for (p = s->part[r]; p < s->part[r] + s->parts[r]; p++) {
				const struct rta_part *one = &s->part_of[p];
				wide jobs = (x + closed + one->jitter + one->period - 1) / one->period;

				jobs *= one->amount;
				cap += jobs < one->most ? jobs : one->most;
			}
			total += part < cap ? part : (int64_t)cap;
		}
		if (total == x)
			return x;
		x = total;
	}
	return -1;
}

static int64_t collect(struct rta *s, rta_demands *demands, const struct rta_task *t)
{
	s->rows = 0;
	s->capped = 0;
	s->used = 0;
	return demands(s, t);
}

/* @least: a lower bound of the solution, or 0. */
static int64_t solution(struct rta *s, int64_t constant, int64_t least, int64_t limit)
{
	struct sums sums;

	if (constant > limit)
		return -1;
	if (s->integers)
		return written_out(s, constant, limit);
	if (!least) {
		sums = sum_up(s);
		least = below(&sums, constant, limit);
	}
	return least < 0 ? -1 : search(s, constant, rta_max(constant, least), limit);
}

int64_t rta_solve(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	int64_t constant = collect(s, test->formula->demands, t);

	return solution(s, constant, t->least, rta_limit(t));
}

int64_t rta_solve_end(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	return solution(s, test->formula->segmented->end(s, t), t->least_end, rta_limit(t));
}

int64_t rta_solve_instead(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	int64_t constant = -1;

	if (test->formula->segmented && test->formula->segmented->instead)
		constant = collect(s, test->formula->segmented->instead, t);
	return constant < 0 ? -1 : solution(s, constant, t->least, rta_limit(t));
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

/* Whether a task without GPU passes for certain, which takes less time than to collect its rows. */
static bool easy(const struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	const struct rta_segmented *segmented = test->formula->segmented;

	return segmented && !t->eta && !s->ties && !s->threads && !s->integers && segmented->easy(s, t);
}

bool rta_passes(struct rta *s, const struct rta_test *test, const struct rta_task *t)
{
	struct sums sums;
	int64_t constant;

	if (easy(s, test, t))
		return true;
	constant = collect(s, test->formula->demands, t);
	if (t->least && !s->integers)
		return solution(s, constant, t->least, rta_limit(t)) >= 0 || rta_solve_instead(s, test, t) >= 0;
	sums = sum_up(s);
	return solvable(s, &sums, constant, rta_limit(t)) || rta_solve_instead(s, test, t) >= 0;
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
		s->used = 0;
		for (t = s->tasks + s->cpu[c].begin; t < s->tasks + s->cpu[c].end; t++) {
			int64_t demand = t->cpu_time + t->misc + t->pure;

			if (!solvable(s, &sums, demand, rta_limit(t)))
				return false;
			rta_push(s, demand, t, 0);
			if (demand)
				add_row(&sums, s, s->rows - 1);
		}
	}
	return true;
}

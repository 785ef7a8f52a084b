// SPDX-License-Identifier: GPL-2.0
/* The search for the least solution of one recurrence (analysis/rta/recurrence.py). */
#include "rta_internal.h"

__extension__ typedef __int128 wide;

/* The time of capped row @r in a window: that of its jobs, or that of its base and its parts if this is less. */
static int64_t capped(const struct rta *s, u32 r, int64_t window)
{
	const struct rta_part *part = s->part_of + s->part[r], *end = part + s->parts[r];
	int64_t jobs = rta_jobs_in(window + s->jitter[r], s->period[r]) * s->amount[r];
	wide cap = s->base[r];

	for (; part < end && cap < jobs; part++) {
		wide one = (wide)rta_jobs_in(window + part->jitter, part->period) * part->amount;

		cap += one < part->most ? one : part->most;
	}
	return jobs < cap ? jobs : (int64_t)cap;
}

static int64_t collect(struct rta *s, rta_demands *demands, const struct rta_task *t)
{
	s->rows = 0;
	s->capped = 0;
	s->used = 0;
	return demands(s, t);
}

static int64_t solution(struct rta *s, int64_t constant, int64_t limit)
{
	int64_t closed = constant ? 0 : 1, total, x;
	double rate = 0, carried = 0;
	u32 step, r;

	for (r = 0; r < s->rows; r++) {
		rate += (double)s->amount[r] / (double)s->period[r];
		carried += (double)s->amount[r] / (double)s->period[r] * (double)s->jitter[r];
	}
	x = rta_below(constant, carried, rate, limit);
	for (step = 0; step < RTA_STEPS && x >= 0 && x <= limit; step++) {
		total = constant;
		for (r = 0; r < s->rows; r++)
			total += rta_jobs_in(x + closed + s->jitter[r], s->period[r]) * s->amount[r];
		for (r = s->room - s->capped; r < s->room; r++)
			total += capped(s, r, x + closed);
		if (total == x)
			return x;
		x = total;
	}
	return -1;
}

int64_t rta_solve(struct rta *s, const struct rta_formula *formula, const struct rta_task *t)
{
	return solution(s, collect(s, formula->demands, t), rta_limit(t));
}

int64_t rta_solve_end(struct rta *s, const struct rta_formula *formula, const struct rta_task *t)
{
	return solution(s, formula->segmented->end(s, t), rta_limit(t));
}

int64_t rta_solve_instead(struct rta *s, const struct rta_formula *formula, const struct rta_task *t)
{
	int64_t constant = -1;

	if (formula->segmented && formula->segmented->instead)
		constant = collect(s, formula->segmented->instead, t);
	return constant < 0 ? -1 : solution(s, constant, rta_limit(t));
}

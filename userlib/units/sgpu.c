// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "sgpu.h"

static u64 later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* Initialises @g: no job holds units, and the time is 0. */
void gpurt_sgpu_init(struct gpurt_sgpu *g, u32 whole, u32 granularity, u32 slots)
{
	g->whole = whole;
	g->granularity = granularity;
	g->slots = slots < GPURT_SGPU_SLOTS ? slots : GPURT_SGPU_SLOTS;
	g->held = 0;
	g->count = 0;
	g->counted = 0;
	g->busy = 0;
}

/* Units that no job holds, as a multiple of the granularity. */
u32 gpurt_sgpu_free_units(const struct gpurt_sgpu *g)
{
	u32 units = g->whole - g->held;

	return units - units % g->granularity;
}

bool gpurt_sgpu_full(const struct gpurt_sgpu *g)
{
	return g->count >= g->slots || !gpurt_sgpu_free_units(g);
}

/*
 * Adds to @busy how long from @counted to @now at least one kernel executed.  Each round takes the earliest stretch
 * that is left; kernels are few.
 */
static void count(struct gpurt_sgpu *g, u64 now)
{
	while (g->counted < now) {
		u64 from = U64_MAX, to = 0;
		u32 i;

		for (i = 0; i < g->count; i++)
			if (g->jobs[i].end > g->counted && g->jobs[i].start < g->jobs[i].end)
				from = earlier(from, later(g->jobs[i].start, g->counted));
		if (from >= now)
			break;
		for (i = 0; i < g->count; i++)
			if (g->jobs[i].start <= from && g->jobs[i].end > from)
				to = later(to, g->jobs[i].end);
		to = earlier(to, now);
		g->busy += to - from;
		g->counted = to;
	}
	g->counted = later(g->counted, now);
}

/*
 * A copy of @job holds @job->units from @now until @job->free.  Returns NULL and does nothing unless these units and a
 * slot are free.  The first unit is at the bottom unless a job is there.
 */
struct gpurt_sgpu_job *gpurt_sgpu_place(struct gpurt_sgpu *g, const struct gpurt_sgpu_job *job, u64 now)
{
	struct gpurt_sgpu_job *placed = &g->jobs[g->count];
	bool bottom = true;
	u32 i;

	if (g->count >= g->slots || job->units > g->whole - g->held)
		return NULL;
	count(g, now);
	for (i = 0; i < g->count; i++)
		bottom = bottom && g->jobs[i].first;
	*placed = *job;
	placed->first = bottom ? 0 : g->whole - job->units;
	g->held += job->units;
	g->count++;
	return placed;
}

/* When the next job frees its units; U64_MAX: no job holds units. */
u64 gpurt_sgpu_next(const struct gpurt_sgpu *g)
{
	u64 next = U64_MAX;
	u32 i;

	for (i = 0; i < g->count; i++)
		next = earlier(next, g->jobs[i].free);
	return next;
}

/* Frees the units of jobs that have ended by @now, and returns the number of these jobs. */
u32 gpurt_sgpu_advance(struct gpurt_sgpu *g, u64 now)
{
	u32 i, kept = 0, freed;

	count(g, now);
	for (i = 0; i < g->count; i++) {
		if (g->jobs[i].free <= now)
			g->held -= g->jobs[i].units;
		else
			g->jobs[kept++] = g->jobs[i];
	}
	freed = g->count - kept;
	g->count = kept;
	return freed;
}

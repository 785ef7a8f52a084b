// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Decisions, which call algorithms 2 and 3 (sbeet_allocate.c). */
#include "sbeet.h"
#include "sbeet_allocate.h"

/* The job takes all free units up to m^opt. */
static struct gpurt_sbeet_decision as_many(const struct work *w, u32 gpu)
{
	u32 best = kernel_of(w->t, w->job->task, gpu)->best, left = gpurt_sgpu_free_units(&w->s->gpu[gpu]);

	return (struct gpurt_sbeet_decision){ gpu, best < left ? best : left };
}

static const struct gpurt_sbeet_decision waits;

static struct gpurt_sbeet_decision whole(const struct work *w)
{
	u32 home = w->t->task[w->job->task].assigned;
	const struct gpurt_sgpu *g = &w->s->gpu[home];

	return g->count ? waits : (struct gpurt_sbeet_decision){ home, g->whole };
}

/* STGM: a job starts when all units of its task's set are free. */
static struct gpurt_sbeet_decision static_set(const struct work *w)
{
	const struct gpurt_sgpu *g = &w->s->gpu[0];
	u32 i;

	for (i = 0; i < g->count; i++)
		if (w->t->conflict[w->job->task * w->t->tasks + g->jobs[i].task])
			return waits;
	return (struct gpurt_sbeet_decision){ 0, w->t->own[w->job->task] };
}

static struct gpurt_sbeet_decision allocated(struct work *w)
{
	u32 home = w->t->task[w->job->task].assigned;
	struct choice c = sbeet_on_gpu(w, home);

	return (struct gpurt_sbeet_decision){ home, c.units };
}

static struct gpurt_sbeet_decision exact(const struct work *w)
{
	u32 home = w->t->task[w->job->task].assigned, best = kernel_of(w->t, w->job->task, home)->best;
	const struct gpurt_sgpu *g = &w->s->gpu[home];

	if (gpurt_sgpu_full(g) || gpurt_sgpu_free_units(g) < best)
		return waits;
	return (struct gpurt_sbeet_decision){ home, best };
}

static struct gpurt_sbeet_decision by_size(const struct work *w)
{
	u32 i;

	for (i = 0; i < w->t->gpus; i++) {
		u32 gpu = w->t->by_size[i];

		if (kernel_of(w->t, w->job->task, gpu)->best && !gpurt_sgpu_full(&w->s->gpu[gpu]))
			return as_many(w, gpu);
	}
	return waits;
}

/* Load-Dist: the first idle GPU, else the GPU with most free units. */
static struct gpurt_sbeet_decision most_free(const struct work *w)
{
	u32 i, chosen = 0, most = 0;

	for (i = 0; i < w->t->gpus; i++) {
		const struct gpurt_sgpu *g = &w->s->gpu[i];

		if (!kernel_of(w->t, w->job->task, i)->best || gpurt_sgpu_full(g))
			continue;
		if (!g->count)
			return as_many(w, i);
		if (gpurt_sgpu_free_units(g) > most) {
			most = gpurt_sgpu_free_units(g);
			chosen = i;
		}
	}
	return most ? as_many(w, chosen) : waits;
}

/* The choice of least energy on another GPU than @home, ties in order of preference; @idle_too: also on idle ones. */
static struct choice elsewhere(struct work *w, u32 home, bool idle_too, u32 *where)
{
	const u32 *preferred = w->t->preferred + w->job->task * w->t->gpus;
	struct choice least = { 0 };
	u32 i;

	for (i = 0; i < w->t->gpus; i++) {
		u32 gpu = preferred[i];
		struct choice c;

		if (gpu == home || !kernel_of(w->t, w->job->task, gpu)->best || !(idle_too || w->s->gpu[gpu].count))
			continue;
		c = sbeet_on_gpu(w, gpu);
		if (c.units && (!least.units || c.energy < least.energy)) {
			least = c;
			*where = gpu;
		}
	}
	return least;
}

/* Algorithm 5, lines 1 to 19: the assigned GPU is idle. */
static struct gpurt_sbeet_decision home_idle(struct work *w, u32 home)
{
	struct choice stay = sbeet_exactly(w, home, kernel_of(w->t, w->job->task, home)->best), away;
	u32 where = home;

	away = elsewhere(w, home, false, &where);
	if (!stay.ok && !away.units)
		return (struct gpurt_sbeet_decision){ home, w->s->gpu[home].whole };
	if (away.units && (!stay.ok || away.energy < stay.energy))
		return (struct gpurt_sbeet_decision){ where, away.units };
	return (struct gpurt_sbeet_decision){ home, stay.units };
}

/* Algorithm 5, lines 22 to 38: the assigned GPU is full. */
static struct gpurt_sbeet_decision home_full(struct work *w, u32 home)
{
	u32 where = home;
	struct choice later = sbeet_later(w, home), away;

	if (later.ok && !w->t->weigh)
		return waits;
	away = elsewhere(w, home, true, &where);
	if (!away.units || (later.ok && away.energy >= later.energy))
		return waits;
	return (struct gpurt_sbeet_decision){ where, away.units };
}

static struct gpurt_sbeet_decision migrate(struct work *w)
{
	u32 home = w->t->task[w->job->task].assigned;
	const struct gpurt_sgpu *g = &w->s->gpu[home];

	if (!g->count)
		return home_idle(w, home);
	return gpurt_sgpu_full(g) ? home_full(w, home) : allocated(w);
}

/* Whether @job, whose task has no earlier unfinished job, is dispatched at @now, and where; 0 units: it waits. */
struct gpurt_sbeet_decision gpurt_sbeet_decide(const struct gpurt_sbeet_tables *t, struct gpurt_sbeet_state *s,
					       const struct gpurt_sbeet_future *job, u64 now)
{
	struct work w = { .t = t, .s = s, .job = job, .now = now };
	struct gpurt_sbeet_decision d = waits;

	switch (t->rule) {
	case GPURT_SBEET_WHOLE:
		d = whole(&w);
		break;
	case GPURT_SBEET_STATIC:
		d = static_set(&w);
		break;
	case GPURT_SBEET_ALLOCATE:
		d = allocated(&w);
		break;
	case GPURT_SBEET_MIGRATE:
		d = migrate(&w);
		break;
	case GPURT_SBEET_EXACT:
		d = exact(&w);
		break;
	case GPURT_SBEET_BIG:
	case GPURT_SBEET_SMALL:
		d = by_size(&w);
		break;
	case GPURT_SBEET_FREE:
		d = most_free(&w);
		break;
	}
	s->overflows += w.overflow;
	return d;
}

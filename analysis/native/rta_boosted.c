// SPDX-License-Identifier: GPL-2.0
/* Policy `boosted` where tasks spin, or some do: analysis/rta/boosted.py, term by term. */
#include "rta_internal.h"

/* How tasks wait for the GPU. */
enum waiting {
	BUSY,
	FENCED,		/* all spin, and no task is raised while it spins for its own G^e */
	MIXED,		/* each in its own mode */
};

static inline bool spins(enum waiting waiting, const struct rta_task *t)
{
	return t->eta && (waiting == BUSY || waiting == FENCED || (waiting == MIXED && t->busy));
}

/* Whether a task is raised during its G^e, too. */
static inline bool holds(enum waiting waiting, const struct rta_task *t)
{
	return waiting != FENCED && spins(waiting, t);
}

/* What is the same for all charges of a task. */
struct charges {
	enum waiting waiting;
	u32 level;		/* the lowest GPU priority for which the task waits; UINT32_MAX: it waits for none */
	int64_t gaps;		/* in which a lower task can execute raised */
	int64_t update;		/* of a task that sleeps during G^e, on the CPU */
	int64_t in_flight;	/* an update that a begin waits for */
	bool switching;		/* a lower task spins raised while the GPU switches back to it */
};

static inline struct charges survey(const struct rta *s, const struct rta_task *t, enum waiting waiting)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	struct charges c = {
		.waiting = waiting, .level = t->eta ? t->gpu_priority : UINT32_MAX,
		.gaps = t->eta && !spins(waiting, t) ? (int64_t)t->eta + 1 : 1,
	};
	const struct rta_task *h;
	u32 u;

	if (s->user_count > cpu->end_user - cpu->first_user)
		c.in_flight = s->epsilon;
	rta_for_each_hpp(s, t, h)
		if (spins(waiting, h) && h->gpu_priority < c.level)
			c.level = h->gpu_priority;
	for (u = cpu->end_user; u > cpu->first_user; u--) {
		h = &s->tasks[s->users[u - 1]];
		if (h->priority >= t->priority)
			break;
		c.switching |= holds(waiting, h);
	}
	c.update = c.switching ? s->epsilon : s->alpha;
	return c;
}

/* What a task below takes: one segment in each gap. */
static inline int64_t from_lower(struct rta *s, const struct rta_task *t, const struct rta_task *j,
				 const struct charges *c)
{
	int64_t amount, cap, update = spins(c->waiting, j) ? s->epsilon : c->update;

	if (t->eta && j->gpu_priority >= t->gpu_priority) {
		rta_push(s, j->gpu_busy, j, rta_jitter(j, j->gpu_busy));
		return 0;
	}
	amount = j->misc + 2 * update * j->eta;
	cap = c->gaps * (s->batch->longest_misc[j->at] + 2 * update);
	if (holds(c->waiting, j)) {
		amount = j->gpu_busy;
		cap = c->gaps * (s->batch->longest[j->at] + 2 * update);
	}
	return rta_push_capped(s, amount, cap, j, rta_jitter(j, amount));
}

/* What a task above takes, or an equal.  One that is above and never sleeps has no jitter. */
static inline void from_higher(struct rta *s, const struct rta_task *t, const struct rta_task *h,
			       const struct charges *c)
{
	bool spinning = spins(c->waiting, h), sleeping = h->eta && !spinning;
	int64_t amount = h->cpu_time, off_gpu = h->misc + 2 * c->update * h->eta;

	/* Without GPU segments all of this is 0: a branch on that would often be predicted wrongly. */
	amount += spinning || h->gpu_priority >= c->level ? h->gpu_busy : off_gpu;
	amount += spinning ? c->in_flight * h->eta : 0;
	rta_push(s, amount, h, sleeping || h->priority == t->priority ? rta_jitter(h, amount) : 0);
}

/*
 * What the owners at places @from to @to - 1 of `users` take, which are on other CPUs, and the switches back after tasks
 * that the task does not wait for.
 */
static inline void remote(struct rta *s, const struct charges *c, u32 from, u32 to)
{
	for (; from < to; from++) {
		const struct rta_task *w = &s->tasks[s->users[from]];
		int64_t amount = c->switching ? w->eta * s->longest_switch : 0;

		amount = w->gpu_priority >= c->level ? w->gpu_busy : amount;
		rta_push(s, amount, w, rta_jitter(w, amount));
	}
}

/* Compiled for each way to wait: what does not depend on the task is then decided once. */
static inline __attribute__((always_inline)) int64_t boosted(struct rta *s, const struct rta_task *t,
							     enum waiting waiting)
{
	const struct charges c = survey(s, t, waiting);
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	int64_t constant = t->cpu_time + t->gpu_busy + c.in_flight * t->eta;
	const struct rta_task *h;
	bool before = false;	/* tasks above that never sleep can be pending since before the job's release */
	u32 u;

	for (u = cpu->end_user; u > cpu->first_user; u--) {
		h = &s->tasks[s->users[u - 1]];
		if (h->priority >= t->priority)
			break;
		constant += from_lower(s, t, h, &c);
	}
	rta_for_each_hpp(s, t, h) {
		from_higher(s, t, h, &c);
		before |= h->priority > t->priority && (!h->eta || spins(waiting, h));
	}
	if (before && s->batch->ends[t->at])
		constant += 2 * s->epsilon + (holds(waiting, t) ? s->batch->last : s->batch->last_misc)[t->at];
	if (c.level != UINT32_MAX || c.switching) {
		remote(s, &c, 0, cpu->first_user);
		remote(s, &c, cpu->end_user, s->user_count);
	}
	return constant;
}

int64_t rta_boosted_busy(struct rta *s, const struct rta_task *t)
{
	return boosted(s, t, BUSY);
}

int64_t rta_boosted_fence(struct rta *s, const struct rta_task *t)
{
	return boosted(s, t, FENCED);
}

int64_t rta_boosted_mixed(struct rta *s, const struct rta_task *t)
{
	return boosted(s, t, MIXED);
}

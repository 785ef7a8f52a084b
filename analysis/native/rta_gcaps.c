// SPDX-License-Identifier: GPL-2.0
/* GCAPS: analysis/rta/gcaps.py, term by term. */
#include "rta_internal.h"

static int64_t own(const struct rta *s, const struct rta_task *t)
{
	return t->cpu_time + t->misc + t->pure + (3 * (int64_t)t->eta + 1) * s->epsilon;
}

/* The lowest user of a CPU whose GPU priority is at least @level; NULL if there is none. */
static const struct rta_task *lowest_owner(const struct rta *s, const struct rta_cpu *cpu, u32 level)
{
	const struct rta_task *lowest = NULL;
	u32 u;

	for (u = cpu->first_user; u < cpu->end_user; u++) {
		const struct rta_task *h = &s->tasks[s->users[u]];

		if (h->gpu_priority >= level)
			lowest = h;
		else if (!s->ties)
			break;	/* tasks below have lower GPU priorities */
	}
	return lowest;
}

/* Whether another thread's task of its CPU has the same priority. */
static bool has_equal(const struct rta *s, const struct rta_task *t)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	const struct rta_task *h;

	for (h = s->tasks + cpu->begin; s->ties && h < s->tasks + cpu->end; h++)
		if (h->priority == t->priority && h != t && !rta_sibling(h, t))
			return true;
	return false;
}

/* Adds owners of a CPU and the tasks that preempt them: all entries down to the lowest owner's priority. */
static void owners_on(struct rta *s, const struct rta_cpu *cpu, u32 level)
{
	const struct rta_task *lowest = lowest_owner(s, cpu, level), *h;
	bool alone;

	if (!lowest)
		return;
	alone = !has_equal(s, lowest);
	for (h = s->tasks + cpu->begin; h < s->tasks + cpu->end && h->priority >= lowest->priority; h++) {
		int64_t amount = h->gpu_busy + (alone && h->priority == lowest->priority ? 0 : h->cpu_time);

		rta_push(s, amount, h, rta_jitter(h, amount));
	}
}

/* Adds the owners of at least GPU priority @level on CPUs other than @own_cpu. */
static void ownership(struct rta *s, u32 own_cpu, u32 level)
{
	u32 c;

	for (c = 0; c < s->cpus; c++)
		if (c != own_cpu)
			owners_on(s, &s->cpu[c], level);
}

int64_t rta_gcaps_suspend(struct rta *s, const struct rta_task *t)
{
	const struct rta_task *h;

	rta_for_each_hpp(s, t, h) {
		if (!h->eta) {
			/*
			 * A task above whose thread never sleeps has no jitter.  If @t has a [[thread]], its equals
			 * count with jitter.
			 */
			bool late = h->sleeps || (t->thread && h->priority == t->priority);

			rta_push(s, h->cpu_time, h, late ? rta_jitter(h, h->cpu_time) : 0);
			continue;
		}
		rta_push(s, h->cpu_time + h->misc + 2 * s->epsilon * h->eta, h, rta_jitter(h, h->cpu_time + h->misc));
		if (t->eta)
			rta_push(s, h->pure, h, rta_jitter(h, h->pure));
	}
	if (t->eta)
		ownership(s, t->cpu, t->gpu_priority);
	return own(s, t);
}

/* Whether a real-time task of another CPU uses the GPU. */
static bool contended(const struct rta *s, u32 cpu)
{
	return s->user_count > s->cpu[cpu].end_user - s->cpu[cpu].first_user;
}

int64_t rta_gcaps_busy(struct rta *s, const struct rta_task *t)
{
	int64_t updates = s->epsilon * (contended(s, t->cpu) ? 3 : 2);
	u32 level = t->eta ? t->gpu_priority : UINT32_MAX;
	const struct rta_task *h;

	rta_for_each_hpp(s, t, h) {
		rta_push(s, h->cpu_time + h->misc + h->pure + updates * h->eta, h, 0);
		if (h->eta && h->gpu_priority < level)
			level = h->gpu_priority;
	}
	if (level != UINT32_MAX)
		ownership(s, t->cpu, level);
	return own(s, t);
}

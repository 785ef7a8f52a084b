/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Policy `boosted`: lower bounds of responses, from what more urgent tasks take on average and at least.  They find what
 * they say of the responses and ends of tasks; false: one is beyond its deadline.
 */
#ifndef GPURT_RTA_LEAST_H
#define GPURT_RTA_LEAST_H

#include "rta_internal.h"

/* Says what a job takes of its CPU outside of windows at least.  Inlined: it is asked for each task. */
typedef int64_t rta_outside(const struct rta *s, const struct rta_task *t);

/* One minus far more than the relative error of a sum. */
#define RTA_DOWN (1 - 0x1p-30)

static inline void rta_add_owner(struct rta_sums *sums, const struct rta_task *owner, int64_t jitter)
{
	sums->rate += owner->gpu_rate;
	sums->carried += owner->gpu_rate * (double)jitter;
	sums->once += (double)owner->gpu_busy;
}

/* A task above takes so much of a CPU in each job. */
static inline void rta_add_above(struct rta_sums *sums, const struct rta_task *h, double amount)
{
	sums->rate += amount * h->inverse;
	sums->once += amount;
}

/* The part of a sum that other CPUs' tasks add, rounded down. */
static inline struct rta_sums rta_elsewhere(struct rta_sums all, struct rta_sums here)
{
	struct rta_sums left = {
		.rate = all.rate - here.rate - all.rate * 0x1p-40,
		.carried = all.carried - here.carried - all.carried * 0x1p-40,
		.once = all.once - here.once - all.once * 0x1p-40,
	};

	left.rate = left.rate > 0 ? left.rate : 0;
	left.carried = left.carried > 0 ? left.carried : 0;
	left.once = left.once > 0 ? left.once : 0;
	return left;
}

/* The rest of a rate to 1, and more than the errors of a sum of 2^15 rates, so that no quotient by it is too high. */
static inline double rta_left(double rate)
{
	double left = 1 - rate;

	return (left > 0 ? left : 0) + 0x1p-36;
}

/*
 * Writes lower bounds of a response and its end to t->least and t->least_end, from ceil(y) >= y and ceil(y) >= 1.  False if
 * the response is beyond the deadline.  Each segment has @update besides its length.  With U the owners' sum of e / T, the windows add up to @sum =
 * sum of (own + carried) / (1 - U) at least.  Owners then take U min(x, @sum) + carried: of the solutions with x and with
 * @sum the shorter one counts.  An owner also takes one whole job at least, in each window, and so does a task @above.
 */
static inline bool rta_find_least(const struct rta *s, struct rta_task *t, struct rta_sums above, int64_t update,
				  struct rta_sums owners, struct rta_sums remote)
{
	double inside = (double)(t->misc + t->pure + update * t->eta), demand = (double)t->cpu_time + inside;
	double last = (double)s->batch->piece_cpu[s->batch->piece[t->at + 1] - 1];
	double sum = (inside + owners.carried * t->eta) * (1 / rta_left(owners.rate)), once = inside + owners.once * t->eta;
	double slow = 1 / rta_left(above.rate), slower = 1 / rta_left(above.rate + remote.rate);
	double least = demand + above.once + remote.once, part = demand + remote.carried, whole, one, other;

	whole = part + remote.rate * (sum > once ? sum : once);
	one = whole * slow < part * slower ? whole * slow : part * slower;
	other = (whole - last) * slow < (part - last) * slower ? (whole - last) * slow : (part - last) * slower;
	other = other > least - last ? other : least - last;
	least = one > least ? one : least;
	t->least = t->least_end = 0;
	if (least * RTA_DOWN > (double)(t->deadline < t->period ? t->deadline : t->period) + 1)
		return false;
	t->least = (int64_t)(least * RTA_DOWN);
	t->least_end = (int64_t)(other * RTA_DOWN);
	return true;
}

/*
 * Takes all tasks that use the GPU, most urgent first.  GPU priorities must have the order of CPU priorities, without
 * ties.
 */
static inline __attribute__((always_inline)) bool rta_least(struct rta *s, rta_outside *outside)
{
	struct rta_sums owners = { 0 };
	u32 i, users = s->user_count;

	for (i = 0; i < s->cpus; i++) {
		s->cpu[i].owners = owners;
		s->cpu[i].above = owners;
		s->cpu[i].below = s->cpu[i].end_user - s->cpu[i].first_user;
	}
	for (i = 0; i < s->real_time; i++) {
		struct rta_task *t = &s->tasks[s->order[i]];
		struct rta_cpu *cpu = &s->cpu[t->cpu];
		int64_t jitter;

		if (t->eta) {
			cpu->below--;
			if (!rta_find_least(s, t, cpu->above, (--users > cpu->below ? 3 : 2) * s->alpha + s->theta, owners,
					    rta_elsewhere(owners, cpu->owners)))
				return false;
			t->response = rta_max(t->response, t->least);
			t->end = rta_max(t->end, t->least_end);
			jitter = rta_max(t->end + s->theta - t->gpu_busy, 0);
			rta_add_owner(&cpu->owners, t, jitter);
			rta_add_owner(&owners, t, jitter);
		}
		rta_add_above(&cpu->above, t, (double)outside(s, t));
	}
	return true;
}

/* Takes one task that uses the GPU, in any order of GPU priorities. */
static inline __attribute__((always_inline)) bool rta_least_of(struct rta *s, struct rta_task *t,
							       rta_outside *outside)
{
	struct rta_sums owners = { 0 }, remote = { 0 }, above = { 0 };
	const struct rta_task *h;
	u32 u;

	for (u = 0; u < s->user_count; u++) {
		int64_t jitter;

		h = &s->tasks[s->users[u]];
		if (h == t || h->gpu_priority < t->gpu_priority)
			continue;
		jitter = rta_max(h->end + s->theta - h->gpu_busy, 0);
		rta_add_owner(&owners, h, jitter);
		if (h->cpu != t->cpu)
			rta_add_owner(&remote, h, jitter);
	}
	rta_for_each_hpp(s, t, h)
		rta_add_above(&above, h, (double)outside(s, h));
	return rta_find_least(s, t, above, 2 * s->alpha + s->theta, owners, remote);
}

#endif

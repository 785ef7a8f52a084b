// SPDX-License-Identifier: GPL-2.0
/* Test boosted-suspend on plain tasksets: from the batch to the verdict. */
#include <stdlib.h>

#include "rta_least.h"
#include "rta_quick.h"

#define TRIED 2		/* tasks that are tried with lower bounds before all others */

struct rta_quick *rta_quick_new(u32 tasks)
{
	struct rta_quick *q = calloc(1, sizeof(*q));
	size_t room = tasks + 1;

	if (!q)
		return NULL;
	q->above = calloc(3 * room, sizeof(*q->above));
	q->owners = calloc(room + 1, sizeof(*q->owners));
	q->rows = calloc(room, sizeof(*q->rows));
	q->pairs = calloc(room, sizeof(*q->pairs));
	q->owners += q->owners != NULL;
	q->below = q->above + room;
	q->others = q->below + room;
	if (q->above && q->owners && q->rows && q->pairs)
		return q;
	rta_quick_free(q);
	return NULL;
}

void rta_quick_free(struct rta_quick *q)
{
	if (!q)
		return;
	free(q->above);
	free(q->owners ? q->owners - 1 : NULL);
	free(q->rows);
	free(q->pairs);
	free(q);
}

/*
 * Writes the places of the tasks in the batch to s->order, most urgent first.  Priorities are bits of a set, so that no branch
 * depends on their order.  False if the taskset is not plain.
 */
static bool rank(struct rta *s, const struct gpurt_batch *b, u32 first)
{
	uint64_t set[QUICK_LEVELS / 64] = { 0 };
	u32 at[QUICK_LEVELS], i, level, high = 0, differ = 0, n = 0;

	for (i = first; i < first + s->count; i++) {
		high |= b->priority[i];
		differ |= b->priority[i] ^ b->gpu_priority[i];
		level = b->priority[i] % QUICK_LEVELS;
		set[level / 64] |= 1ULL << level % 64;
		at[level] = i;
	}
	if (high >= QUICK_LEVELS || differ || set[0] & 1)
		return false;
	for (i = QUICK_LEVELS / 64; i; i--) {
		const u32 *of = at + 64 * (i - 1);
		uint64_t left = set[i - 1];

		for (; left; left ^= 1ULL << level) {
			level = 63 - (u32)__builtin_clzll(left);
			s->order[n++] = of[level];
		}
	}
	return n == s->count;
}

/* Fills what is looked at of a task.  Each segment takes @updates besides its length. */
static inline void fill(struct rta_task *t, const struct gpurt_batch *b, int64_t updates, u32 at)
{
	t->at = at;
	t->period = b->period[at];
	t->deadline = b->deadline[at];
	t->cpu_time = b->cpu_time[at];
	t->misc = b->misc[at];
	t->pure = b->pure[at];
	t->cpu = b->cpu[at];
	t->eta = b->eta[at];
	t->inverse = rta_inverse(t->period);
	t->gpu_busy = t->misc + t->pure + updates * t->eta;
	t->gpu_rate = (double)t->gpu_busy * t->inverse;
	t->response = t->update = t->least = 0;
}

/* Has the processor fetch the segments, and what is looked at of few tasks: they are not in its caches, and needed soon. */
static void fetch(const struct gpurt_batch *b, u32 first, u32 end)
{
	u32 i;

	for (i = b->piece[first]; i < b->piece[end]; i += 8) {
		__builtin_prefetch(&b->piece_cpu[i]);
		__builtin_prefetch(&b->piece_misc[i]);
		__builtin_prefetch(&b->piece_pure[i]);
	}
	for (i = first; i < end; i += 16) {
		__builtin_prefetch(&b->gaps[i]);
		__builtin_prefetch(&b->ends[i]);
	}
}

/* Fills the tasks, most urgent first, and lists those that use the GPU and the others, without a branch on which a task is. */
static void load(struct rta *s, const struct gpurt_batch *b)
{
	struct rta_quick *q = s->quick;
	struct quick_owner *o = q->owners;
	u32 i, others = 0, users = 0;

	for (i = 0; i < s->cpus; i++)
		s->cpu[i] = (struct rta_cpu){ .begin = QUICK_NONE };
	for (i = 0; i < s->count; i++) {
		struct rta_task *t = &s->tasks[i];
		struct rta_cpu *cpu;

		fill(t, b, 2 * s->epsilon, s->order[i]);
		cpu = &s->cpu[t->cpu];
		q->above[i] = cpu->begin;
		cpu->begin = i;
		t->user = users;
		o->task = t;
		o->cpu = t->cpu;
		o->above = cpu->above;
		q->others[others] = i;
		o += t->eta > 0;
		users += t->eta > 0;
		others += !t->eta;
		rta_add_above(&cpu->above, t, (double)(t->cpu_time + t->misc + 2 * s->alpha * t->eta));
	}
	s->user_count = users;
}

/* The last owner that is not on the CPU of the last: owners of that CPU before it have less urgent ones elsewhere. */
static const struct quick_owner *last_elsewhere(const struct quick_owner *o, const struct quick_owner *end)
{
	const struct quick_owner *last = end - 1;

	while (end > o && end[-1].cpu == last->cpu)
		end--;
	return end - 1;
}

/* Finds what responses are at least, most urgent first; false: one is beyond its deadline. */
static bool find_least(struct rta *s)
{
	struct quick_owner *o = s->quick->owners, *end = o + s->user_count;
	const struct quick_owner *elsewhere = last_elsewhere(o, end);
	struct rta_sums owners = { 0 };

	for (; o < end; o++) {
		struct rta_cpu *cpu = &s->cpu[o->cpu];
		struct rta_task *t = o->task;

		t->update = 2 * s->alpha + s->theta;
		if (o < (o->cpu == end[-1].cpu ? elsewhere : end - 1))
			t->update += s->alpha;
		if (!rta_find_least(s, t, o->above, t->update, owners, rta_elsewhere(owners, cpu->owners)))
			return false;
		t->end = t->least_end;
		quick_own(s, t);
		rta_add_owner(&cpu->owners, t, o->jitter);
		rta_add_owner(&owners, t, o->jitter);
	}
	return true;
}

static void find_below(struct rta *s)
{
	u32 i;

	for (i = 0; i < s->cpus; i++)
		s->cpu[i].begin = QUICK_NONE;
	for (i = s->count; i; i--) {
		const struct rta_task *t = &s->tasks[i - 1];
		u32 *last = &s->cpu[t->cpu].begin;

		s->quick->below[i - 1] = *last;
		*last = t->eta ? i - 1 : *last;
	}
}

/* Whether the least urgent users fail though others respond as soon as they can: they wait for more tasks than all others. */
static bool hopeless(const struct rta *s)
{
	const struct quick_owner *end = s->quick->owners + s->user_count;
	u32 i, tried = s->user_count < TRIED ? s->user_count : TRIED;

	for (i = 1; i <= tried; i++) {
		struct rta_task *t = (end - i)->task;

		t->least = quick_solve(s, t, QUICK_LEAST);
		if (t->least < 0)
			return true;
	}
	return false;
}

/* The answer where a task has no solution: short suspensions may help, but to no less than without jitter. */
static enum rta_quick_answer without(const struct rta *s, const struct rta_task *t)
{
	return quick_shorten(s, t) && quick_solve(s, t, QUICK_FOUND) >= 0 ? RTA_QUICK_UNKNOWN : RTA_QUICK_NO;
}

/* Finds the response and the end of a task that uses the GPU; false: by this recurrence it has none. */
static bool respond(const struct rta *s, struct rta_task *t)
{
	int64_t end;

	t->response = quick_solve(s, t, QUICK_FOUND);
	if (t->response < 0)
		return false;
	end = quick_solve_end(s, t, t->response);
	t->end = end < 0 ? t->response : end;
	quick_own(s, t);
	return true;
}

enum rta_quick_answer rta_quick(struct rta *s, const struct gpurt_batch *b, u32 index)
{
	u32 i;

	s->batch = b;
	s->count = b->first[index + 1] - b->first[index];
	s->alpha = b->alpha;
	s->theta = b->theta;
	s->epsilon = b->alpha + b->theta;
	fetch(b, b->first[index], b->first[index + 1]);
	if (!rank(s, b, b->first[index]))
		return RTA_QUICK_UNKNOWN;
	load(s, b);
	if (!find_least(s))
		return RTA_QUICK_NO;
	find_below(s);
	if (hopeless(s))
		return RTA_QUICK_NO;
	for (i = 0; i < s->user_count; i++)
		if (!respond(s, s->quick->owners[i].task))
			return without(s, s->quick->owners[i].task);
	for (i = 0; i < s->count - s->user_count; i++) {
		const struct rta_task *t = &s->tasks[s->quick->others[i]];

		if (!quick_easy(s, t) && quick_solve(s, t, QUICK_FOUND) < 0)
			return without(s, t);
	}
	return RTA_QUICK_YES;
}

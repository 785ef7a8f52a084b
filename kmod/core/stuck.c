// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "stuck.h"

/* How many clients in segments are looked at.  Exempt ones do not wait for the owner. */
#define SEARCHED 64

/* Whether a client in a segment waits for the owner.  Costs the same however many there are. */
bool gpurt_stuck_asked(const struct gpurt_sched *s)
{
	const struct gpurt_sched_client *c;
	struct list_head *node;
	u32 n = 0;

	list_for_each(node, &s->order) {
		c = list_entry(node, struct gpurt_sched_client, in_order);
		if (!gpurt_on_runlist(s, c))
			return true;
		if (++n == SEARCHED)
			break;
	}
	return false;
}

/* Whether the owner is in the segment of the last look. */
static bool is_same(const struct gpurt_stuck *k, const struct gpurt_sched_client *c, u64 tenure)
{
	return k->since && k->tenure == tenure && k->segment == c->segments;
}

/* Whether the owner's work has completed since the first look, or its threads have executed for more than a share. */
static bool moved(const struct gpurt_stuck *k, u64 limit, const struct gpurt_stuck_look *look)
{
	u64 time = look->now - k->since;

	if (time < limit)
		time = limit;
	/* Less than before: a thread that had executed has ended. */
	return look->done != k->done || look->cpu < k->cpu || look->cpu - k->cpu > time / GPURT_STUCK_SHARE;
}

/*
 * Called after the host's look.  Returns true if the host must report now that the owner is stuck: once a segment,
 * unless something moved in between.  With a @limit of 0 nothing is reported.
 */
bool gpurt_stuck_seen(struct gpurt_stuck *k, const struct gpurt_sched *s, u64 limit,
		      const struct gpurt_stuck_look *look)
{
	const struct gpurt_sched_client *c = s->runner;

	if (!limit || !c || !c->depth || !look->idle || !look->asleep || !(look->asked || gpurt_stuck_asked(s))) {
		k->since = 0;
		k->told = false;
		return false;
	}
	if (!is_same(k, c, s->runner_since) || moved(k, limit, look)) {
		k->tenure = s->runner_since;
		k->segment = c->segments;
		k->since = look->now;
		k->cpu = look->cpu;
		k->done = look->done;
		k->told = false;
		return false;
	}
	if (k->told || look->now - k->since < limit)
		return false;
	k->told = true;
	k->count++;
	return true;
}

/*
 * For how long the owner has been stuck, if that was reported; 0: it is not stuck.  Needs no lock: during a change a
 * reader gets the old or the new answer.
 */
u64 gpurt_stuck_time(const struct gpurt_stuck *k, const struct gpurt_sched *s, u64 now)
{
	const struct gpurt_sched_client *c = s->runner;

	return c && c->depth && k->told && is_same(k, c, s->runner_since) ? now - k->since : 0;
}

/*
 * Whether a client that is gone leaves others behind that are in segments and may wait for it: members of its group on
 * any GPU, or clients of the same budget.  @elsewhere: open segments of the same program on other GPUs.  To be called
 * before gpurt_gone(), which takes the client out of its group.
 */
bool gpurt_stuck_leaves(const struct gpurt_sched_client *c, u32 elsewhere)
{
	u32 own;

	if (c->entry != c)
		return c->entry->group->group->open > c->depth + elsewhere;
	own = !list_empty(&c->in_segments) || !list_empty(&c->in_jobs);

	return c->budget && c->budget->queued > own;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "sched.h"

/* Whether the client's group raises all its members while the group owns the GPU, as in form `owner`. */
static bool in_all(const struct gpurt_sched_client *c)
{
	return c->entry != c && c->entry->group->group->all;
}

/* The level at which the client's thread must execute now: 0, 1..99 or GPURT_RAISED_TOP. */
u32 gpurt_boost_level(const struct gpurt_sched *s, const struct gpurt_sched_client *c)
{
	const struct gpurt_boost *b = &c->boost;
	bool all = in_all(c);

	if (b->form == GPURT_FORM_SELF && !all) {
		if (!b->self)
			return 0;
		return c->depth ? c->entry->level : b->asked;
	}
	if (b->turn)
		return GPURT_RAISED_TOP;
	if (s->policy != GPURT_POLICY_BOOSTED || s->runner != c->entry || s->updating)
		return 0;
	/* A member in no segment.  A client without a group is the owner until the next decision. */
	if (c->entry != c && !c->depth && !all)
		return 0;
	return b->form == GPURT_FORM_FENCE && b->working && !all ? 0 : c->entry->level;
}

/* Likewise for all members on that GPU of the group whose entry is @e. */
static void refresh_all(struct gpurt_sched *s, struct gpurt_sched_client *e, u64 now)
{
	struct gpurt_queue *members = &e->group->group->members;
	struct gpurt_sched_client *c;
	struct list_head *node;
	u32 level;

	for (level = 0; level < GPURT_LEVELS; level++) {
		list_for_each(node, &members->level[level]) {
			c = list_entry(node, struct gpurt_sched_client, in_order);
			if (c->entry == e)
				gpurt_boost_refresh(s, c, now);
		}
	}
}

/*
 * To be called after any fact about the client has changed: tells the host if its thread must execute at another level.
 * If @c is a group's entry: tells it of each member in a segment, or of each member of a group that raises all.
 */
void gpurt_boost_refresh(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	struct gpurt_boost *b = &c->boost;
	struct list_head *node;
	u32 level;

	if (c->moving)
		return;
	if (c->group && c->group->group->all) {
		refresh_all(s, c, now);
		return;
	}
	if (c->group) {
		list_for_each(node, &c->group->inside)
			gpurt_boost_refresh(s, list_entry(node, struct gpurt_sched_client, in_segments), now);
		return;
	}
	if (!c->depth && !b->asked)
		b->self = false;
	level = gpurt_boost_level(s, c);
	if (level == b->raised)
		return;
	b->raised = (u8)level;
	s->ops->raise(s, c, level, now);
}

/* States when the client's thread is raised.  -EINVAL: no such form; -EBUSY: in a segment or at the gate. */
int gpurt_boost_form(struct gpurt_sched_client *c, u32 form)
{
	if (form >= GPURT_FORM_COUNT)
		return -EINVAL;
	if (c->depth || c->boost.asked || c->boost.turn)
		return -EBUSY;
	c->boost.form = (u8)form;
	return 0;
}

/*
 * The client's thread is about to ask the gate for a begin or end, and queues there at @level.  A thread that raises
 * itself does so now, before its begin; once a segment is open it is too late.
 */
void gpurt_boost_ask(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 level, u64 now)
{
	struct gpurt_boost *b = &c->boost;

	b->asked = (u8)level;
	if (!c->depth)
		b->self = s->policy == GPURT_POLICY_BOOSTED && b->form == GPURT_FORM_SELF && level;
	gpurt_boost_refresh(s, c, now);
}

/* The thread that asked has the gate (@turn), or lost it to a more urgent thread before it took its decision. */
void gpurt_boost_turn(struct gpurt_sched *s, struct gpurt_sched_client *c, bool turn, u64 now)
{
	c->boost.turn = turn && c->boost.asked && s->policy == GPURT_POLICY_BOOSTED;
	gpurt_boost_refresh(s, c, now);
}

/*
 * A decision has been carried out, and its update is over.  A thread of @c (NULL: of no client) made the decision, or
 * withdrew it.
 */
void gpurt_boost_over(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	bool asked = c && (c->boost.asked || c->boost.turn);

	/* Nothing that levels depend on changes now, and a refresh followed each previous change. */
	if (!s->updating && !asked)
		return;
	s->updating = false;
	if (asked) {
		c->boost.asked = 0;
		c->boost.turn = false;
		gpurt_boost_refresh(s, c, now);
	}
	if (s->runner)
		gpurt_boost_refresh(s, s->runner, now);
}

/*
 * The runner does not have the GPU, because an update failed or the GPU is being reset.  A call of gpurt_boost_over()
 * follows when it has the GPU again.
 */
void gpurt_boost_lost(struct gpurt_sched *s, u64 now)
{
	s->updating = s->policy == GPURT_POLICY_BOOSTED;
	if (s->runner)
		gpurt_boost_refresh(s, s->runner, now);
}

/* Form `fence`: the client's thread begins to wait for its own work (@working), or that work has completed. */
void gpurt_boost_work(struct gpurt_sched *s, struct gpurt_sched_client *c, bool working, u64 now)
{
	c->boost.working = working;
	gpurt_boost_refresh(s, c, now);
}

/* The form that the flags of a begin state. */
u32 gpurt_boost_stated(u32 begin_flags)
{
	if (begin_flags & GPURT_BEGIN_OWNER)
		return GPURT_FORM_OWNER;
	return begin_flags & GPURT_BEGIN_FENCE ? GPURT_FORM_FENCE : GPURT_FORM_SELF;
}

/*
 * Returns 0 if policy `boosted` can order a segment of @level, else -ERANGE.  @own: the SCHED_FIFO or SCHED_RR priority
 * of the segment's thread (0: other).  Normal CPU priorities are 1 to @normal.  Best effort is always possible.
 */
int gpurt_boost_refusal(u32 normal, u32 own, u32 level)
{
	return level && (level > normal || !own || own > normal) ? -ERANGE : 0;
}

/* The CPU priority for a level of gpurt_sched_ops.raise; 0: the thread's own priority. */
u32 gpurt_boost_cpu(u32 normal, u32 level)
{
	if (level == GPURT_RAISED_TOP)
		return 2 * normal + 1;
	/* The client had this level before the policy became `boosted`. */
	if (level > normal)
		return 2 * normal;
	return level ? normal + level : 0;
}

/*
 * The CPU priority to which the thread of a segment of that form and @level must have a right.  It is the highest to
 * which the thread can be raised.  Linux lets every user give his threads any priority up to their present one, for
 * good.  It checks that before it changes anything: a thread that was lowered meanwhile gets the priority nevertheless.
 */
u32 gpurt_boost_right(u32 normal, u32 form, u32 level)
{
	return gpurt_boost_cpu(normal, form == GPURT_FORM_SELF ? level : GPURT_RAISED_TOP);
}

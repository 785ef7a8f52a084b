// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "sched.h"

/* Whether the owner keeps the GPU until its segment ends. */
bool gpurt_policy_locks(u32 policy)
{
	return policy == GPURT_POLICY_LOCK_PRIORITY || policy == GPURT_POLICY_LOCK_FIFO;
}

static bool locking(const struct gpurt_sched *s)
{
	return gpurt_policy_locks(s->policy);
}

static bool has_job(const struct gpurt_sched_client *c)
{
	return c->runnable && c->tsgs > 0 && !(c->moving && c->entry == c);
}

/* Whether the client asks for the GPU, at whatever priority. */
static bool engaged(const struct gpurt_sched *s, const struct gpurt_sched_client *c)
{
	return s->policy == GPURT_POLICY_JOB ? has_job(c) : c->depth > 0;
}

/*
 * The level of a segment that begins with these priorities: @set by the control plane, @own of the task, and @hint that
 * the segment asks for (0: none).
 */
u32 gpurt_begin_level(u32 set, u32 own, u32 hint)
{
	if (set != GPURT_PRIORITY_OWN)
		return set;
	return hint ? hint : own;
}

static const struct gpurt_group *group_of(const struct gpurt_sched_client *c)
{
	return c->entry->group ? c->entry->group->group : NULL;
}

/* The level at which a client counts now.  In a group it is the tenure's level, or that of a tenure that began now. */
u32 gpurt_client_level(const struct gpurt_sched_client *c)
{
	const struct gpurt_group *g = group_of(c);

	if (!g)
		return c->level;
	if (!g->open)
		return gpurt_group_level(g);
	return g->demoted ? 0 : g->level;
}

/* How long the client was the runner, up to the last decision; once it is a member, its group.  Needs no lock. */
u64 gpurt_client_held(const struct gpurt_sched_client *c)
{
	const struct gpurt_sched_client *e = c->entry;

	return c->held_ns + (e != c ? e->held_ns - c->joined_ns : 0);
}

/* The level of a segment of @c that begins now; @own and @hint as for gpurt_begin_level(). */
u32 gpurt_client_begin_level(const struct gpurt_sched_client *c, u32 own, u32 hint)
{
	const struct gpurt_group *g = group_of(c);
	u32 level;

	if (!g)
		return gpurt_begin_level(c->set, own, hint);
	level = gpurt_client_level(c);
	return !g->open && g->set == GPURT_PRIORITY_OWN && own > level ? own : level;
}

static u8 level_of(const struct gpurt_sched_client *c)
{
	if (c->demoted)
		return 0;
	return (u8)gpurt_begin_level(c->set, c->own, c->hint);
}

/* Until when the runner may hold the lock: best effort has no right to keep real-time clients waiting for ever. */
static u64 lock_end(const struct gpurt_sched *s)
{
	const struct gpurt_sched_client *c = s->runner;

	if (!c || !s->lock_bound || !locking(s) || !c->depth || c->level || c->demoted)
		return U64_MAX;
	return s->runner_since + s->lock_bound;
}

static void arm(struct gpurt_sched *s)
{
	struct gpurt_budget *b = s->runner ? s->runner->budget : NULL;
	u64 left = b ? gpurt_budget_end(b, s->since) : U64_MAX, end = lock_end(s);

	s->deadline = left < end ? left : end;
	if (s->behind)
		s->deadline = s->since;
}

/*
 * The group's key changed here: each other GPU on which the group is in a segment must follow (gpurt_group_settle()).
 * On the rest the group takes the key when it begins.
 */
static void regroup(struct gpurt_sched *s, struct gpurt_group_gpu *here, u64 now)
{
	struct gpurt_group_gpu *g;
	struct list_head *node;

	list_for_each(node, &here->group->gpus) {
		g = list_entry(node, struct gpurt_group_gpu, in_group);
		g->unsettled = g->core.depth > 0;
	}
	here->unsettled = false;
	s->ops->regroup(s, here->group, now);
}

static bool queued(const struct gpurt_sched_client *c)
{
	return !list_empty(&c->in_segments) || !list_empty(&c->in_jobs);
}

/* To be called after a change of the client.  It costs next to nothing where no thread is raised. */
static void refresh_boost(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (s->policy == GPURT_POLICY_BOOSTED || c->group || c->boost.self || c->boost.turn || c->boost.raised)
		gpurt_boost_refresh(s, c, now);
}

static struct gpurt_sched_client *in_segment(struct list_head *node)
{
	return list_entry(node, struct gpurt_sched_client, in_segments);
}

/* Puts the client before all its equals in a segment. */
static void line_up_first(struct gpurt_sched *s, struct gpurt_sched_client *c, u8 level)
{
	struct list_head *equals = &s->segments.level[level];

	if (!list_empty(equals))
		c->stamp = in_segment(equals->next)->stamp;
	gpurt_queue_add_first(&s->segments, &c->in_segments, level);
}

/*
 * Puts the client among its equals in a segment, in order of stamps.  A client without a group comes last.  A group
 * whose tenure began on another GPU passes those that came since, because all GPUs must order groups alike.  Best
 * effort owns GPUs only under lock policies, where a tenure stays on one GPU.  So best effort passes nobody, and a user
 * without rights cannot make a decision long.
 */
static void line_up(struct gpurt_sched *s, struct gpurt_sched_client *c, u8 level)
{
	struct list_head *equals = &s->segments.level[level], *last = equals->prev;

	if (!c->group) {
		c->stamp = s->stamps ? 2 * *s->stamps + 1 : 0;
		gpurt_queue_add(&s->segments, &c->in_segments, level);
		return;
	}
	c->stamp = c->group->group->stamp;
	while (level && last != equals && in_segment(last)->stamp > c->stamp)
		last = last->prev;
	gpurt_queue_add_after(&s->segments, last, &c->in_segments, level);
}

/* Takes @node off level @old of @q, if it is there.  Returns whether the caller must put it on level @new. */
static bool moves(struct gpurt_queue *q, struct list_head *node, u8 old, u8 new, bool want)
{
	bool in = !list_empty(node);

	if (in && want && old == new)
		return false;
	if (in)
		gpurt_queue_del(q, node, old);
	return want;
}

/* Moves the client from level @old of the segments (if it is there) to @new (if @want). */
static void move_segment(struct gpurt_sched *s, struct gpurt_sched_client *c, u8 old, u8 new, bool want)
{
	bool in = !list_empty(&c->in_segments);

	if (!moves(&s->segments, &c->in_segments, old, new, want))
		return;
	if (want && in && c == s->runner && !c->group)
		line_up_first(s, c, new);
	else
		line_up(s, c, new);
}

/* Likewise for jobs. */
static void move_job(struct gpurt_sched *s, struct gpurt_sched_client *c, u8 old, u8 new, bool want)
{
	bool in = !list_empty(&c->in_jobs);

	if (!moves(&s->jobs, &c->in_jobs, old, new, want))
		return;
	if (in && c == s->runner)
		gpurt_queue_add_first(&s->jobs, &c->in_jobs, new);
	else
		gpurt_queue_add(&s->jobs, &c->in_jobs, new);
}

/*
 * Puts the client into the queues where it belongs.  On a new level the runner stays ahead of its equals, because an
 * equal never preempts.  Any other client comes last, because the others were there first.
 */
static void place(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	bool segment = c->depth > 0 && !c->demoted && !c->moving;
	u8 old = c->level, new = level_of(c);
	bool was = queued(c);

	c->level = new;
	move_segment(s, c, old, new, segment);
	move_job(s, c, old, new, has_job(c) && !c->demoted);
	if (segment && list_empty(&c->in_order))
		list_add_tail(&c->in_order, &s->order);
	else if (!segment)
		list_del_init(&c->in_order);
	if (!c->depth && !engaged(s, c))
		c->granted = false;
	if (c->budget)
		c->budget->queued += (u32)queued(c) - (u32)was;
	refresh_boost(s, c, now);
}

/* Calls @tell for each member of the entry's group that asks for the GPU; for the client itself if it has no group. */
static void each(struct gpurt_sched *s, struct gpurt_sched_client *e,
		 void (*tell)(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now), u64 now)
{
	struct list_head *node;

	if (!e->group) {
		tell(s, e, now);
	} else if (s->policy == GPURT_POLICY_JOB) {
		list_for_each(node, &e->group->working)
			tell(s, list_entry(node, struct gpurt_sched_client, in_jobs), now);
	} else {
		list_for_each(node, &e->group->inside)
			tell(s, in_segment(node), now);
	}
}

static void overran(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	c->overruns++;
	s->ops->event(s, c, GPURT_EVENT_OVERRUN, now);
}

/* Charges the client's budget, if it has one, for owning the GPU from @from to @to. */
static void use(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 from, u64 to)
{
	if (!c->budget || !gpurt_budget_charge(c->budget, from, to))
		return;
	each(s, c, overran, to);
}

/* Whether its budget makes the client best effort now. */
static bool is_spent(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	use(s, c, now, now);
	return c->budget && gpurt_budget_spent(c->budget);
}

/* Makes the client best effort until its segment or job ends, or its group, on all GPUs, until its tenure ends. */
static void mark_demoted(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	c->demoted = s->policy == GPURT_POLICY_JOB ? GPURT_DEMOTED_JOB : GPURT_DEMOTED_SEGMENT;
	if (c->group && c->demoted == GPURT_DEMOTED_SEGMENT && !c->group->group->demoted) {
		c->group->group->demoted = true;
		regroup(s, c->group, now);
	}
}

static void demote(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	mark_demoted(s, c, now);
	place(s, c, now);
}

/* Charges the runner for the time since the last charge. */
static void charge(struct gpurt_sched *s, u64 now)
{
	struct gpurt_sched_client *c = s->runner;
	u64 since = s->since;

	s->since = now;
	/* The next period begins after the update that the present period pays for. */
	if (s->payer)
		gpurt_budget_pay(s->payer, now + 1, 0);
	if (!c)
		return;
	c->held_ns += now - since;
	if (since != now)
		use(s, c, since, now);
	if (since != now && c->budget && gpurt_budget_spent(c->budget))
		demote(s, c, now);
	if (lock_end(s) <= now) {
		each(s, c, overran, now);
		demote(s, c, now);
	}
}

/* The client that the policy wants alone on the runlist; NULL: all clients. */
static struct gpurt_sched_client *pick(const struct gpurt_sched *s)
{
	struct gpurt_sched_client *c = NULL;
	struct list_head *first;

	if (locking(s) && s->runner && engaged(s, s->runner) && !s->runner->demoted)
		return s->runner;

	switch ((enum gpurt_policy)s->policy) {
	case GPURT_POLICY_TIMESLICED:
	case GPURT_POLICY_COUNT:
		break;
	case GPURT_POLICY_SEGMENT:
	case GPURT_POLICY_BOOSTED:
	case GPURT_POLICY_LOCK_PRIORITY:
		first = gpurt_queue_first(&s->segments);
		if (first)
			c = in_segment(first);
		break;
	case GPURT_POLICY_LOCK_FIFO:
		if (!list_empty(&s->order))
			c = list_first_entry(&s->order, struct gpurt_sched_client, in_order);
		break;
	case GPURT_POLICY_JOB:
		first = gpurt_queue_first(&s->jobs);
		if (first)
			c = list_entry(first, struct gpurt_sched_client, in_jobs);
		break;
	}
	return c && (c->level || locking(s)) ? c : NULL;
}

/* @c, which asks for the GPU, is newly on the runlist, or was never told that it is on. */
static void gained(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	s->ops->event(s, c, c->granted ? GPURT_EVENT_RESUME : GPURT_EVENT_GRANT, now);
	c->granted = true;
}

/* @c, which asks for the GPU, is off the runlist now. */
static void lost(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	c->preemptions++;
	s->ops->event(s, c, GPURT_EVENT_PREEMPT, now);
}

static void lost_if_pending(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (gpurt_state_of(s, c) == GPURT_STATE_PENDING)
		lost(s, c, now);
}

static void gained_if_not_exempt(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (!c->granted || !c->exempt)
		gained(s, c, now);
}

static void gained_if_not_told(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (!c->granted)
		gained(s, c, now);
}

/* Reports which clients gained and lost the GPU when the runner changed from @old. */
static void tell(struct gpurt_sched *s, struct gpurt_sched_client *old, u64 now)
{
	if (!old)
		s->ops->event(s, NULL, GPURT_EVENT_PREEMPT, now);
	else
		each(s, old, lost_if_pending, now);
	if (!s->runner)
		s->ops->event(s, NULL, GPURT_EVENT_RESUME, now);
	else
		each(s, s->runner, old ? gained_if_not_exempt : gained_if_not_told, now);
}

/*
 * The client that must run now.  Clients of a spent budget are demoted when it is their turn, at most
 * GPURT_MAX_BUDGET_CLIENTS in one decision.  More are possible if they joined the budget in the middle of their
 * segments.  Then the GPU keeps its owner until the tick that follows at once.
 */
static struct gpurt_sched_client *choose(struct gpurt_sched *s, u64 now)
{
	struct gpurt_sched_client *c;
	u32 demoted;

	s->behind = false;
	for (demoted = 0; (c = pick(s)) && is_spent(s, c, now); demoted++) {
		if (demoted == GPURT_MAX_BUDGET_CLIENTS) {
			s->behind = true;
			return s->runner && engaged(s, s->runner) ? s->runner : NULL;
		}
		demote(s, c, now);
	}
	return c;
}

/*
 * The budget that pays for the update that makes @next the runner in place of @old.  It is the budget of a client that
 * used it up and was demoted, else the budget of @by, which began, ended or is gone.  Otherwise a client that begins
 * and ends all the time would own the GPU for little time and keep it busy with updates.
 */
static struct gpurt_budget *payer(struct gpurt_sched_client *old, struct gpurt_sched_client *next,
				  struct gpurt_sched_client *by)
{
	if (old && old->demoted && old->budget)
		return old->budget;
	return by && (by == old || by == next) ? by->budget : NULL;
}

/*
 * To be called when an update that the scheduler asked for is over at @now, whether it succeeded, failed, or was given
 * up.  Its payer pays for the time that it took, and for the context switch @theta.  Without that call an update is
 * over when the scheduler asks for the next one, which supersedes it.
 */
void gpurt_updated(struct gpurt_sched *s, u64 now, u64 theta)
{
	/* Without a payer the decision's deadline stays. */
	if (!s->payer)
		return;
	gpurt_budget_pay(s->payer, now, now - s->asked + theta);
	s->payer = NULL;
	arm(s);
}

/* Asks for an update to the runner's runlist, which supersedes a present update.  Budget @from pays, unless NULL. */
static void ask(struct gpurt_sched *s, struct gpurt_budget *from, u32 cause, u64 now)
{
	gpurt_updated(s, now, 0);
	s->payer = from;
	s->asked = now;
	s->ops->commit(s, s->runner, cause, now);
}

/*
 * Brings the runlist to what the policy wants now; asks for no update if nothing changes.  @by: the client that called
 * or is gone; NULL: none.
 */
static void decide(struct gpurt_sched *s, struct gpurt_sched_client *by, u32 cause, u64 now)
{
	struct gpurt_sched_client *old = s->runner, *next;

	charge(s, now);
	next = choose(s, now);
	if (next != old) {
		s->runner = next;
		s->runner_since = now;
		s->updating = s->policy == GPURT_POLICY_BOOSTED;
		if (old)
			refresh_boost(s, old, now);
		ask(s, payer(old, next, by), cause, now);
		tell(s, old, now);
	}
	arm(s);
}

/* Whether @c is a group that is demoted until its tenure ends, and that is in a segment here. */
static bool is_demoted_group(const struct gpurt_sched_client *c)
{
	return c->group && c->depth && c->group->group->demoted;
}

/* A segment or job begins.  A demotion of the previous one ends, unless its reason still holds. */
static void start(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	bool crowded = !queued(c) && c->budget && gpurt_budget_demotes(c->budget) &&
		       c->budget->queued >= GPURT_MAX_BUDGET_CLIENTS;

	c->demoted = GPURT_NOT_DEMOTED;
	if (is_spent(s, c, now) || crowded || is_demoted_group(c))
		mark_demoted(s, c, now);
	c->granted = false;
}

/* A member's thread has the known priority @own. */
static void line_up_member(struct gpurt_sched_client *c, u8 own)
{
	struct gpurt_queue *members = &c->entry->group->group->members;

	if (moves(members, &c->in_order, c->own, own, true))
		gpurt_queue_add(members, &c->in_order, own);
	c->own = own;
}

/*
 * A member has begun its outermost segment, perhaps the group's first one here.  Its begin does not change the key of a
 * group that is in a segment.
 */
static void enter(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	struct gpurt_sched_client *e = c->entry;

	list_add_tail(&c->in_segments, &e->group->inside);
	e->segments++;
	if (e->depth > 1) {
		refresh_boost(s, c, now);
		return;
	}
	e->own = e->group->group->level;
	list_add_tail(&e->group->in_sched, &s->groups);
	if (s->policy != GPURT_POLICY_JOB)
		start(s, e, now);
	else if (e->group->group->demoted && !e->demoted)
		e->demoted = GPURT_DEMOTED_SEGMENT;
	place(s, e, now);
}

/* Ends all open segments of the client; the caller decides afterwards. */
static void leave(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	struct gpurt_sched_client *e = c->entry;
	u32 depth = c->depth;

	c->depth = 0;
	c->hint = 0;
	if (e != c) {
		/* A member that dies at the gate is raised without a segment. */
		refresh_boost(s, c, now);
		if (!depth)
			return;
		list_del_init(&c->in_segments);
		c->granted = c->granted && engaged(s, c);
		gpurt_group_closed(e->group->group, depth);
		e->depth -= depth;
		if (e->depth)
			return;
		c = e;
	}
	if (c->group)
		list_del_init(&c->group->in_sched);
	if (c->demoted == GPURT_DEMOTED_SEGMENT)
		c->demoted = GPURT_NOT_DEMOTED;
	place(s, c, now);
}

static void rejob(struct gpurt_sched *s, struct gpurt_sched_client *c, bool had, u64 now);

/* A member's task or its TSGs changed.  A group has a job while any member has one. */
static void rejob_member(struct gpurt_sched *s, struct gpurt_sched_client *c, bool had, u64 now)
{
	struct gpurt_sched_client *e = c->entry;
	bool group_had = has_job(e);

	if (!has_job(c))
		list_del_init(&c->in_jobs);
	else if (!had)
		list_add_tail(&c->in_jobs, &e->group->working);
	if (s->policy == GPURT_POLICY_JOB && !(had && has_job(c)))
		c->granted = false;
	e->runnable = !list_empty(&e->group->working);
	e->tsgs = e->runnable;
	if (e->runnable && !group_had && !e->depth)
		e->own = gpurt_group_level(e->group->group);
	if (has_job(e) != group_had)
		rejob(s, e, group_had, now);
}

/* The client's task or its TSGs changed; @had says whether it had a job before. */
static void rejob(struct gpurt_sched *s, struct gpurt_sched_client *c, bool had, u64 now)
{
	if (c->entry != c) {
		rejob_member(s, c, had, now);
		return;
	}
	if (has_job(c) && !had && s->policy == GPURT_POLICY_JOB)
		start(s, c, now);
	else if (!has_job(c) && c->demoted == GPURT_DEMOTED_JOB)
		c->demoted = is_demoted_group(c) ? GPURT_DEMOTED_SEGMENT : GPURT_NOT_DEMOTED;
	place(s, c, now);
}

void gpurt_sched_init(struct gpurt_sched *s, const struct gpurt_sched_ops *ops, void *host, u64 now)
{
	s->ops = ops;
	s->host = host;
	s->stamps = NULL;
	s->policy = GPURT_POLICY_TIMESLICED;
	s->runner = NULL;
	s->updating = false;
	s->since = now;
	s->runner_since = now;
	s->lock_bound = 0;
	s->deadline = U64_MAX;
	s->behind = false;
	s->payer = NULL;
	s->asked = now;
	gpurt_queue_init(&s->segments);
	gpurt_queue_init(&s->jobs);
	INIT_LIST_HEAD(&s->order);
	INIT_LIST_HEAD(&s->groups);
}

void gpurt_sched_client_init(struct gpurt_sched_client *c)
{
	*c = (struct gpurt_sched_client){ .set = GPURT_PRIORITY_OWN, .entry = c };
	INIT_LIST_HEAD(&c->in_segments);
	INIT_LIST_HEAD(&c->in_order);
	INIT_LIST_HEAD(&c->in_jobs);
}

/*
 * The new policy may order equals differently, but an equal never preempts: the runner comes first.  A group keeps its
 * place among segments, which is the same on all GPUs.
 */
static void stay_first(struct gpurt_sched *s, struct gpurt_sched_client *c)
{
	if (!list_empty(&c->in_segments) && !c->group) {
		gpurt_queue_del(&s->segments, &c->in_segments, c->level);
		line_up_first(s, c, c->level);
	}
	if (!list_empty(&c->in_jobs)) {
		gpurt_queue_del(&s->jobs, &c->in_jobs, c->level);
		gpurt_queue_add_first(&s->jobs, &c->in_jobs, c->level);
	}
}

/* Whether any group in a segment here is also in a segment on another GPU.  Looks at all groups in segments. */
bool gpurt_is_spanned(const struct gpurt_sched *s)
{
	struct list_head *node;

	list_for_each(node, &s->groups)
		if (gpurt_group_elsewhere(list_entry(node, struct gpurt_group_gpu, in_sched), false))
			return true;
	return false;
}

/*
 * A real-time client that is in the middle of a segment keeps the GPU if the new policy lets it.
 * -EOPNOTSUPP: the host cannot raise threads, which policy `boosted` needs; -EBUSY: under a lock policy the
 * tenure of a group stays on one GPU, and a group is in segments on several.
 */
int gpurt_set_policy(struct gpurt_sched *s, u32 policy, u64 now)
{
	if (policy >= GPURT_POLICY_COUNT)
		return -EINVAL;
	if (policy == GPURT_POLICY_BOOSTED && !s->ops->raise)
		return -EOPNOTSUPP;
	if (policy == s->policy)
		return 0;
	if (gpurt_policy_locks(policy) && gpurt_is_spanned(s))
		return -EBUSY;
	charge(s, now);
	s->policy = policy;
	if (s->runner) {
		stay_first(s, s->runner);
		gpurt_boost_refresh(s, s->runner, now);
	}
	decide(s, NULL, GPURT_CAUSE_POLICY, now);
	return 0;
}

/*
 * The runner did not have the GPU until @now, because the update that gives it the GPU failed.  The scheduler does not
 * charge that time.  To be called before every decision while updates fail, and once when one succeeds.
 */
void gpurt_uncharged(struct gpurt_sched *s, u64 now)
{
	s->runner_since += now - s->since;
	s->since = now;
	arm(s);
}

/* To be called at s->deadline: notices an overrun. */
void gpurt_tick(struct gpurt_sched *s, u64 now)
{
	decide(s, NULL, GPURT_CAUSE_BUDGET, now);
}

/*
 * Begins a segment of @c, whose task has priority @own at present and asks for @hint (0: for its own).  For a member of
 * a group the level of the group's tenure counts.  Returns -EOVERFLOW if nested too deeply, -EINVAL for a priority out
 * of range, -EOPNOTSUPP if the tenure of a group would span GPUs and one of them has a lock policy.
 */
int gpurt_begin(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 own, u32 hint, u64 now)
{
	struct gpurt_sched_client *e = c->entry;

	if (own > GPURT_MAX_PRIORITY || hint > GPURT_MAX_PRIORITY)
		return -EINVAL;
	if (c->depth >= GPURT_MAX_DEPTH)
		return -EOVERFLOW;
	if (e != c && !e->depth && gpurt_group_elsewhere(e->group, !locking(s)))
		return -EOPNOTSUPP;
	charge(s, now);
	if (e != c) {
		gpurt_check(e->group->unsettled || gpurt_group_holds(e->group));
		if (!c->depth)
			line_up_member(c, (u8)own);
		gpurt_group_opened(e->group->group);
		e->depth++;
	}
	if (c->depth++) {
		decide(s, e, GPURT_CAUSE_BEGIN, now);
		return 0;
	}
	if (e == c && s->policy != GPURT_POLICY_JOB)
		start(s, c, now);
	c->boost.working = false;
	c->granted = false;
	c->hint = (u8)hint;
	if (e == c) {
		c->own = (u8)own;
		place(s, c, now);
	} else {
		enter(s, c, now);
	}
	c->segments++;
	s->ops->event(s, c, GPURT_EVENT_BEGIN, now);
	decide(s, e, GPURT_CAUSE_BEGIN, now);
	/* Where everyone runs, no update gives the client the GPU: report that it may use the GPU. */
	if (!c->granted && gpurt_on_runlist(s, c))
		gained(s, c, now);
	return 0;
}

/* Ends the innermost segment.  -ENOENT if none is open. */
int gpurt_end(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (!c->depth)
		return -ENOENT;
	gpurt_check(c->entry == c || c->entry->group->unsettled || gpurt_group_holds(c->entry->group));
	charge(s, now);
	if (c->depth > 1) {
		c->depth--;
		if (c->entry != c) {
			c->entry->depth--;
			gpurt_group_closed(c->entry->group->group, 1);
		}
	} else {
		leave(s, c, now);
		s->ops->event(s, c, GPURT_EVENT_END, now);
	}
	decide(s, c->entry, GPURT_CAUSE_END, now);
	return 0;
}

/* The state of the client's task (policy `job`), or the task's own priority, has changed. */
int gpurt_job(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 own, bool runnable, u64 now)
{
	bool had = has_job(c);

	if (own > GPURT_MAX_PRIORITY)
		return -EINVAL;
	charge(s, now);
	if (c->entry != c)
		line_up_member(c, (u8)own);
	c->own = (u8)own;
	c->runnable = runnable;
	rejob(s, c, had, now);
	decide(s, c->entry, GPURT_CAUSE_JOB, now);
	return 0;
}

/*
 * The control plane sets a priority, 0..99, or GPURT_PRIORITY_OWN to undo.  -EOPNOTSUPP: the client is in a
 * group, whose level counts (gpurt_group_set_level()).
 */
int gpurt_set_priority(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 priority, u64 now)
{
	if (priority > GPURT_MAX_PRIORITY && priority != GPURT_PRIORITY_OWN)
		return -EINVAL;
	if (c->entry != c)
		return -EOPNOTSUPP;
	charge(s, now);
	c->set = (u8)priority;
	place(s, c, now);
	decide(s, NULL, GPURT_CAUSE_PRIORITY, now);
	return 0;
}

/*
 * Sets the budget from now on, also for open segments; nothing of it has been used.  @limit 0: no budget.  -EINVAL:
 * @limit above @period, @period too short, or no such @action.
 */
int gpurt_set_budget(struct gpurt_sched *s, struct gpurt_budget *b, u64 limit, u64 period, u32 action, u64 now)
{
	if (action >= GPURT_OVERRUN_COUNT || limit > period)
		return -EINVAL;
	charge(s, now);
	gpurt_budget_start(b, limit, period, action);
	decide(s, NULL, GPURT_CAUSE_BUDGET, now);
	return 0;
}

/* As gpurt_join_budget(); the caller decides afterwards. */
static void move_to_budget(struct gpurt_sched *s, struct gpurt_sched_client *c, struct gpurt_budget *b, u64 now)
{
	if (c->budget == b)
		return;
	charge(s, now);
	/* The host may free the budget that the client leaves, so an update that is not over is paid for now. */
	if (s->payer == c->budget)
		gpurt_updated(s, now, 0);
	if (c->budget)
		c->budget->queued -= (u32)queued(c);
	c->budget = b;
	if (b)
		b->queued += (u32)queued(c);
}

/* Puts the client, or its group here, under the budget @b (NULL: none); a new budget is zeroed memory. */
void gpurt_join_budget(struct gpurt_sched *s, struct gpurt_sched_client *client, struct gpurt_budget *b, u64 now)
{
	struct gpurt_sched_client *c = client->entry;

	if (c->budget == b)
		return;
	move_to_budget(s, c, b, now);
	decide(s, NULL, GPURT_CAUSE_BUDGET, now);
}

void gpurt_set_exempt(struct gpurt_sched *s, struct gpurt_sched_client *c, bool exempt, u64 now)
{
	if (c->exempt == exempt)
		return;
	c->exempt = exempt;
	if (!s->runner || s->runner == c->entry)
		return;
	ask(s, NULL, GPURT_CAUSE_EXEMPT, now);
	if (!c->depth && !engaged(s, c))
		return;
	if (exempt)
		gained(s, c, now);
	else
		lost(s, c, now);
}

/* Ends all segments of the client, because its TSGs were killed. */
void gpurt_killed(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (!c->depth)
		return;
	charge(s, now);
	leave(s, c, now);
	s->ops->event(s, c, GPURT_EVENT_END, now);
	decide(s, c->entry, GPURT_CAUSE_TSG, now);
}

/*
 * The client has @count TSGs now.  A client that loses its last TSG loses its place as well.  A driver asks
 * gpurt_on_runlist() whether a new TSG may run, so no update is due.
 */
void gpurt_set_tsgs(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 count, u64 now)
{
	u32 cause = count > c->tsgs ? GPURT_CAUSE_JOB : GPURT_CAUSE_TSG;
	bool had = has_job(c);

	if (count == c->tsgs)
		return;
	charge(s, now);
	c->tsgs = count;
	rejob(s, c, had, now);
	if (!count && c->depth) {
		leave(s, c, now);
		s->ops->event(s, c, GPURT_EVENT_END, now);
	}
	decide(s, c->entry, cause, now);
}

void gpurt_tsg_opened(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	gpurt_set_tsgs(s, c, c->tsgs + 1, now);
}

void gpurt_tsg_closed(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (c->tsgs)
		gpurt_set_tsgs(s, c, c->tsgs - 1, now);
}

/* The client died, executed another program, or closed its descriptor.  Its memory is the host's again. */
void gpurt_gone(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	struct gpurt_sched_client *e = c->entry;
	bool with_owner = e != c && s->runner == e && !c->exempt;

	charge(s, now);
	c->runnable = false;
	c->tsgs = 0;
	c->boost.asked = 0;
	c->boost.turn = false;
	rejob(s, c, false, now);
	leave(s, c, now);
	s->ops->event(s, c, GPURT_EVENT_GONE, now);
	if (e != c) {
		gpurt_queue_del(&e->group->group->members, &c->in_order, c->own);
		c->held_ns = gpurt_client_held(c);
		c->entry = c;
		e->group->members--;
		gpurt_boost_refresh(s, c, now);	/* its group may have raised it without a segment */
	}
	decide(s, e, GPURT_CAUSE_GONE, now);
	/* Its process may live on with TSGs in the driver. */
	if (with_owner && s->runner == e)
		ask(s, e->budget, GPURT_CAUSE_GONE, now);
	if (e->group && !e->group->members)
		gpurt_join_budget(s, e, NULL, now);
}

/* Whether the TSGs of @c are on the runlist.  True for everyone while the GPU is shared. */
bool gpurt_on_runlist(const struct gpurt_sched *s, const struct gpurt_sched_client *c)
{
	return !s->runner || s->runner == c->entry || c->exempt;
}

u32 gpurt_state_of(const struct gpurt_sched *s, const struct gpurt_sched_client *c)
{
	if (!c->depth && !engaged(s, c))
		return GPURT_STATE_IDLE;
	return gpurt_on_runlist(s, c) ? GPURT_STATE_RUNNING : GPURT_STATE_PENDING;
}

/* Initialises the group's part on that GPU. */
void gpurt_group_gpu_init(struct gpurt_group_gpu *g, struct gpurt_group *group, struct gpurt_sched *s)
{
	*g = (struct gpurt_group_gpu){ .group = group, .sched = s };
	gpurt_sched_client_init(&g->core);
	g->core.group = g;
	INIT_LIST_HEAD(&g->in_sched);
	INIT_LIST_HEAD(&g->inside);
	INIT_LIST_HEAD(&g->working);
	list_add_tail(&g->in_group, &group->gpus);
	s->stamps = group->stamps;
}

/*
 * A client that is in a segment of @level has become a member: from now on its open segments are the group's.  If a
 * tenure begins with it, the tenure has at least that level.
 */
static void bring(struct gpurt_sched *s, struct gpurt_sched_client *c, u8 level, u64 now)
{
	struct gpurt_group_gpu *g = c->entry->group;

	gpurt_group_opened(g->group);
	if (g->group->open == 1 && level > g->group->level)
		g->group->level = level;
	g->core.depth++;
	enter(s, c, now);
	g->group->open += c->depth - 1;
	g->core.depth += c->depth - 1;
}

/* The client becomes a member in its present state.  All checks have passed. */
static void become_member(struct gpurt_group_gpu *g, struct gpurt_sched_client *c, u32 own, u64 now)
{
	bool had = has_job(c), granted = c->granted, owner, on;
	struct gpurt_sched_client *e = &g->core, *old;
	struct gpurt_sched *s = g->sched;
	u8 level;

	charge(s, now);
	on = gpurt_on_runlist(s, c);
	owner = s->runner == c;
	level = c->level;
	/* Its segments and its job go on meanwhile: readers must not take them for ended. */
	c->moving = true;
	c->hint = 0;
	c->demoted = GPURT_NOT_DEMOTED;
	rejob(s, c, had, now);
	move_to_budget(s, e, c->budget, now);
	move_to_budget(s, c, NULL, now);
	c->joined_ns = e->held_ns;
	c->entry = e;
	g->members++;
	if (g->group->set == GPURT_PRIORITY_OWN)
		g->group->set = c->set;
	line_up_member(c, (u8)own);
	/* The client's TSGs join the others' TSGs on the runlist, or theirs join the owner's. */
	if (owner)
		s->runner = e;
	if (owner || (s->runner == e && !c->exempt))
		ask(s, e->budget, GPURT_CAUSE_EXEMPT, now);
	if (owner)
		each(s, e, gained_if_not_exempt, now);
	rejob(s, c, false, now);
	c->moving = false;
	if (c->depth) {
		bring(s, c, level, now);
		c->granted = granted;
	}
	old = s->runner;
	decide(s, NULL, GPURT_CAUSE_JOB, now);
	if (c->depth && !on && s->runner == old && gpurt_on_runlist(s, c))
		gained(s, c, now);
	gpurt_boost_refresh(s, c, now);		/* the group may own the GPU and raise all its members */
}

/*
 * Why gpurt_group_add(), or gpurt_group_move() with @moved, would refuse the client, apart from budgets; 0: it would
 * not.  A host asks before it changes anything.
 */
int gpurt_group_refusal(const struct gpurt_group_gpu *g, const struct gpurt_sched_client *c, bool moved)
{
	if (c->entry != c || (c->depth && !moved))
		return -EBUSY;
	if (c->depth && !g->core.depth && gpurt_group_elsewhere(g, !locking(g->sched)))
		return -EOPNOTSUPP;
	return 0;
}

static int admit(struct gpurt_group_gpu *g, struct gpurt_sched_client *c, u32 own, bool moved, u64 now)
{
	int err = gpurt_group_refusal(g, c, moved);

	if (!err && g->members && g->core.budget != c->budget)
		err = -EDQUOT;
	if (!err)
		become_member(g, c, own, now);
	return err;
}

/*
 * From now on, until it is gone, the client is a member; its thread has priority @own.  If the control plane has set a
 * priority for the client, it becomes the group's, unless the group has one.  -EBUSY: the client is in a segment, or in
 * a group already; -EDQUOT: it is under another budget than the group.
 */
int gpurt_group_add(struct gpurt_group_gpu *g, struct gpurt_sched_client *c, u32 own, u64 now)
{
	if (own > GPURT_MAX_PRIORITY)
		return -EINVAL;
	return admit(g, c, own, false, now);
}

/*
 * The administrator makes the client a member, also in the middle of a segment: the cure where programs wait for one
 * another.  The client's open segments now count for the group, at the key of the group's tenure.  If the group has no
 * tenure, one begins, and the group comes after its equals.  Unlike gpurt_group_add() it may also return -EOPNOTSUPP: a
 * tenure would span GPUs, one with a lock policy.
 */
int gpurt_group_move(struct gpurt_group_gpu *g, struct gpurt_sched_client *c, u64 now)
{
	return admit(g, c, c->own, true, now);
}

/*
 * The control plane sets the group's level, 0..99, or GPURT_PRIORITY_OWN to undo, also for a tenure under way, on all
 * GPUs.  To be called for one of its GPUs.
 */
int gpurt_group_set_level(struct gpurt_group_gpu *g, u32 level, u64 now)
{
	if (level > GPURT_MAX_PRIORITY && level != GPURT_PRIORITY_OWN)
		return -EINVAL;
	g->group->set = (u8)level;
	if (g->group->open) {
		g->group->level = gpurt_group_level(g->group);
		regroup(g->sched, g, now);
	}
	gpurt_group_settle(g, now);
	return 0;
}

/* Brings the group's entry to the key that its tenure has now; see gpurt_sched_ops.regroup. */
void gpurt_group_settle(struct gpurt_group_gpu *g, u64 now)
{
	struct gpurt_sched_client *e = &g->core;
	struct gpurt_sched *s = g->sched;

	charge(s, now);
	g->unsettled = false;
	if (e->depth) {
		e->own = g->group->level;
		if (g->group->demoted)
			e->demoted = GPURT_DEMOTED_SEGMENT;
		place(s, e, now);
	}
	decide(s, NULL, GPURT_CAUSE_PRIORITY, now);
}

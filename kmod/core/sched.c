// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "sched.h"

static bool locking(const struct gpurt_sched *s)
{
	return s->policy == GPURT_POLICY_LOCK_PRIORITY || s->policy == GPURT_POLICY_LOCK_FIFO;
}

static bool has_job(const struct gpurt_sched_client *c)
{
	return c->runnable && c->tsgs > 0;
}

/* Whether the client asks for the GPU, at whatever priority. */
static bool engaged(const struct gpurt_sched *s, const struct gpurt_sched_client *c)
{
	return s->policy == GPURT_POLICY_JOB ? has_job(c) : c->depth > 0;
}

/*
 * What decides in a segment that begins with these priorities: @set by the control plane, the task's @own, and
 * @hint asked for by the segment (0: none).
 */
u32 gpurt_begin_level(u32 set, u32 own, u32 hint)
{
	if (set != GPURT_PRIORITY_OWN)
		return set;
	return hint ? hint : own;
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

	return c && s->lock_bound && locking(s) && !c->level && !c->demoted ? s->runner_since + s->lock_bound : U64_MAX;
}

static void arm(struct gpurt_sched *s)
{
	struct gpurt_budget *b = s->runner ? s->runner->budget : NULL;
	u64 left = b ? gpurt_budget_end(b, s->since) : U64_MAX, end = lock_end(s);

	s->deadline = left < end ? left : end;
	if (s->behind)
		s->deadline = s->since;
}

static bool queued(const struct gpurt_sched_client *c)
{
	return !list_empty(&c->in_segments) || !list_empty(&c->in_jobs);
}

/* A fact about the client changed.  Where no thread is raised, no decision pays for more. */
static void refresh_boost(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (s->policy == GPURT_POLICY_BOOSTED || c->boost.self || c->boost.turn || c->boost.raised)
		gpurt_boost_refresh(s, c, now);
}

/* Moves @node of a client from level @old of @q (if it is there) to @new (if @want). */
static void move(struct gpurt_queue *q, struct list_head *node, u8 old, u8 new, bool want, bool first)
{
	bool in = !list_empty(node);

	if (in && want && old == new)
		return;
	if (in)
		gpurt_queue_del(q, node, old);
	if (want && in && first)
		gpurt_queue_add_first(q, node, new);
	else if (want)
		gpurt_queue_add(q, node, new);
}

/*
 * Puts the client into the queues where its facts say it belongs.  On a new level the runner stays ahead of
 * its equals, for an equal never preempts; anyone else comes last, for the others were there first.
 */
static void place(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	bool segment = c->depth > 0 && !c->demoted, first = c == s->runner;
	u8 old = c->level, new = level_of(c);
	bool was = queued(c);

	c->level = new;
	move(&s->segments, &c->in_segments, old, new, segment, first);
	move(&s->jobs, &c->in_jobs, old, new, has_job(c) && !c->demoted, first);
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

/* Charges the client's budget, if it has one, for owning the GPU from @from to @to. */
static void use(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 from, u64 to)
{
	if (!c->budget || !gpurt_budget_charge(c->budget, from, to))
		return;
	c->overruns++;
	s->ops->event(s, c, GPURT_EVENT_OVERRUN, to);
}

/* Whether the client's budget leaves it nothing but best effort now. */
static bool is_spent(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	use(s, c, now, now);
	return c->budget && gpurt_budget_spent(c->budget);
}

/* Makes the client best effort until its segment ends, or its job. */
static void demote(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	c->demoted = s->policy == GPURT_POLICY_JOB ? GPURT_DEMOTED_JOB : GPURT_DEMOTED_SEGMENT;
	place(s, c, now);
}

/* Charges the runner for the time since the last charge. */
static void charge(struct gpurt_sched *s, u64 now)
{
	struct gpurt_sched_client *c = s->runner;
	u64 since = s->since;

	s->since = now;
	/* The next period does not begin before the update is over that this one pays for. */
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
		c->overruns++;
		s->ops->event(s, c, GPURT_EVENT_OVERRUN, now);
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

	switch (s->policy) {
	case GPURT_POLICY_SEGMENT:
	case GPURT_POLICY_BOOSTED:
	case GPURT_POLICY_LOCK_PRIORITY:
		first = gpurt_queue_first(&s->segments);
		if (first)
			c = list_entry(first, struct gpurt_sched_client, in_segments);
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

/* @c, which asks for the GPU, is on the runlist now and was not before, or was never told that it is. */
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

/* Reports which clients gained and lost the GPU when the runner changed from @old. */
static void tell(struct gpurt_sched *s, struct gpurt_sched_client *old, u64 now)
{
	struct gpurt_sched_client *c = s->runner;

	if (!old)
		s->ops->event(s, NULL, GPURT_EVENT_PREEMPT, now);
	else if (gpurt_state_of(s, old) == GPURT_STATE_PENDING)
		lost(s, old, now);
	if (!c)
		s->ops->event(s, NULL, GPURT_EVENT_RESUME, now);
	else if (!c->granted || (old && !c->exempt))
		gained(s, c, now);
}

/*
 * The client that is to run now.  Clients of a budget that is spent are demoted when it is their turn, and not more
 * than GPURT_MAX_BUDGET_CLIENTS in one decision.  If there are more, because they joined the budget in the middle of
 * their segments, the GPU stays whose it is until the tick that follows at once.
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
 * Which budget pays for the update that makes @next the runner in place of @old: that of a client which used it up and
 * was demoted, else that of @by, which began, ended or is gone.  Otherwise a client that begins and ends all the time
 * would own the GPU for little time and keep it busy with updates.
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
	/* Then the deadline is that of the decision. */
	if (!s->payer)
		return;
	gpurt_budget_pay(s->payer, now, now - s->asked + theta);
	s->payer = NULL;
	arm(s);
}

/*
 * Brings the runlist to what the policy wants now.  No update where nothing changes.  @by: the client whose call or end
 * this is; NULL: none.
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
		gpurt_updated(s, now, 0);
		s->payer = payer(old, next, by);
		s->asked = now;
		s->ops->commit(s, next, cause, now);
		tell(s, old, now);
	}
	arm(s);
}

/* A new segment or job, and of the last one's demotion only its reason counts. */
static void start(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	bool crowded = !queued(c) && c->budget && gpurt_budget_demotes(c->budget) &&
		       c->budget->queued >= GPURT_MAX_BUDGET_CLIENTS;

	c->demoted = GPURT_NOT_DEMOTED;
	if (is_spent(s, c, now) || crowded)
		c->demoted = s->policy == GPURT_POLICY_JOB ? GPURT_DEMOTED_JOB : GPURT_DEMOTED_SEGMENT;
	c->granted = false;
}

/* The last open segment of the client is over; the caller decides afterwards. */
static void leave(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	c->depth = 0;
	c->hint = 0;
	if (c->demoted == GPURT_DEMOTED_SEGMENT)
		c->demoted = GPURT_NOT_DEMOTED;
	place(s, c, now);
}

/* The client's task or its TSGs changed; @had says whether it had a job before. */
static void rejob(struct gpurt_sched *s, struct gpurt_sched_client *c, bool had, u64 now)
{
	if (has_job(c) && !had && s->policy == GPURT_POLICY_JOB)
		start(s, c, now);
	else if (!has_job(c) && c->demoted == GPURT_DEMOTED_JOB)
		c->demoted = GPURT_NOT_DEMOTED;
	place(s, c, now);
}

void gpurt_sched_init(struct gpurt_sched *s, const struct gpurt_sched_ops *ops, void *host, u64 now)
{
	s->ops = ops;
	s->host = host;
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
}

void gpurt_sched_client_init(struct gpurt_sched_client *c)
{
	*c = (struct gpurt_sched_client){ .set = GPURT_PRIORITY_OWN };
	INIT_LIST_HEAD(&c->in_segments);
	INIT_LIST_HEAD(&c->in_order);
	INIT_LIST_HEAD(&c->in_jobs);
}

/* The new policy may know another order among equals, but an equal never preempts: the runner comes first. */
static void stay_first(struct gpurt_queue *q, struct list_head *node, u8 level)
{
	if (list_empty(node))
		return;
	gpurt_queue_del(q, node, level);
	gpurt_queue_add_first(q, node, level);
}

/*
 * A real-time client that is in the middle of a segment keeps the GPU if the new policy lets it.  -EOPNOTSUPP: the host
 * cannot raise threads, which policy `boosted` needs.
 */
int gpurt_set_policy(struct gpurt_sched *s, u32 policy, u64 now)
{
	if (policy >= GPURT_POLICY_COUNT)
		return -EINVAL;
	if (policy == GPURT_POLICY_BOOSTED && !s->ops->raise)
		return -EOPNOTSUPP;
	if (policy == s->policy)
		return 0;
	charge(s, now);
	s->policy = policy;
	if (s->runner) {
		stay_first(&s->segments, &s->runner->in_segments, s->runner->level);
		stay_first(&s->jobs, &s->runner->in_jobs, s->runner->level);
		gpurt_boost_refresh(s, s->runner, now);
	}
	decide(s, NULL, GPURT_CAUSE_POLICY, now);
	return 0;
}

/*
 * The runner did not have the GPU until @now, for the update that gives it the GPU had failed.  That time is not
 * charged.  To be called before every decision while updates fail, and once when one succeeds.
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
 * Begins a segment of @c, whose task has priority @own at present and asks for @hint (0: for its own).
 * Returns -EOVERFLOW if nested too deeply, -EINVAL for a priority out of range.
 */
int gpurt_begin(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 own, u32 hint, u64 now)
{
	if (own > GPURT_MAX_PRIORITY || hint > GPURT_MAX_PRIORITY)
		return -EINVAL;
	if (c->depth >= GPURT_MAX_DEPTH)
		return -EOVERFLOW;
	charge(s, now);
	if (c->depth++) {
		decide(s, c, GPURT_CAUSE_BEGIN, now);
		return 0;
	}
	if (s->policy != GPURT_POLICY_JOB)
		start(s, c, now);
	c->boost.working = false;
	c->granted = false;
	c->own = (u8)own;
	c->hint = (u8)hint;
	place(s, c, now);
	c->segments++;
	s->ops->event(s, c, GPURT_EVENT_BEGIN, now);
	decide(s, c, GPURT_CAUSE_BEGIN, now);
	/* Where everyone runs nobody is handed the GPU: say that it may be used. */
	if (!c->granted && gpurt_on_runlist(s, c))
		gained(s, c, now);
	return 0;
}

/* Ends the innermost segment.  -ENOENT if none is open. */
int gpurt_end(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (!c->depth)
		return -ENOENT;
	charge(s, now);
	if (c->depth > 1) {
		c->depth--;
	} else {
		leave(s, c, now);
		s->ops->event(s, c, GPURT_EVENT_END, now);
	}
	decide(s, c, GPURT_CAUSE_END, now);
	return 0;
}

/* The client's task changed state (policy `job`), or its own priority did. */
int gpurt_job(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 own, bool runnable, u64 now)
{
	bool had = has_job(c);

	if (own > GPURT_MAX_PRIORITY)
		return -EINVAL;
	charge(s, now);
	c->own = (u8)own;
	c->runnable = runnable;
	rejob(s, c, had, now);
	decide(s, c, GPURT_CAUSE_JOB, now);
	return 0;
}

/* The control plane sets a priority, 0..99, or GPURT_PRIORITY_OWN to undo. */
int gpurt_set_priority(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 priority, u64 now)
{
	if (priority > GPURT_MAX_PRIORITY && priority != GPURT_PRIORITY_OWN)
		return -EINVAL;
	charge(s, now);
	c->set = (u8)priority;
	place(s, c, now);
	decide(s, NULL, GPURT_CAUSE_PRIORITY, now);
	return 0;
}

/*
 * The budget is so from now on, for segments that are open too; nothing of it has been used.  A @limit of 0: there is
 * none.  -EINVAL: more than the @period, or that is too short, or no such @action.
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

/* From now on the client is under that budget, which is zero where it is new; NULL: under none. */
void gpurt_join_budget(struct gpurt_sched *s, struct gpurt_sched_client *c, struct gpurt_budget *b, u64 now)
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
	decide(s, NULL, GPURT_CAUSE_BUDGET, now);
}

void gpurt_set_exempt(struct gpurt_sched *s, struct gpurt_sched_client *c, bool exempt, u64 now)
{
	if (c->exempt == exempt)
		return;
	c->exempt = exempt;
	if (!s->runner || s->runner == c)
		return;
	gpurt_updated(s, now, 0);
	s->ops->commit(s, s->runner, GPURT_CAUSE_EXEMPT, now);
	if (!c->depth && !engaged(s, c))
		return;
	if (exempt)
		gained(s, c, now);
	else
		lost(s, c, now);
}

/* All segments of the client are over, whether it wants or not: its TSGs were killed. */
void gpurt_killed(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now)
{
	if (!c->depth)
		return;
	charge(s, now);
	leave(s, c, now);
	s->ops->event(s, c, GPURT_EVENT_END, now);
	decide(s, c, GPURT_CAUSE_TSG, now);
}

/*
 * The client has @count TSGs now.  A client that loses its last TSG loses its place as well.  A driver asks
 * gpurt_on_runlist() whether a new TSG may run; no update is due.
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
	decide(s, c, cause, now);
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
	charge(s, now);
	c->runnable = false;
	c->tsgs = 0;
	c->boost.asked = 0;
	c->boost.turn = false;
	rejob(s, c, false, now);
	leave(s, c, now);
	s->ops->event(s, c, GPURT_EVENT_GONE, now);
	decide(s, c, GPURT_CAUSE_GONE, now);
}

/* Whether the TSGs of @c are on the runlist.  True for everyone while the GPU is shared. */
bool gpurt_on_runlist(const struct gpurt_sched *s, const struct gpurt_sched_client *c)
{
	return !s->runner || s->runner == c || c->exempt;
}

u32 gpurt_state_of(const struct gpurt_sched *s, const struct gpurt_sched_client *c)
{
	if (!c->depth && !engaged(s, c))
		return GPURT_STATE_IDLE;
	return gpurt_on_runlist(s, c) ? GPURT_STATE_RUNNING : GPURT_STATE_PENDING;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Policy `boosted`: a client's thread raises and lowers itself in each of its calls.
 *
 * A thread of form `self` is raised from before its begin until after its end, hence also while it waits at the gate.
 * A thread of form `owner` or `fence` is raised before it asks for a begin, and is lowered if the begin does not make
 * it the owner.  So nothing on its CPU delays its update.  While it waits at the gate it has the priority that it has
 * without the call (gate.c).  Such a thread may be off its CPU when it is handed the gate.  From then on gpurt-boost
 * carries out what the scheduler says of the thread.
 */
#include <linux/capability.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>

#include "base/raised.h"
#include "state/boost.h"
#include "state/client.h"
#include "state/file.h"
#include "state/team.h"

/*
 * Called with `calls` and the lock held, by the client's thread, which needs that @level for its call.  Until
 * gpurt_boost_returns() the thread itself carries out `level`.
 */
static void enter(struct gpurt_boosted *b, u32 level)
{
	b->asked = level;
	WRITE_ONCE(b->call, GPURT_BOOST_CALLS);
}

/* The same, by a thread that is about to begin the outermost segment.  @right: from check(). */
static void ask(struct gpurt_client *client, u32 level, u32 flags, u32 right)
{
	struct gpurt_boosted *b = &client->boost;
	u32 form = gpurt_boost_stated(flags);

	enter(b, level);
	WRITE_ONCE(b->asker, current);
	if (test_bit(GPURT_BOOST_OVER, &b->flags))
		return;
	if (b->raised.task)
		gpurt_raised_let_go(&b->raised);
	clear_bit(GPURT_BOOST_WORKING, &b->flags);
	WRITE_ONCE(b->form, gpurt_boost_form_of(client, form));
	gpurt_raised_take(&b->raised, current, right);
	/* While a commit sleeps, its caller's CPU is free for other threads, which the driver may need. */
	assign_bit(GPURT_BOOST_SPINS, &b->flags,
		   form != GPURT_FORM_SELF && !(flags & GPURT_BEGIN_WAIT) && !client->gpu->ops.commit_sleeps);
	gpurt_boost_settle(client);
}

/* Whether the caller's user has the right to a CPU priority: 0 or -EPERM.  *@right: the highest that was found. */
static int find_right(u32 needed, u32 *right)
{
	*right = min_t(unsigned long, rlimit(RLIMIT_RTPRIO), MAX_RT_PRIO - 1);
	if (needed <= *right)
		return 0;
	*right = MAX_RT_PRIO - 1;
	return capable(CAP_SYS_NICE) ? 0 : -EPERM;
}

/*
 * Returns 0 if the caller may begin the outermost segment of a client at that @level, in the @form that it states.
 * Otherwise returns the error of uapi/gpurt.h, "Raised threads".  *@right: the highest CPU priority that its user was
 * found to have a right to.
 */
static int check(const struct gpurt_client *client, u32 own, u32 level, u32 form, u32 *right)
{
	u32 needed = gpurt_boost_right(gpurt_normal, gpurt_boost_form_of(client, form), level);
	int err = gpurt_boost_refusal(gpurt_normal, own, level);

	*right = 0;
	if (!level || err)
		return err;
	if (test_bit(GPURT_BOOST_BARRED, &client->boost.flags))
		return -EPERM;
	return find_right(needed, right);
}

/*
 * Whether a group may raise the caller, a thread of priority @own.  Returns 0 or an error of GPURT_IOC_GROUP_JOIN.
 * *@right: as for check().
 */
int gpurt_boost_may_keep(u32 own, u32 *right)
{
	*right = 0;
	if (gpurt_boost_why_not())
		return -EOPNOTSUPP;
	return gpurt_boost_refusal(gpurt_normal, own, 1) ?:
	       find_right(gpurt_boost_right(gpurt_normal, GPURT_FORM_OWNER, 1), right);
}

/* Called with file->lock held.  The client's group raises the caller from now on, instead of another thread. */
void gpurt_boost_keeps(struct gpurt_client *client, u32 right)
{
	struct gpurt_kept *k = &client->kept;
	struct task_struct *before = READ_ONCE(k->raised.task);

	lockdep_assert_held(&client->file->lock);
	if (before == current)
		return;
	if (before) {
		rt_mutex_lock(&client->boost.lock);
		k->over = true;
		rt_mutex_unlock(&client->boost.lock);
		gpurt_boost_have_looked(client);
	}
	rt_mutex_lock(&client->boost.lock);
	k->over = false;
	if (!test_bit(GPURT_BOOST_OVER, &client->boost.flags)) {
		gpurt_raised_take(&k->raised, current, right);
		smp_mb();	/* pairs with gpurt_boost_wanted() and gpurt_boost_bar() */
		gpurt_boost_settle(client);
	}
	rt_mutex_unlock(&client->boost.lock);
}

/*
 * Called by a thread that keeps others from asking, when the client's copy or its request is over: lowers the thread
 * that was raised for it.
 */
void gpurt_boost_copied(struct gpurt_client *client)
{
	struct gpurt_copier *c = &client->copier;
	struct task_struct *raised = READ_ONCE(c->raised.task);

	if (!raised)
		return;
	rt_mutex_lock(&client->boost.lock);
	c->raises = false;
	if (raised == current)
		gpurt_boost_settle(client);
	rt_mutex_unlock(&client->boost.lock);
	if (raised != current)
		gpurt_boost_have_looked(client);
}

/*
 * Called by the client's thread of priority @own that is about to ask for the bus.  Under policy `boosted` the thread
 * raises itself, in form `self`, until gpurt_boost_copied().  Errors: uapi/gpurt.h, "Raised threads".
 */
int gpurt_boost_copies(struct gpurt_client *client, u32 own, u32 level)
{
	struct gpurt_copier *c = &client->copier;
	u32 right;
	int err;

	if (READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED)
		return 0;
	err = check(client, own, level, GPURT_FORM_SELF, &right);
	if (err || !level)
		return err;
	/* The last copy may have lost the bus before its thread noticed. */
	gpurt_boost_copied(client);
	rt_mutex_lock(&client->boost.lock);
	if (!test_bit(GPURT_BOOST_OVER, &client->boost.flags)) {
		gpurt_raised_take(&c->raised, current, right);
		c->raises = true;
		gpurt_boost_settle(client);
	}
	rt_mutex_unlock(&client->boost.lock);
	return 0;
}

/*
 * Called by a client's thread before it asks the gate for a nested begin or an end.  Returns whether the caller is the
 * raised thread.  A call of gpurt_boost_returns() with that answer must follow.
 */
bool gpurt_boost_ends(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;
	bool is;

	/* Another thread of the client may be off its CPU, even because of the raised thread. */
	if (READ_ONCE(b->raised.task) != current)
		return false;
	rt_mutex_lock(&b->calls);
	rt_mutex_lock(&b->lock);
	is = b->raised.task == current;
	if (is)
		enter(b, gpurt_boost_form_now(client) == GPURT_FORM_SELF ? gpurt_level_now(client) : 0);
	rt_mutex_unlock(&b->lock);
	if (!is)
		rt_mutex_unlock(&b->calls);
	return is;
}

/*
 * Called with `calls`, while no segment is open whose thread is raised.  If the last segment was another thread's,
 * gpurt-boost may not have released that thread yet, and no other thread may.
 */
static void forget_another(struct gpurt_client *client)
{
	struct task_struct *task = READ_ONCE(client->boost.raised.task);

	if (task && task != current)
		gpurt_boost_have_looked(client);
}

/*
 * Called by a client's thread of priority @own before it asks the gate for that begin.  Under policy `boosted` it
 * raises itself before it begins the outermost segment.  If it returns 0, gpurt_boost_returns() must follow, with
 * *@raised.  The facts behind this answer may change before the decision: see decide_begin().
 */
int gpurt_boost_begins(struct gpurt_client *client, u32 own, const struct gpurt_begin *begin, bool *raised)
{
	struct gpurt_boosted *b = &client->boost;
	u32 level, right;
	int err;

	*raised = false;
	if (READ_ONCE(client->core.depth)) {
		*raised = gpurt_boost_ends(client);
		return 0;
	}
	if (READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED)
		return 0;
	level = gpurt_level_of_begin(client, own, begin->priority);
	err = check(client, own, level, gpurt_boost_stated(begin->flags), &right);
	if (err || !level)
		return err;
	rt_mutex_lock(&b->calls);
	/* Another thread may have begun the segment meanwhile, and must stay raised. */
	if (READ_ONCE(client->core.depth)) {
		rt_mutex_unlock(&b->calls);
		return 0;
	}
	*raised = true;
	forget_another(client);
	rt_mutex_lock(&b->lock);
	ask(client, level, begin->flags, right);
	rt_mutex_unlock(&b->lock);
	return 0;
}

/*
 * Whether the caller is the client's thread in a call.  That thread is raised unless its scheduling was changed: it may
 * have become an ordinary thread (rt_priority 0), which is not raised.
 */
static bool is_raised(const struct gpurt_client *client)
{
	const struct gpurt_boosted *b = &client->boost;

	return READ_ONCE(b->raised.task) == current && READ_ONCE(b->call) != GPURT_BOOST_IN_NONE &&
	       !gpurt_raised_refused(&b->raised) && current->rt_priority;
}

/*
 * The level that the caller, in a call, is raised for while it waits at the gate.  Since the call began, an
 * administrator may have set a higher level, or a level that its user has no right to.
 */
static u32 raised_for(const struct gpurt_client *client)
{
	const struct gpurt_boosted *b = &client->boost;
	u32 right = b->raised.right;

	if (gpurt_boost_form_now(client) != GPURT_FORM_SELF)
		return MAX_RT_PRIO - 1;
	return min(b->asked, right > gpurt_normal ? right - gpurt_normal : 0);
}

/*
 * The level at which a decision of the caller about the client queues: @level, except under policy `boosted`.  All less
 * urgent callers wait for the caller's CPU.  So under `boosted` a caller that is not raised, and may be preempted, is
 * best effort here.
 */
u32 gpurt_client_queues_at(const struct gpurt_client *client, u32 level)
{
	if (likely(READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED))
		return level;
	/* The level of a nested begin decides nothing, and was not checked. */
	if (READ_ONCE(client->core.depth))
		level = min_t(u32, level, gpurt_level_now(client));
	if (is_raised(client))
		return min(level, raised_for(client));
	return current->rt_priority >= gpurt_boost_cpu(gpurt_normal, GPURT_RAISED_TOP) ? level : 0;
}

/*
 * The level at which a caller of any process queues: not above the caller's priority.  Otherwise a preempted caller
 * would keep all callers waiting that are less urgent than the client.
 */
u32 gpurt_client_caller_level(const struct gpurt_client *client)
{
	return gpurt_client_queues_at(client, min_t(u32, gpurt_level_now(client), current->rt_priority));
}

/* Whether the caller is the client's thread in a call, and is raised while its client owns the GPU. */
bool gpurt_boost_is_owners(const struct gpurt_client *client)
{
	return is_raised(client) && gpurt_boost_form_now(client) != GPURT_FORM_SELF;
}

/* Whether the owner's thread keeps its CPU while it waits at the gate. */
bool gpurt_boost_spins(const struct gpurt_client *client)
{
	return test_bit(GPURT_BOOST_SPINS, &client->boost.flags);
}

/* Called by the owner's thread when it must wait at the gate: meanwhile it has its priority without the call. */
void gpurt_boost_waits(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;

	cmpxchg(&b->call, GPURT_BOOST_CALLS, GPURT_BOOST_WAITS);	/* unless it was handed the gate already */
	smp_mb();	/* pairs with gpurt_boost_wanted(), also where that has failed */
	rt_mutex_lock(&b->lock);
	b->asked = 0;
	gpurt_boost_settle(client);
	rt_mutex_unlock(&b->lock);
}

/*
 * Called with the lock of the gate held.  The client's thread is the next to have the gate, but is off its CPU.
 */
void gpurt_boost_handed(struct gpurt_client *client)
{
	WRITE_ONCE(client->boost.call, GPURT_BOOST_HANDED);
	gpurt_boost_look(client);
}

/*
 * Called by that thread with the lock of the gate held.  Whether it had been handed the gate, before a more urgent
 * decision passed it.
 */
bool gpurt_boost_passed(struct gpurt_client *client)
{
	bool had = READ_ONCE(client->boost.call) == GPURT_BOOST_HANDED;

	if (had)
		WRITE_ONCE(client->boost.call, GPURT_BOOST_WAITS);
	return had;
}

/*
 * A thread other than the raised one has taken a decision about the client.  While the raised thread's segment is open,
 * gpurt_boost_wanted() has had gpurt-boost look at every change.  Threads can make calls that change nothing as often
 * as they like, and these must not keep gpurt-boost busy.
 */
static void another_returns(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;

	/* gpurt-boost looked at a kept thread when its level changed. */
	if (!READ_ONCE(b->raised.task) && !READ_ONCE(client->copier.raised.task))
		return;
	if (READ_ONCE(b->raised.task) && test_bit(GPURT_BOOST_MAY, &b->flags) && READ_ONCE(client->core.depth))
		gpurt_boost_flush(client);
	else
		gpurt_boost_have_looked(client);
}

/*
 * In process context.  A decision about the client has been carried out or refused.  @raised: the answer of
 * gpurt_boost_begins() or gpurt_boost_ends(); false: the caller may be any thread.
 */
void gpurt_boost_returns(struct gpurt_client *client, bool raised)
{
	struct gpurt_boosted *b = &client->boost;

	if (!raised) {
		another_returns(client);
		return;
	}
	smp_store_mb(b->call, GPURT_BOOST_IN_NONE);	/* pairs with gpurt_boost_wanted() and gpurt_boost_bar() */
	rt_mutex_lock(&b->lock);
	WRITE_ONCE(b->asker, NULL);
	b->asked = 0;
	gpurt_boost_settle(client);
	rt_mutex_unlock(&b->lock);
	rt_mutex_unlock(&b->calls);
}

/* Called by a thread that is about to wait (@w).  In form `fence` it is not raised until its work has completed. */
void gpurt_boost_works(struct gpurt_client *client, const struct gpurt_wait *w)
{
	struct gpurt_boosted *b = &client->boost;

	if (READ_ONCE(b->raised.task) != current || gpurt_boost_form_now(client) != GPURT_FORM_FENCE ||
	    w->what == GPURT_WAIT_GRANT)
		return;
	rt_mutex_lock(&b->lock);
	if (b->raised.task == current) {
		b->awaited = *w;
		/* The driver completes work and answers under one lock: one of the two sees the other. */
		set_bit(GPURT_BOOST_WORKING, &b->flags);
		gpurt_boost_settle(client);
	}
	rt_mutex_unlock(&b->lock);
}

/* Whether the caller is the client's thread, and is not raised because its work has not completed. */
static bool is_working(const struct gpurt_client *client)
{
	return READ_ONCE(client->boost.raised.task) == current && test_bit(GPURT_BOOST_WORKING, &client->boost.flags);
}

/* Called by a thread that returns from that wait because its work is done. */
void gpurt_boost_worked(struct gpurt_client *client, const struct gpurt_wait *w)
{
	struct gpurt_boosted *b = &client->boost;

	if (w->what == GPURT_WAIT_GRANT || !is_working(client))
		return;
	rt_mutex_lock(&b->lock);
	if (is_working(client)) {
		/* Other threads may have made the client busy again since. */
		clear_bit(GPURT_BOOST_WORKING, &b->flags);
		gpurt_boost_settle(client);
	}
	rt_mutex_unlock(&b->lock);
}

/*
 * Called by a thread before it submits work.  The thread may have seen in its memory that all its work has completed:
 * then its wait is over.  Once there is new work, the driver would no longer report that.
 */
void gpurt_boost_submits(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;

	if (!is_working(client))
		return;
	rt_mutex_lock(&b->lock);
	if (is_working(client))
		gpurt_boost_settle(client);
	rt_mutex_unlock(&b->lock);
}

/* Any context, by a caller that has a reference.  Work of the client has completed, or was dropped. */
void gpurt_boost_completed(struct gpurt_client *client)
{
	if (unlikely(test_bit(GPURT_BOOST_WORKING, &client->boost.flags)))
		gpurt_boost_look(client);
}

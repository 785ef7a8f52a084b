// SPDX-License-Identifier: GPL-2.0
/*
 * Policy `boosted`: what a client's thread does about its own raising in each of its calls.
 *
 * A thread of form `self` is raised from before its begin until after its end, hence also while it waits at the gate.
 * One of form `owner` or `fence` is raised before it asks for a begin, so that nothing of its CPU comes between its
 * update and the raise, and is lowered if it does not own the GPU then.  If it has to wait at the gate it waits as it
 * would execute without its call (gate.c).  Such a thread may be kept from its CPU when it is handed the gate, and from
 * then on gpurt-boost carries out what the scheduler says of it.
 */
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "boost.h"
#include "client.h"
#include "core/boost.h"
#include "gpu.h"

/* Called with the lock held, by a thread that is about to begin the outermost segment. */
static void ask(struct gpurt_client *client, u32 level, u32 flags)
{
	struct gpurt_boosted *b = &client->boost;

	if (b->over)
		return;
	if (b->raised.task)
		gpurt_raised_let_go(&b->raised);
	gpurt_raised_take(&b->raised, current, gpurt_boost_cpu(gpurt_normal, level));
	WRITE_ONCE(b->asker, current);
	WRITE_ONCE(b->turn, false);
	WRITE_ONCE(b->working, false);
	WRITE_ONCE(b->form, gpurt_boost_stated(flags));
	/* While a commit sleeps its caller's CPU goes to others anyway, whom the driver may need. */
	b->spins = !(flags & GPURT_BEGIN_WAIT) && !client->gpu->ops.commit_sleeps;
	b->asked = level;
	gpurt_boost_settle(client);
}

/*
 * Whether the caller may begin the outermost segment of a client at that @level under policy `boosted`: 0, or as
 * uapi/gpurt.h says under "Raised threads".
 */
static int check(const struct gpurt_client *client, u32 own, u32 level)
{
	int err = gpurt_boost_refusal(gpurt_normal, own, level);

	if (!level || err)
		return err;
	if (READ_ONCE(client->boost.barred))
		return -EPERM;
	return gpurt_boost_cpu(gpurt_normal, level) <= rlimit(RLIMIT_RTPRIO) || capable(CAP_SYS_NICE) ? 0 : -EPERM;
}

/*
 * Called by a client's thread of priority @own before it asks the gate for that begin.  Under policy `boosted` it
 * raises itself before it begins the outermost segment.  If it returns 0, gpurt_boost_returns() must follow, with
 * *@raised.
 */
int gpurt_boost_begins(struct gpurt_client *client, u32 own, const struct gpurt_begin *begin, bool *raised)
{
	struct gpurt_boosted *b = &client->boost;
	u32 level;
	int err;

	*raised = false;
	if (READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED || READ_ONCE(client->core.depth))
		return 0;
	level = gpurt_begin_level(READ_ONCE(client->core.set), own, begin->priority);
	err = check(client, own, level);
	if (err || !level)
		return err;
	*raised = true;
	WRITE_ONCE(b->calling, true);
	gpurt_boost_lock();
	ask(client, level, begin->flags);
	gpurt_boost_unlock();
	return 0;
}

/* The same before it asks for an end.  gpurt_boost_returns() must follow, with what it returns. */
bool gpurt_boost_ends(struct gpurt_client *client)
{
	/* Another thread of the client may be kept from its CPU, even by the raised thread. */
	if (READ_ONCE(client->boost.raised.task) != current)
		return false;
	WRITE_ONCE(client->boost.calling, true);
	return true;
}

/* Called with the gate held, for a begin.  Whether a thread of the client has raised itself for it. */
bool gpurt_boost_asks(const struct gpurt_client *client)
{
	return READ_ONCE(client->boost.asker);
}

/* Whether the caller is the client's thread, and is raised while its client owns the GPU. */
bool gpurt_boost_is_owners(const struct gpurt_client *client)
{
	return READ_ONCE(client->boost.raised.task) == current && client->boost.form != GPURT_FORM_SELF;
}

/* Whether that thread keeps its CPU while it waits at the gate. */
bool gpurt_boost_spins(const struct gpurt_client *client)
{
	return client->boost.spins;
}

/* Called by that thread when it has to wait at the gate: until it has the gate it executes as without its call. */
void gpurt_boost_waits(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;

	smp_store_mb(b->calling, false);	/* pairs with gpurt_boost_wanted() */
	gpurt_boost_lock();
	b->asked = 0;
	gpurt_boost_settle(client);
	gpurt_boost_unlock();
}

/* Called with the lock of the gate held.  That thread is the next to have the gate, and has not got its CPU. */
void gpurt_boost_handed(struct gpurt_client *client)
{
	WRITE_ONCE(client->boost.turn, true);
	gpurt_boost_look(client);
}

/*
 * Called by that thread with the lock of the gate held.  Whether it had been handed the gate, before another, more
 * urgent decision passed it.
 */
bool gpurt_boost_passed(struct gpurt_client *client)
{
	bool had = READ_ONCE(client->boost.turn);

	WRITE_ONCE(client->boost.turn, false);
	return had;
}

/*
 * In process context.  A decision about the client has been taken and carried out, or refused.  @raised: what
 * gpurt_boost_begins() or gpurt_boost_ends() said; false: the caller may be any thread.
 */
void gpurt_boost_returns(struct gpurt_client *client, bool raised)
{
	struct gpurt_boosted *b = &client->boost;

	if (raised)
		smp_store_mb(b->calling, false);	/* pairs with gpurt_boost_wanted() */
	if (!READ_ONCE(b->raised.task))
		return;
	gpurt_boost_lock();
	if (b->asker == current) {
		WRITE_ONCE(b->asker, NULL);
		b->asked = 0;
	}
	if (b->raised.task == current)
		WRITE_ONCE(b->turn, false);
	gpurt_boost_settle(client);
	gpurt_boost_unlock();
}

/* Called by a thread that is about to wait for that.  Form `fence`: it is not raised until its work has completed. */
void gpurt_boost_works(struct gpurt_client *client, const struct gpurt_wait *w)
{
	struct gpurt_boosted *b = &client->boost;

	if (READ_ONCE(b->raised.task) != current || b->form != GPURT_FORM_FENCE || w->what == GPURT_WAIT_GRANT)
		return;
	gpurt_boost_lock();
	b->awaited = *w;
	/* The driver completes work and is asked for it under one lock: one of the two sees the other. */
	WRITE_ONCE(b->working, true);
	gpurt_boost_settle(client);
	gpurt_boost_unlock();
}

/* Any context, by a caller that has a reference.  Work of the client has completed, or was dropped. */
void gpurt_boost_completed(struct gpurt_client *client)
{
	if (unlikely(READ_ONCE(client->boost.working)))
		gpurt_boost_look(client);
}

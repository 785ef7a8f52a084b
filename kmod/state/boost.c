// SPDX-License-Identifier: GPL-2.0
/*
 * Policy `boosted`: threads of clients are raised and lowered.
 *
 * The scheduler says, with the gate held, how the thread of a client has to execute, and gpurt_boost_wanted() notes it.
 * The change is carried out without the gate, because a change of a thread's scheduling may sleep.  Kernels 5.3 to 6.4
 * take the lock of the cpusets for it, which others hold for milliseconds.  Hence no interrupt changes threads either.
 * Two threads do:
 *
 *   - the thread itself, before it asks for a begin and after each of its calls.  A thread that becomes the owner is
 *     raised before it has the gate, so that nothing on its CPU delays its update.
 *
 *   - the thread gpurt-boost, of the highest FIFO priority, for a thread that is in no call, or waits at the gate.
 *     These are the cases.  An update by another thread takes the GPU from the thread's client or gives it to the
 *     client.  A budget, an administrator, the driver or the end of its process ends its segment.  The thread is
 *     handed the gate while its CPU executes other threads.  Its work has completed (form `fence`).  A GPU's own
 *     thread has updates to carry out, and must not wait for the lock of the cpusets.
 *
 * At the gate, threads of forms `owner` and `fence` wait at the priority that they have without their call: see gate.c.
 *
 * Each client has a lock, with priority inheritance, and so has each thread (raised.c).  Only these two threads change
 * a thread, and only they wait for the lock of a client in a segment: all others have gpurt-boost look.  In a kernel
 * with full preemption the holder of such a lock may lose its CPU to a more urgent thread.  Threads of other CPUs must
 * not wait for that thread.
 */
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "base/deps.h"
#include "base/raised.h"
#include "base/rules.h"
#include "compat.h"
#include "state/boost.h"
#include "state/clients.h"
#include "state/exits.h"
#include "state/file.h"
#include "state/wake.h"

static bool boost = true;
module_param(boost, bool, 0444);
MODULE_PARM_DESC(boost, "allow policy boosted, which raises threads (default yes)");

static struct kthread_worker *worker;
static GPURT_DEP(boost_work);

/* Why threads cannot be raised; NULL: they can be raised. */
const char *gpurt_boost_why_not(void)
{
	if (!boost)
		return "policy boosted needs raised threads, which the parameter boost=0 forbids";
	return gpurt_raised_possible() ? NULL : "policy boosted needs raised threads, which this kernel does not allow";
}

/* The form of a begin that states @form: in a group that raises all threads it is `owner`, whatever it states. */
u32 gpurt_boost_form_of(const struct gpurt_client *client, u32 form)
{
	const struct gpurt_seat *seat = READ_ONCE(client->seat);

	return seat && seat->team->core.all ? GPURT_FORM_OWNER : form;
}

/* The form of its open segment.  The administrator may since have put it into a group that raises all. */
u32 gpurt_boost_form_now(const struct gpurt_client *client)
{
	return gpurt_boost_form_of(client, client->boost.form);
}

/* Called with the lock held, hence before the driver forgets the client.  Whether the awaited work is done. */
static bool has_completed(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;
	int token, ret;

	if (test_bit(GPURT_BOOST_OVER, &b->flags) || !gpurt_gpu_hold(client->gpu, &token))
		return true;
	ret = gpurt_wait_work(client, &b->awaited);
	gpurt_gpu_release(client->gpu, token);
	return ret;
}

/*
 * Whether the client's threads are raised only inside their calls.  A process that ends is lowered before its GPU is
 * handed on, which may take the driver long.
 */
static bool is_barred(const struct gpurt_client *client)
{
	const unsigned long flags = READ_ONCE(client->boost.flags);

	return flags & (BIT(GPURT_BOOST_OVER) | BIT(GPURT_BOOST_BARRED)) || gpurt_exits_ends(client->file);
}

/*
 * Called with the lock held.  Whether the thread stays unraised until another begin of its client.  @barred:
 * is_barred().
 */
static bool is_over(const struct gpurt_client *client, bool barred)
{
	const struct gpurt_boosted *b = &client->boost;

	if (test_bit(GPURT_BOOST_OVER, &b->flags))
		return true;
	/* Others wait for its decision: until then it executes above all tasks that could take its CPU. */
	if (READ_ONCE(b->call) != GPURT_BOOST_IN_NONE)
		return false;
	if (barred || !test_bit(GPURT_BOOST_MAY, &b->flags) || !READ_ONCE(client->core.depth))
		return true;
	/* A client takes its seat, which may change its form, before its level is set. */
	return !smp_load_acquire(&b->level) && gpurt_boost_form_now(client) == GPURT_FORM_SELF;
}

/* Called with the lock held.  The level that the thread needs now. */
static u32 needed(const struct gpurt_client *client)
{
	const struct gpurt_boosted *b = &client->boost;
	bool fenced = test_bit(GPURT_BOOST_WORKING, &b->flags) && gpurt_boost_form_now(client) == GPURT_FORM_FENCE;
	bool may = test_bit(GPURT_BOOST_MAY, &b->flags) && !fenced;
	u32 level = may ? READ_ONCE(b->level) : 0;

	return READ_ONCE(b->call) == GPURT_BOOST_HANDED ? GPURT_RAISED_TOP : max(level, b->asked);
}

/* Whether the caller is that thread, or gpurt-boost, which may change any thread. */
static bool may_change(const struct task_struct *task)
{
	return current == task || current == worker->task;
}

/* Whether the client has the bus, or a call for it is under way. */
static bool copies(struct gpurt_client *client)
{
	unsigned long flags;
	bool does;

	raw_spin_lock_irqsave(&client->gpu->bus.lock, flags);
	does = client->copier.asking || client->copier.node.state != GPURT_STATE_IDLE;
	raw_spin_unlock_irqrestore(&client->gpu->bus.lock, flags);
	return does;
}

/* Called with the lock held.  Sets the scheduling of the thread that copies.  @barred: is_barred(). */
static void settle_copier(struct gpurt_client *client, bool barred)
{
	struct gpurt_copier *c = &client->copier;
	u32 level = gpurt_level_of_begin(client, READ_ONCE(c->own), READ_ONCE(c->hint));

	/* A client that has lost the bus in the middle of a copy does not copy. */
	if (!copies(client))
		c->raises = false;
	if (barred || !c->raises)
		gpurt_raised_let_go(&c->raised);
	else
		gpurt_raised_want(&c->raised, gpurt_boost_cpu(gpurt_normal, level));
}

/* If a raised thread's scheduling was changed, it is raised again when its group owns the GPU again. */
static void forgive(struct gpurt_raised *r)
{
	struct task_struct *task = get_task_struct(r->task);
	u32 right = r->right;

	gpurt_raised_let_go(r);
	gpurt_raised_take(r, task, right);
	put_task_struct(task);
}

/* The same for the thread that the client's group raises. */
static void settle_kept(struct gpurt_client *client, bool barred)
{
	struct gpurt_kept *k = &client->kept;

	if (barred || k->over) {
		gpurt_raised_let_go(&k->raised);
		return;
	}
	/* The group may own the GPU again by now. */
	if (test_and_clear_bit(GPURT_BOOST_LOST, &client->boost.flags)) {
		gpurt_raised_want(&k->raised, 0);
		if (gpurt_raised_refused(&k->raised))
			forgive(&k->raised);
	}
	gpurt_raised_want(&k->raised, gpurt_boost_cpu(gpurt_normal, READ_ONCE(k->level)));
}

/* Called with the lock held, by the client's thread or gpurt-boost.  Sets its threads' priorities. */
void gpurt_boost_settle(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;
	bool barred = is_barred(client);

	/* The thread that copies may differ from the segment's thread. */
	if (client->copier.raised.task && may_change(client->copier.raised.task))
		settle_copier(client, barred);
	if (client->kept.raised.task && may_change(client->kept.raised.task))
		settle_kept(client, barred);
	if (!b->raised.task || !may_change(b->raised.task))
		return;
	if (test_bit(GPURT_BOOST_WORKING, &b->flags) && has_completed(client))
		clear_bit(GPURT_BOOST_WORKING, &b->flags);
	if (is_over(client, barred))
		gpurt_raised_let_go(&b->raised);
	else
		gpurt_raised_want(&b->raised, gpurt_boost_cpu(gpurt_normal, needed(client)));
}

static void work(struct kthread_work *work)
{
	struct gpurt_client *client = container_of(work, struct gpurt_client, boost.work);
	u64 since;

	gpurt_dep_begin(&boost_work);
	/* Comes first: later requests queue the work again. */
	since = atomic64_xchg(&client->boost.since, 0);
	rt_mutex_lock(&client->boost.lock);
	gpurt_boost_settle(client);
	rt_mutex_unlock(&client->boost.lock);
	/* Bounds add this time to an update. */
	if (since)
		gpurt_latency_record(&client->gpu->runlist.latency[GPURT_CAUSE_RAISE], ktime_get_ns() - since);
	gpurt_dep_end(&boost_work);
	gpurt_client_put(client);
}

/* Whether the client has a thread that is raised, or may have to be lowered. */
static bool raises_any(const struct gpurt_client *client)
{
	return READ_ONCE(client->boost.raised.task) || READ_ONCE(client->copier.raised.task) ||
	       READ_ONCE(client->kept.raised.task);
}

/*
 * Any context, by a caller that has a reference or walks the clients.  Has gpurt-boost settle the priorities of the
 * client's threads.
 */
void gpurt_boost_look(struct gpurt_client *client)
{
	/* A client without references has no thread. */
	if (!raises_any(client) || !kref_get_unless_zero(&client->ref))
		return;
	atomic64_cmpxchg(&client->boost.since, 0, ktime_get_ns());
	/* Work that is queued already has a reference. */
	if (!kthread_queue_work(worker, &client->boost.work))
		gpurt_client_put(client);
}

/* In process context, by a caller that does not hold the client's boost.lock.  On return no look is pending. */
void gpurt_boost_flush(struct gpurt_client *client)
{
	gpurt_dep_wait(&boost_work);
	kthread_flush_work(&client->boost.work);
}

/*
 * In process context, by a caller that does not hold the client's boost.lock.  Like gpurt_boost_look(), and on return
 * gpurt-boost has looked.
 */
void gpurt_boost_have_looked(struct gpurt_client *client)
{
	if (!raises_any(client))
		return;
	gpurt_boost_look(client);
	gpurt_boost_flush(client);
}

/* Called with the gate held.  From now on the client's thread must execute at @level (core/boost.h). */
void gpurt_boost_wanted(struct gpurt_client *client, u32 level)
{
	bool moves = level != GPURT_RAISED_TOP && level != client->kept.level;

	if (moves)
		WRITE_ONCE(client->kept.level, level);
	if (moves && !level)
		set_bit(GPURT_BOOST_LOST, &client->boost.flags);
	/* Either the raised thread sees the level at the end of its call, or this sees that it is in no call. */
	smp_store_mb(client->boost.level, level);
	if (READ_ONCE(client->boost.call) != GPURT_BOOST_CALLS || (moves && READ_ONCE(client->kept.raised.task)))
		gpurt_boost_look(client);
}

/*
 * In process context, when the administrator's rules have changed or the client is new.  Notes whether it is barred:
 * its calls read this note, because a thread with a deadline must not wait for the lock of the rules.
 */
void gpurt_boost_bar(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;
	bool barred;

	do {
		barred = gpurt_rule_holds(GPURT_RULE_BARRED, client->tgid, client->comm);
		/*
		 * Either a thread that becomes the client's sees it at the end of its call, or this sees the thread.
		 * If two threads do this at once, the last to store checks the rules again afterwards.
		 */
		assign_bit(GPURT_BOOST_BARRED, &b->flags, barred);
		smp_mb__after_atomic();	/* likewise */
	} while (barred != gpurt_rule_holds(GPURT_RULE_BARRED, client->tgid, client->comm));
	gpurt_boost_have_looked(client);
}

/*
 * In process context.  The client or its GPU is gone: its threads are lowered and not raised again.  From now on nobody
 * asks the driver about its work.
 */
void gpurt_boost_stop(struct gpurt_client *client)
{
	rt_mutex_lock(&client->boost.lock);
	set_bit(GPURT_BOOST_OVER, &client->boost.flags);
	rt_mutex_unlock(&client->boost.lock);
	gpurt_boost_have_looked(client);
}

/* 0 or -ENOMEM. */
int gpurt_boost_init(struct gpurt_client *client)
{
	rt_mutex_init(&client->boost.calls);
	rt_mutex_init(&client->boost.lock);
	kthread_init_work(&client->boost.work, work);
	if (!gpurt_raised_init(&client->copier.raised) && !gpurt_raised_init(&client->boost.raised) &&
	    !gpurt_raised_init(&client->kept.raised))
		return 0;
	gpurt_boost_destroy(client);
	return -ENOMEM;
}

/* Called after all its threads were let go. */
void gpurt_boost_destroy(struct gpurt_client *client)
{
	gpurt_raised_destroy(&client->boost.raised);
	gpurt_raised_destroy(&client->copier.raised);
	gpurt_raised_destroy(&client->kept.raised);
}

/* Called before there are GPUs.  -EINVAL, -ENOMEM. */
int gpurt_boost_load(void)
{
	int err;

	if (!gpurt_normal || gpurt_normal > GPURT_NORMAL_MAX) {
		pr_err("gpurt: normal=%u: 1 to %u\n", gpurt_normal, GPURT_NORMAL_MAX);
		return -EINVAL;
	}
	worker = compat_kthread_worker("gpurt-boost");
	if (IS_ERR(worker))
		return PTR_ERR(worker);
	err = compat_set_highest_fifo(worker->task);
	if (err)
		kthread_destroy_worker(worker);
	else
		gpurt_raised_load();
	return err;
}

/* Called when there are no GPUs and no descriptors. */
void gpurt_boost_unload(void)
{
	kthread_destroy_worker(worker);
}

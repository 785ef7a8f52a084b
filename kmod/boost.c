// SPDX-License-Identifier: GPL-2.0
/*
 * Policy `boosted`: threads of clients are raised and lowered.
 *
 * The scheduler says how the thread of a client has to execute, with the gate held, and gpurt_boost_wanted() notes it.
 * It is carried out without the gate, because a change of a thread's scheduling may sleep: kernels 5.3 to 6.4 take the
 * lock of the cpusets for it, which others hold for milliseconds.  Hence no interrupt does it either.  Who does it:
 *
 *   - the thread itself, before it asks for a begin and after each of its calls (form `self`).  The other forms need a
 *     thread that is raised at the end of somebody else's update, and waiters at the gate that spin; the module refuses
 *     them (docs/kernel.md);
 *   - the thread gpurt-boost, of the highest FIFO priority, when something else ends or changes a segment: a budget, an
 *     administrator, the driver, another thread of the client, the end of the process.  A GPU's own thread has updates
 *     to carry out, and does not wait for the lock of the cpusets.
 *
 * Changes are made one at a time, under a lock with priority inheritance: a thread of low priority that is about to
 * raise itself does not keep the others from it.
 */
#include <linux/capability.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "boost.h"
#include "chardev.h"
#include "client.h"
#include "compat.h"
#include "core/boost.h"
#include "gpu.h"
#include "rules.h"

unsigned int gpurt_normal = GPURT_NORMAL_DEFAULT;
module_param_named(normal, gpurt_normal, uint, 0444);
MODULE_PARM_DESC(normal, "policy boosted: highest CPU priority of threads that are not raised (default 24)");

static bool boost = true;
module_param(boost, bool, 0444);
MODULE_PARM_DESC(boost, "allow policy boosted, which raises threads (default yes)");

static DEFINE_RT_MUTEX(lock);
static struct kthread_worker *worker;

/* Why threads cannot be raised; NULL: they can. */
const char *gpurt_boost_why_not(void)
{
	if (!boost)
		return "policy boosted needs raised threads, which the parameter boost=0 forbids";
	return gpurt_raised_possible() ? NULL : "policy boosted needs raised threads, which this kernel does not allow";
}

/* Called with the lock held.  Has the client's thread execute as the scheduler wants it. */
static void settle(struct gpurt_boosted *b)
{
	const struct gpurt_client *client = container_of(b, struct gpurt_client, boost);
	u32 level = max(READ_ONCE(b->level), b->asked);

	if (!b->raised.task)
		return;
	/* A process that ends is lowered before its GPU is handed on, which may take the driver long. */
	if (level && !b->over && !b->barred && !gpurt_owner_ends(client->file))
		gpurt_raised_want(&b->raised, gpurt_boost_cpu(gpurt_normal, level));
	else
		gpurt_raised_let_go(&b->raised);
}

/* Called with the lock held. */
static void ask(struct gpurt_boosted *b, u32 level)
{
	if (b->over)
		return;
	if (b->raised.task != current) {
		if (b->raised.task)
			gpurt_raised_let_go(&b->raised);
		gpurt_raised_take(&b->raised, current);
	}
	WRITE_ONCE(b->asker, current);
	b->asked = level;
	settle(b);
}

/*
 * Whether the caller may begin the outermost segment of a client at that @level under policy `boosted`: 0, or as
 * uapi/gpurt.h says under "Raised threads".
 */
static int check(const struct gpurt_client *client, u32 own, u32 level, u32 form)
{
	int err = gpurt_boost_refusal(gpurt_normal, own, level);

	if (!level)
		return 0;
	if (form != GPURT_FORM_SELF)
		return -EOPNOTSUPP;
	if (err)
		return err;
	if (READ_ONCE(client->boost.barred))
		return -EPERM;
	return gpurt_boost_cpu(gpurt_normal, level) <= rlimit(RLIMIT_RTPRIO) || capable(CAP_SYS_NICE) ? 0 : -EPERM;
}

/*
 * Called by a client's thread before it asks the gate for a begin, with what gpurt_client_begin() is given.  Under
 * policy `boosted` it raises itself before it begins the outermost segment.  gpurt_boost_returns() must follow, with
 * *@raised, if it returns 0.
 */
int gpurt_boost_begins(struct gpurt_client *client, u32 own, u32 hint, u32 form, bool *raised)
{
	struct gpurt_boosted *b = &client->boost;
	u32 level;
	int err;

	*raised = false;
	if (READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED || READ_ONCE(client->core.depth))
		return 0;
	level = gpurt_begin_level(READ_ONCE(client->core.set), own, hint);
	err = check(client, own, level, form);
	if (err || !level)
		return err;
	*raised = true;
	WRITE_ONCE(b->calling, true);
	rt_mutex_lock(&lock);
	ask(b, level);
	rt_mutex_unlock(&lock);
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
	rt_mutex_lock(&lock);
	if (b->asker == current) {
		WRITE_ONCE(b->asker, NULL);
		b->asked = 0;
	}
	settle(b);
	rt_mutex_unlock(&lock);
}

static void work(struct kthread_work *work)
{
	struct gpurt_client *client = container_of(work, struct gpurt_client, boost.work);

	rt_mutex_lock(&lock);
	settle(&client->boost);
	rt_mutex_unlock(&lock);
	gpurt_client_put(client);
}

/* Any context, by a caller that has a reference.  gpurt-boost looks whether the client's thread is to be lowered. */
void gpurt_boost_look(struct gpurt_client *client)
{
	if (!READ_ONCE(client->boost.raised.task))
		return;
	kref_get(&client->ref);
	/* Work that waits already has a reference. */
	if (!kthread_queue_work(worker, &client->boost.work))
		gpurt_client_put(client);
}

/* Called with the gate held.  The client's thread has to execute at that level (core/boost.h) from now on. */
void gpurt_boost_wanted(struct gpurt_client *client, u32 level)
{
	/* Either the raised thread sees the level at the end of its call, or this sees that it is in none. */
	smp_store_mb(client->boost.level, level);
	if (!READ_ONCE(client->boost.calling))
		gpurt_boost_look(client);
}

/*
 * In process context.  The administrator's rules have changed, or the client is new.  Its calls look at what is noted
 * here, because a thread with a deadline must not wait for the lock of the rules.
 */
void gpurt_boost_bar(struct gpurt_client *client)
{
	static DEFINE_MUTEX(one_at_a_time);	/* of two commands, the later one has seen the rules of both */
	struct gpurt_boosted *b = &client->boost;
	bool barred;

	mutex_lock(&one_at_a_time);
	barred = gpurt_rule_holds(GPURT_RULE_BARRED, client->tgid, client->comm);
	if (barred != b->barred) {
		rt_mutex_lock(&lock);
		WRITE_ONCE(b->barred, barred);
		settle(b);
		rt_mutex_unlock(&lock);
	}
	mutex_unlock(&one_at_a_time);
}

/* In process context.  The client is gone, or its GPU is: its thread is lowered, and is not raised again. */
void gpurt_boost_stop(struct gpurt_client *client)
{
	struct gpurt_boosted *b = &client->boost;

	rt_mutex_lock(&lock);
	b->over = true;
	settle(b);
	rt_mutex_unlock(&lock);
}

void gpurt_boost_init(struct gpurt_client *client)
{
	INIT_HLIST_NODE(&client->boost.raised.node);
	kthread_init_work(&client->boost.work, work);
}

/* Before there are GPUs.  -EINVAL, -ENOMEM. */
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

/* When there are no GPUs, and no descriptors. */
void gpurt_boost_unload(void)
{
	kthread_destroy_worker(worker);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The GPU of a patched driver: port.h on one side, drv.h on the other.  All such drivers have one adapter, because
 * port.h hides their differences.
 *
 * The driver asks whether a process may run.  The module answers for clients (gpurt_process_may_run());
 * port_processes.c answers for exempt processes that are not clients.
 *
 * Locks, the outermost first: the driver's; gpus_lock; those of port_processes.c.  The driver calls the hooks added(),
 * removed() and tsgs() with some of its sleeping locks held.  It calls the other hooks with some of its spinning locks
 * held.  The driver's commit() takes the driver's locks; the GPU's thread calls it without any of ours.  So only
 * removed() and a suspend may wait for a commit here.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../base/workers.h"
#include "drv.h"
#include "port_gpu.h"
#include "port_processes.h"

#define TEXT_LEN 80
#define LAST_LINE 100	/* room for the last line of a description of many GPUs */

struct port_gpu {
	struct list_head node;		/* of gpus; read under RCU */
	struct rcu_head rcu;
	void *handle;			/* the driver's own */
	const struct port_driver *driver;
	char name[TEXT_LEN];
	char refused[TEXT_LEN];		/* why it cannot be switched; empty: it can be switched */
	struct gpurt_gpu *gpu;		/* NULL: it is refused, or not yet registered */
	struct gpurt_gpu __rcu *asked;	/* @gpu while hooks may ask it; NULL: everyone may run */
	atomic_t clients;
	bool leaving;
	bool suspended;			/* with gpus_lock held */
	raw_spinlock_t reset_lock;	/* concurrent resets are reported in some order, as one */
	bool resetting;
	struct task_struct *committer;	/* in commit(); to be compared only */
	int err;			/* what the last commit() returned */
	atomic_t asks;			/* questions for the driver's own lists while a client had the GPU */
	struct port_processes processes;
};

static LIST_HEAD(gpus);			/* in the order of their names */
static DEFINE_MUTEX(gpus_lock);
/* Held while GPUs come, go and get numbers.  Taken inside the driver's mutex of its GPUs, before gpus_lock. */
static DEFINE_MUTEX(order_lock);

/* Called under RCU, or with gpus_lock held. */
static struct port_gpu *find_gpu(void *handle)
{
	struct port_gpu *dev;

	list_for_each_entry_rcu(dev, &gpus, node, lockdep_is_held(&gpus_lock))
		if (dev->handle == handle)
			return dev;
	return NULL;
}

/* Operations that gpurt calls. */

static int port_client_open(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx)
{
	struct port_gpu *dev = driver;

	*ctx = port_client_make(&dev->processes, tgid, client);
	if (*ctx)
		atomic_inc(&dev->clients);
	return *ctx ? 0 : -ENOMEM;
}

static void port_client_close(void *driver, void *ctx)
{
	struct port_gpu *dev = driver;

	port_client_free(&dev->processes, ctx);
	atomic_dec(&dev->clients);
}

/*
 * Whether the GPU is in added(), which the driver's commit() may wait for.  Everyone stays on the runlist, because
 * hooks do not ask yet.
 */
static bool is_coming(const struct port_gpu *dev)
{
	if (rcu_access_pointer(dev->asked))
		return false;
	smp_rmb();	/* pairs with port_gpu_removed() */
	return !READ_ONCE(dev->leaving);
}

/* Translates an error of the driver: some numbers have a special meaning for gpurt. */
static int translated(int err)
{
	return err > 0 || err == -EINPROGRESS || err == -ENOTRECOVERABLE ? -EIO : err;
}

static int port_commit(void *driver, const struct gpurt_commit *commit)
{
	struct port_gpu *dev = driver;
	int err;

	if (is_coming(dev))
		return commit->only ? -EAGAIN : 0;
	port_client_alone(&dev->processes, commit->only);
	WRITE_ONCE(dev->committer, current);
	err = translated(dev->driver->port->commit(dev->handle));
	WRITE_ONCE(dev->committer, NULL);
	WRITE_ONCE(dev->err, err);
	smp_rmb();	/* pairs with port_gpu_removed(): a list built without gpurt does not isolate a client */
	if (commit->only && READ_ONCE(dev->leaving))
		return -ETIMEDOUT;
	return err;
}

/* A group stands for its clients when it is alone on the runlist. */
static int port_group_open(void *driver, void **group)
{
	*group = port_group_make();
	return *group ? 0 : -ENOMEM;
}

static void port_group_close(void *driver, void *group)
{
	struct port_gpu *dev = driver;

	port_group_free(&dev->processes, group);
}

/* gpurt_process_may_run() also depends on whether the client's group owns the GPU. */
static int port_group_join(void *driver, void *ctx, void *group)
{
	return 0;
}

/* gpurt_process_may_run() also depends on the client's exemption. */
static void port_exempt(void *driver, void *ctx, bool exempt)
{
}

static void port_exemptions_changed(void *driver)
{
	struct port_gpu *dev = driver;

	port_processes_exemptions(&dev->processes);
}

/* Hooks that the driver calls, to report and to ask. */

void port_gpu_killed(void *handle, struct pid *tgid)
{
	struct port_gpu *dev;

	rcu_read_lock();
	dev = find_gpu(handle);
	if (dev && rcu_access_pointer(dev->asked))
		port_processes_killed(&dev->processes, tgid);
	rcu_read_unlock();
}

/* Called under RCU. */
static void tell_reset(struct port_gpu *dev, struct gpurt_gpu *gpu, bool begins)
{
	raw_spin_lock(&dev->reset_lock);
	if (dev->resetting != begins) {
		WRITE_ONCE(dev->resetting, begins);
		if (begins)
			gpurt_gpu_reset_begin(gpu);
		else
			gpurt_gpu_reset_done(gpu);
	}
	raw_spin_unlock(&dev->reset_lock);
}

/* A failed reset has no end: gpurt takes the next reset for the same one. */
void port_gpu_reset(void *handle, bool begins)
{
	struct gpurt_gpu *gpu;
	struct port_gpu *dev;

	rcu_read_lock();
	dev = find_gpu(handle);
	gpu = dev ? rcu_dereference(dev->asked) : NULL;
	if (gpu)
		tell_reset(dev, gpu, begins);
	rcu_read_unlock();
}

/* Called under RCU. */
static bool may_run(struct port_gpu *dev, struct gpurt_gpu *gpu, struct pid *tgid)
{
	if (READ_ONCE(dev->processes.only) && READ_ONCE(dev->committer) != current)
		atomic_inc(&dev->asks);
	return gpurt_process_may_run(gpu, tgid) || port_processes_is_exempt(&dev->processes, tgid);
}

bool port_gpu_may_run(void *handle, struct pid *tgid)
{
	struct gpurt_gpu *gpu;
	struct port_gpu *dev;
	bool may = true;

	rcu_read_lock();
	dev = find_gpu(handle);
	gpu = dev ? rcu_dereference(dev->asked) : NULL;
	if (gpu)
		may = may_run(dev, gpu, tgid);
	rcu_read_unlock();
	return may;
}

void port_gpu_tsgs(void *handle, struct pid *tgid, int change)
{
	struct port_gpu *dev;

	rcu_read_lock();
	dev = find_gpu(handle);
	rcu_read_unlock();
	/* It is not freed meanwhile: the driver calls one such hook at a time. */
	if (dev && !*dev->refused)
		port_processes_tsgs(&dev->processes, tgid, change);
}

/* GPUs come and go. */

static const struct gpurt_driver_ops port_ops = {
	GPURT_DRIVER,
	.tier = GPURT_TIER_PATCHED,
	.commit_sleeps = true,
	.client_open = port_client_open,
	.client_close = port_client_close,
	.commit = port_commit,
	.exempt = port_exempt,
	.exemptions_changed = port_exemptions_changed,
	.group_open = port_group_open,
	.group_close = port_group_close,
	.group_join = port_group_join,
};

static void refuse(struct port_gpu *dev, const char *why)
{
	mutex_lock(&gpus_lock);
	strscpy(dev->refused, why, sizeof(dev->refused));
	mutex_unlock(&gpus_lock);
	pr_warn("gpurt: %s %s cannot be switched: %s\n", dev->driver->name, dev->name, why);
}

/* The driver holds locks that its commit() waits for, so this must not wait for a commit. */
static void register_gpu(struct port_gpu *dev)
{
	struct gpurt_driver_ops ops = port_ops;
	struct gpurt_gpu *gpu;
	int err;

	ops.name = dev->driver->name;
	ops.owner = dev->driver->owner;
	ops.device = dev->name;
	err = gpurt_gpu_register(&ops, dev, &gpu);
	if (err) {
		refuse(dev, err == -ENOSPC ? "gpurt has as many GPUs as it can" : "gpurt could not register it");
		return;
	}
	mutex_lock(&gpus_lock);
	dev->gpu = gpu;
	mutex_unlock(&gpus_lock);
	rcu_assign_pointer(dev->asked, gpu);
	pr_info("gpurt: %s %s is switched by its driver\n", dev->driver->name, dev->name);
}

/* A GPU that is being registered by a worker. */
struct arrival {
	struct work_struct work;
	struct port_gpu *dev;
};

static void arrive(struct work_struct *work)
{
	register_gpu(container_of(work, struct arrival, work)->dev);
}

/*
 * The caller may be any process, because a GPU can appear when a process first opens it.  A process that is being
 * killed cannot start the GPU's thread; a worker can.
 */
static void register_by_worker(struct port_gpu *dev)
{
	struct arrival arrival = { .dev = dev };

	INIT_WORK_ONSTACK(&arrival.work, arrive);
	queue_work(gpurt_workers, &arrival.work);
	flush_work(&arrival.work);
	destroy_work_on_stack(&arrival.work);
}

/*
 * Numbers of GPUs follow their names, which are addresses, whatever the order in which they appear.  Drivers report
 * GPUs in one order when gpurt attaches to them, and in another order when they find GPUs later.
 */

/*
 * Numbers in names are compared by value if they have the same number of digits.  Partitions follow the GPU that has
 * fewer of them.
 */
static int compare_names(const char *a, const char *b)
{
	size_t a_length = strcspn(a, "/"), b_length = strcspn(b, "/");
	int order = a_length == b_length ? strncmp(a, b, a_length) : 0;

	if (a_length != b_length)
		return a_length < b_length ? -1 : 1;
	return order ?: strcmp(a + a_length, b + b_length);
}

/* With order_lock held.  False: the driver has added it before, but would remove it only once. */
static bool enlist(struct port_gpu *dev)
{
	struct list_head *before = &gpus;
	struct port_gpu *other;
	bool known;

	mutex_lock(&gpus_lock);
	known = find_gpu(dev->handle);
	list_for_each_entry(other, &gpus, node) {
		if (compare_names(other->name, dev->name) > 0)
			break;
		before = &other->node;
	}
	if (!known)
		list_add_rcu(&dev->node, before);
	mutex_unlock(&gpus_lock);
	return !known;
}

/* With order_lock held. */
static void register_missing(void)
{
	struct port_gpu *dev;

	list_for_each_entry(dev, &gpus, node)
		if (!dev->gpu && !*dev->refused)
			register_by_worker(dev);
}

/* With order_lock held. */
static bool is_ordered(void)
{
	struct port_gpu *dev;
	u32 next = 0;

	list_for_each_entry(dev, &gpus, node) {
		if (!dev->gpu)
			continue;
		if (gpurt_gpu_number(dev->gpu) < next)
			return false;
		next = gpurt_gpu_number(dev->gpu) + 1;
	}
	return true;
}

/* With order_lock held. */
static bool is_used(void)
{
	struct port_gpu *dev;

	list_for_each_entry(dev, &gpus, node)
		if (atomic_read(&dev->clients) || dev->suspended || READ_ONCE(dev->resetting))
			return true;
	return false;
}

/* With order_lock held.  A running hook may still use the GPU that it has found. */
static void unregister(struct port_gpu *dev)
{
	struct gpurt_gpu *gpu = dev->gpu;

	RCU_INIT_POINTER(dev->asked, NULL);
	synchronize_rcu();
	mutex_lock(&gpus_lock);
	dev->gpu = NULL;
	mutex_unlock(&gpus_lock);
	if (gpu)
		gpurt_gpu_unregister(gpu);
}

/* With order_lock held.  A process that becomes a client meanwhile finds that its GPU is gone. */
static void number_anew(void)
{
	struct port_gpu *dev;

	list_for_each_entry(dev, &gpus, node)
		unregister(dev);
	register_missing();
}

/* With order_lock held. */
static void number_all(void)
{
	register_missing();
	if (is_ordered())
		return;
	if (is_used())
		pr_warn("gpurt: a GPU came while others were in use: numbers do not follow addresses until gpurt is loaded anew\n");
	else
		number_anew();
}

/* A driver has reported all its GPUs. */
void port_gpus_number(void)
{
	mutex_lock(&order_lock);
	number_all();
	mutex_unlock(&order_lock);
}

void port_gpu_added(const struct port_driver *driver, void *handle, const char *name, const char *refused)
{
	struct port_gpu *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev) {
		pr_err("gpurt: %s %s cannot be switched: no memory\n", driver->name, name);
		return;
	}
	dev->driver = driver;
	dev->handle = handle;
	strscpy(dev->name, name, sizeof(dev->name));
	raw_spin_lock_init(&dev->reset_lock);
	port_processes_init(&dev->processes);
	mutex_lock(&order_lock);
	/* Comes first, because hooks must find it as soon as there is a commit. */
	if (!enlist(dev)) {
		pr_err("gpurt: %s adds %s twice: the second is ignored\n", driver->name, name);
		kfree(dev);
	} else if (refused) {
		refuse(dev, refused);
	} else if (!READ_ONCE(driver->attaching)) {
		number_all();
	}
	mutex_unlock(&order_lock);
}

/*
 * From here on the module answers the driver that everyone may run.  So the driver may rebuild its runlists at any
 * time.  A client that has the GPU may lose its isolation a moment before it learns that the GPU is gone.
 */
void port_gpu_removed(void *handle)
{
	struct port_gpu *dev;

	mutex_lock(&order_lock);
	mutex_lock(&gpus_lock);
	dev = find_gpu(handle);
	if (dev)
		list_del_rcu(&dev->node);
	mutex_unlock(&gpus_lock);
	if (dev) {
		WRITE_ONCE(dev->leaving, true);
		smp_wmb();	/* pairs with is_coming() and port_commit(): a GPU that is no longer asked is leaving */
		unregister(dev);
		port_processes_stop(&dev->processes);
		kfree_rcu(dev, rcu);
	}
	mutex_unlock(&order_lock);
}

/* The machine is about to sleep, or has woken.  A GPU that appeared in between wakes without having slept. */
void port_gpus_sleep(bool sleeps)
{
	struct port_gpu *dev;

	mutex_lock(&gpus_lock);
	list_for_each_entry(dev, &gpus, node) {
		if (!dev->gpu || dev->suspended == sleeps)
			continue;
		dev->suspended = sleeps;
		if (sleeps)
			gpurt_gpu_suspend(dev->gpu);
		else
			gpurt_gpu_resume(dev->gpu);
	}
	mutex_unlock(&gpus_lock);
}

static const char *state_of(const struct port_gpu *dev)
{
	if (*dev->refused)
		return "refused";
	if (dev->suspended)
		return "suspended";
	if (READ_ONCE(dev->resetting))
		return "resetting";
	return READ_ONCE(dev->err) == -EOPNOTSUPP ? "unable" : "on";
}

/* Called under RCU. */
static int describe_gpu(const struct port_gpu *dev, char *text, int size)
{
	struct gpurt_gpu *gpu = rcu_dereference(dev->asked);
	char number[12] = "-";

	if (gpu)
		snprintf(number, sizeof(number), "%u", gpurt_gpu_number(gpu));
	return snprintf(text, size, "driver=%s device=%s gpu=%s state=%s error=%d asks=%u%s%s\n", dev->driver->name,
			dev->name, number, state_of(dev), READ_ONCE(dev->err), atomic_read(&dev->asks),
			*dev->refused ? " reason=" : "", dev->refused);
}

/* Writes a line for each GPU, and one with the number that did not fit; returns their length.  See describe(). */
int port_gpus_describe(char *text, int size)
{
	int length = 0, more = 0, one;
	struct port_gpu *dev;

	rcu_read_lock();
	list_for_each_entry_rcu(dev, &gpus, node) {
		one = describe_gpu(dev, text + length, size - LAST_LINE - length);
		if (!more && one < size - LAST_LINE - length)
			length += one;
		else
			more++;
	}
	rcu_read_unlock();
	if (more)
		length += scnprintf(text + length, size - length,
				    "driver=- device=- gpu=- state=more error=0 asks=0 reason=%d more GPUs are not listed\n",
				    more);
	else
		text[length] = 0;
	return length;
}

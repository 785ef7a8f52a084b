// SPDX-License-Identifier: GPL-2.0
/*
 * A patched driver knows processes that have TSGs, gpurt knows clients: here both are found by process.  A process may
 * have very many clients, and may open and close TSGs very often.  Drivers wait for the lock with locks of their own
 * held.  So the lock is never held for longer than it takes to notify a few clients.  The client that has the GPU is
 * notified at once, and so are all clients if there are few.  A worker notifies the others, a few at a time.
 */
#include <linux/pid.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "../base/workers.h"
#include "port_processes.h"

#define AT_ONCE 8	/* clients or processes that are handled under one hold of the lock */

/* A process that has TSGs, or clients. */
struct port_process {
	struct gpurt_by_process by;	/* of port_processes.tree */
	struct list_head node;		/* of port_processes.all, those judged by the oldest rules first */
	struct rcu_head rcu;
	struct list_head told, untold;	/* of port_client.node; untold: may have missed news */
	struct list_head news;		/* of port_processes.news, while a worker is to tell clients; else empty */
	int tsgs;
	u32 rules;			/* number of the rules that @exempt follows */
	bool exempt;			/* as of its first TSG, or of the last change of rules */

	bool gone;			/* what follows: with only_lock held */
	u32 kills;			/* how often its work was killed */
	struct list_head killed;	/* of port_processes.killed, while clients must be notified; else empty */
};

/* A client, from client_open() to client_close(). */
struct port_client {
	struct list_head node;		/* of port_process.told or .untold */
	struct port_process *process;
	struct gpurt_client *client;
	int tsgs;			/* as it was last told */
	u32 kills;			/* likewise; with only_lock held */
};

/* Called under RCU, or with the lock held. */
static struct port_process *find(struct port_processes *all, const struct pid *tgid)
{
	struct gpurt_by_process *by = gpurt_processes_find(&all->tree, tgid);

	return by ? container_of(by, struct port_process, by) : NULL;
}

/* Called with the lock held.  @p is all zeros. */
static void enter(struct port_processes *all, struct port_process *p, struct pid *tgid)
{
	p->by.tgid = get_pid(tgid);
	p->rules = all->rules;
	INIT_LIST_HEAD(&p->told);
	INIT_LIST_HEAD(&p->untold);
	INIT_LIST_HEAD(&p->news);
	INIT_LIST_HEAD(&p->killed);
	gpurt_processes_add(&all->tree, &p->by);
	list_add_tail(&p->node, &all->all);
}

/* Called with the lock held. */
static void forget(struct port_processes *all, struct port_process *p)
{
	gpurt_processes_remove(&all->tree, &p->by);
	list_del(&p->node);
	list_del(&p->news);
	raw_spin_lock(&all->only_lock);
	p->gone = true;
	list_del(&p->killed);
	raw_spin_unlock(&all->only_lock);
	put_pid(p->by.tgid);	/* readers that still see it only compare it */
	kfree_rcu(p, rcu);
}

/* Called with the lock held. */
static void forget_unused(struct port_processes *all, struct port_process *p)
{
	if (!p->tsgs && list_empty(&p->told) && list_empty(&p->untold))
		forget(all, p);
}

/* In process context.  NULL: no memory. */
struct port_client *port_client_make(struct port_processes *all, struct pid *tgid, struct gpurt_client *client)
{
	struct port_process *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT), *p;
	struct port_client *c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);

	if (!fresh || !c) {
		kfree(fresh);
		kfree(c);
		return NULL;
	}
	c->client = client;
	rt_mutex_lock(&all->lock);
	p = find(all, tgid);
	if (!p) {
		p = fresh;
		fresh = NULL;
		enter(all, p, tgid);
	}
	c->process = p;
	c->tsgs = p->tsgs;
	raw_spin_lock(&all->only_lock);
	c->kills = p->kills;
	raw_spin_unlock(&all->only_lock);
	list_add(&c->node, &p->told);
	if (p->tsgs)
		gpurt_client_tsgs_changed(client, p->tsgs);
	rt_mutex_unlock(&all->lock);
	kfree(fresh);
	return c;
}

static void forget_alone(struct port_processes *all, const struct port_client *c)
{
	raw_spin_lock(&all->only_lock);
	if (all->only == c)
		WRITE_ONCE(all->only, NULL);
	raw_spin_unlock(&all->only_lock);
}

/* In process context. */
void port_client_free(struct port_processes *all, struct port_client *c)
{
	struct port_process *p = c->process;

	rt_mutex_lock(&all->lock);
	forget_alone(all, c);
	list_del(&c->node);
	forget_unused(all, p);
	rt_mutex_unlock(&all->lock);
	kfree(c);
}

/* Stands for a group in port_client_alone().  It belongs to no process, so a worker notifies members. */
struct port_client *port_group_make(void)
{
	return kzalloc(sizeof(struct port_client), GFP_KERNEL_ACCOUNT);
}

void port_group_free(struct port_processes *all, struct port_client *group)
{
	forget_alone(all, group);
	kfree(group);
}

/* A commit is to make the client, or the group, alone on the runlist; NULL: it is everyone's. */
void port_client_alone(struct port_processes *all, struct port_client *c)
{
	raw_spin_lock(&all->only_lock);
	WRITE_ONCE(all->only, c);
	raw_spin_unlock(&all->only_lock);
}

/* Called with the lock held. */
static void tell(struct port_processes *all, struct port_client *c)
{
	struct port_process *p = c->process;
	int change = p->tsgs - c->tsgs;
	bool killed;

	list_move_tail(&c->node, &p->told);
	c->tsgs = p->tsgs;
	raw_spin_lock(&all->only_lock);
	killed = c->kills != p->kills;
	c->kills = p->kills;
	raw_spin_unlock(&all->only_lock);
	if (killed)
		gpurt_client_killed(c->client);
	if (change)
		gpurt_client_tsgs_changed(c->client, change);
}

/* Called with the lock held.  Notifies the clients that have waited longest; a worker notifies the others. */
static void tell_some(struct port_processes *all, struct port_process *p)
{
	int left;

	for (left = AT_ONCE; left && !list_empty(&p->untold); left--)
		tell(all, list_first_entry(&p->untold, struct port_client, node));
	list_del_init(&p->news);
	if (list_empty(&p->untold))
		return;
	list_add_tail(&p->news, &all->news);
	queue_work(gpurt_workers, &all->telling);
}

/* Called with the lock held.  There is news for all clients of the process. */
static void tell_all(struct port_processes *all, struct port_process *p)
{
	struct port_client *first;

	list_splice_tail_init(&p->told, &p->untold);
	raw_spin_lock(&all->only_lock);
	first = all->only && all->only->process == p ? all->only : NULL;
	raw_spin_unlock(&all->only_lock);
	if (first)	/* not freed meanwhile: freeing needs the lock */
		tell(all, first);
	tell_some(all, p);
}

/* In process context.  The process has @change more TSGs.  Rules by name compare its present name. */
void port_processes_tsgs(struct port_processes *all, struct pid *tgid, int change)
{
	struct port_process *p;

	rt_mutex_lock(&all->lock);
	p = find(all, tgid);
	if (!p && change > 0) {
		/* The driver reports this once, and the hook cannot fail. */
		p = kzalloc(sizeof(*p), GFP_KERNEL | __GFP_NOFAIL);
		enter(all, p, tgid);
	}
	if (p && !p->tsgs)
		WRITE_ONCE(p->exempt, gpurt_process_is_exempt(tgid));
	if (!p || p->tsgs + change < 0) {
		pr_warn_once("gpurt: a driver says that a process closes TSGs that it has not opened\n");
	} else {
		p->tsgs += change;
		tell_all(all, p);
		forget_unused(all, p);
	}
	rt_mutex_unlock(&all->lock);
}

/* Called under RCU.  Whether the process is exempt, client or not. */
bool port_processes_is_exempt(struct port_processes *all, struct pid *tgid)
{
	struct port_process *p = find(all, tgid);

	return p && READ_ONCE(p->exempt);
}

/* Called with the lock held.  The process judged by the oldest rules; NULL: all are judged by the present rules. */
static struct port_process *outdated(struct port_processes *all)
{
	struct port_process *p = list_first_entry_or_null(&all->all, struct port_process, node);

	return p && p->rules != all->rules ? p : NULL;
}

/* In process context.  The rules have changed.  When this returns, every process is judged by them. */
void port_processes_exemptions(struct port_processes *all)
{
	struct port_process *p;
	int left;

	rt_mutex_lock(&all->lock);
	all->rules++;
	do {
		for (left = AT_ONCE; left && (p = outdated(all)); left--) {
			p->rules = all->rules;
			list_move_tail(&p->node, &all->all);
			WRITE_ONCE(p->exempt, gpurt_process_is_exempt(p->by.tgid));
		}
		rt_mutex_unlock(&all->lock);
		cond_resched();
		rt_mutex_lock(&all->lock);
	} while (outdated(all));
	rt_mutex_unlock(&all->lock);
}

/*
 * Called with the lock held.  Notes the kill of a process's work as news for its clients, for one such process at a
 * time.
 */
static void take_killed(struct port_processes *all)
{
	struct port_process *p;

	raw_spin_lock(&all->only_lock);
	p = list_first_entry_or_null(&all->killed, struct port_process, killed);
	if (p)
		list_del_init(&p->killed);
	raw_spin_unlock(&all->only_lock);
	if (!p)
		return;
	list_splice_tail_init(&p->told, &p->untold);
	list_move_tail(&p->news, &all->news);
}

/* A worker notifies some clients of one process that have not been told yet, and comes back for the others. */
static void tell_others(struct work_struct *work)
{
	struct port_processes *all = container_of(work, struct port_processes, telling);
	struct port_process *p;
	bool killed;

	rt_mutex_lock(&all->lock);
	take_killed(all);
	p = list_first_entry_or_null(&all->news, struct port_process, news);
	if (p)
		tell_some(all, p);
	raw_spin_lock(&all->only_lock);
	killed = !list_empty(&all->killed);
	raw_spin_unlock(&all->only_lock);
	if (killed || !list_empty(&all->news))
		queue_work(gpurt_workers, &all->telling);
	rt_mutex_unlock(&all->lock);
}

/*
 * Called under RCU, with locks of the driver held, but not in an interrupt.  The process's work was aborted.  The
 * client that has the GPU learns of it at once, so that the next client gets the GPU.  A worker notifies the process's
 * other clients, which may be very many.
 */
void port_processes_killed(struct port_processes *all, struct pid *tgid)
{
	struct port_process *p = find(all, tgid);

	if (!p)
		return;
	raw_spin_lock(&all->only_lock);
	if (!p->gone) {
		p->kills++;
		if (all->only && all->only->process == p) {
			all->only->kills = p->kills;
			gpurt_client_killed(all->only->client);
		}
		if (list_empty(&p->killed))
			list_add_tail(&p->killed, &all->killed);
		queue_work(gpurt_workers, &all->telling);
	}
	raw_spin_unlock(&all->only_lock);
}

void port_processes_init(struct port_processes *all)
{
	rt_mutex_init(&all->lock);
	INIT_LIST_HEAD(&all->all);
	INIT_LIST_HEAD(&all->news);
	INIT_LIST_HEAD(&all->killed);
	INIT_WORK(&all->telling, tell_others);
	raw_spin_lock_init(&all->only_lock);
}

/* Called when nothing is opened, closed or killed any more, and there is no client. */
void port_processes_stop(struct port_processes *all)
{
	struct port_process *p, *next;

	cancel_work_sync(&all->telling);
	rt_mutex_lock(&all->lock);
	list_for_each_entry_safe(p, next, &all->all, node) {
		forget(all, p);
		cond_resched();
	}
	rt_mutex_unlock(&all->lock);
}

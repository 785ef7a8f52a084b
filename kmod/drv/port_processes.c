// SPDX-License-Identifier: GPL-2.0
/*
 * A patched driver knows processes that have TSGs, gpurt knows clients: here both are found by process.  A process may
 * have very many clients, and may open and close TSGs very often.
 */
#include <linux/pid.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "../workers.h"
#include "port_processes.h"

/* A process that has TSGs, or clients. */
struct port_process {
	struct gpurt_by_process by;	/* of port_processes.tree */
	struct list_head node;		/* of port_processes.all */
	struct rcu_head rcu;
	struct list_head clients;	/* of port_client.node */
	int tsgs;
	bool exempt;			/* by a rule, when it opened its first TSG or when the rules last changed */
	bool killed;			/* its clients are still to be told */
};

/* A client, from client_open() to client_close(). */
struct port_client {
	struct list_head node;
	struct port_process *process;
	struct gpurt_client *client;
	bool told;			/* that its work was killed, before the others; with only_lock held */
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
	INIT_LIST_HEAD(&p->clients);
	gpurt_processes_add(&all->tree, &p->by);
	list_add_tail(&p->node, &all->all);
}

/* Called with the lock held. */
static void forget(struct port_processes *all, struct port_process *p)
{
	gpurt_processes_remove(&all->tree, &p->by);
	list_del(&p->node);
	put_pid(p->by.tgid);	/* those who still look only compare it */
	kfree_rcu(p, rcu);
}

/* Called with the lock held. */
static void forget_unused(struct port_processes *all, struct port_process *p)
{
	if (!p->tsgs && list_empty(&p->clients))
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
	mutex_lock(&all->lock);
	p = find(all, tgid);
	if (!p) {
		p = fresh;
		fresh = NULL;
		enter(all, p, tgid);
	}
	c->process = p;
	list_add(&c->node, &p->clients);
	if (p->tsgs)
		gpurt_client_tsgs_changed(client, p->tsgs);
	mutex_unlock(&all->lock);
	kfree(fresh);
	return c;
}

/* In process context. */
void port_client_free(struct port_processes *all, struct port_client *c)
{
	struct port_process *p = c->process;

	mutex_lock(&all->lock);
	raw_spin_lock(&all->only_lock);
	if (all->only == c)
		WRITE_ONCE(all->only, NULL);
	raw_spin_unlock(&all->only_lock);
	list_del(&c->node);
	forget_unused(all, p);
	mutex_unlock(&all->lock);
	kfree(c);
}

/* A commit is to make the client alone on the runlist; NULL: it is everyone's. */
void port_client_alone(struct port_processes *all, struct port_client *c)
{
	raw_spin_lock(&all->only_lock);
	WRITE_ONCE(all->only, c);
	raw_spin_unlock(&all->only_lock);
}

/* Called with the lock held. */
static void change_tsgs(struct port_processes *all, struct port_process *p, int change)
{
	struct port_client *c;

	p->tsgs += change;
	list_for_each_entry(c, &p->clients, node) {
		gpurt_client_tsgs_changed(c->client, change);
		cond_resched();
	}
	forget_unused(all, p);
}

/* In process context.  The process has @change TSGs more.  The name that counts for rules is the one it has now. */
void port_processes_tsgs(struct port_processes *all, struct pid *tgid, int change)
{
	struct port_process *p;

	mutex_lock(&all->lock);
	p = find(all, tgid);
	if (!p && change > 0) {
		/* The driver tells it once, and there is no way to say no. */
		p = kzalloc(sizeof(*p), GFP_KERNEL | __GFP_NOFAIL);
		enter(all, p, tgid);
	}
	if (p && !p->tsgs)
		WRITE_ONCE(p->exempt, gpurt_process_is_exempt(tgid));
	if (!p || p->tsgs + change < 0)
		pr_warn_once("gpurt: a driver says that a process closes TSGs that it has not opened\n");
	else
		change_tsgs(all, p, change);
	mutex_unlock(&all->lock);
}

/* Called under RCU.  Whether the process is exempt, client or not. */
bool port_processes_is_exempt(struct port_processes *all, struct pid *tgid)
{
	struct port_process *p = find(all, tgid);

	return p && READ_ONCE(p->exempt);
}

/* In process context.  The rules have changed. */
void port_processes_exemptions(struct port_processes *all)
{
	struct port_process *p;

	mutex_lock(&all->lock);
	list_for_each_entry(p, &all->all, node) {
		WRITE_ONCE(p->exempt, gpurt_process_is_exempt(p->by.tgid));
		cond_resched();
	}
	mutex_unlock(&all->lock);
}

/* Called with the lock held. */
static void tell_killed(struct port_processes *all, struct port_process *p)
{
	struct port_client *c;
	bool told;

	WRITE_ONCE(p->killed, false);
	list_for_each_entry(c, &p->clients, node) {
		raw_spin_lock(&all->only_lock);
		told = c->told;
		c->told = false;
		raw_spin_unlock(&all->only_lock);
		if (!told)
			gpurt_client_killed(c->client);
		cond_resched();
	}
}

static void tell_others(struct work_struct *work)
{
	struct port_processes *all = container_of(work, struct port_processes, killing);
	struct port_process *p;

	mutex_lock(&all->lock);
	list_for_each_entry(p, &all->all, node) {
		if (READ_ONCE(p->killed))
			tell_killed(all, p);
		cond_resched();
	}
	mutex_unlock(&all->lock);
}

/*
 * Called under RCU, with locks of the driver held, but not in an interrupt.  The process's work was aborted.  The
 * client that has the GPU learns of it at once, so that the next one gets the GPU; a worker tells the process's others,
 * of which there may be very many.
 */
void port_processes_killed(struct port_processes *all, struct pid *tgid)
{
	struct port_process *p = find(all, tgid);

	if (!p)
		return;
	raw_spin_lock(&all->only_lock);
	if (all->only && all->only->process == p) {
		all->only->told = true;
		gpurt_client_killed(all->only->client);
	}
	raw_spin_unlock(&all->only_lock);
	WRITE_ONCE(p->killed, true);
	queue_work(gpurt_workers, &all->killing);
}

void port_processes_init(struct port_processes *all)
{
	mutex_init(&all->lock);
	INIT_LIST_HEAD(&all->all);
	INIT_WORK(&all->killing, tell_others);
	raw_spin_lock_init(&all->only_lock);
}

/* Nobody opens, closes or kills anything any more, and there is no client. */
void port_processes_stop(struct port_processes *all)
{
	struct port_process *p, *next;

	cancel_work_sync(&all->killing);
	mutex_lock(&all->lock);
	list_for_each_entry_safe(p, next, &all->all, node) {
		forget(all, p);
		cond_resched();
	}
	mutex_unlock(&all->lock);
}

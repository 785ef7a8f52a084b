// SPDX-License-Identifier: GPL-2.0
/*
 * Users choose how many processes there are.  So nothing here takes longer than a search in a balanced tree, except
 * gpurt_agent_processes_free(), which frees pruned processes.
 */
#include <linux/bits.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "agent_processes.h"

#define PRUNED 8	/* lapsed processes that each new process checks: more than it can add */

/* May sleep.  NULL: no memory. */
struct agent_process *gpurt_agent_process_make(struct pid *tgid)
{
	struct agent_process *p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);

	if (!p)
		return NULL;
	p->tgid = get_pid(tgid);
	p->told.set = NO_SET;
	INIT_LIST_HEAD(&p->ordered);
	return p;
}

void gpurt_agent_process_free(struct agent_process *p)
{
	put_pid(p->tgid);
	kfree(p);
}

void gpurt_agent_processes_free(struct list_head *gone)
{
	struct agent_process *p, *next;

	list_for_each_entry_safe(p, next, gone, ordered)
		gpurt_agent_process_free(p);
}

/*
 * Called with the lock held.  Finds the process of @fresh->tgid, which may have lapsed, or enters @fresh.
 */
struct agent_process *gpurt_agent_process_enter(struct agent_processes *all, struct agent_process *fresh)
{
	struct rb_node **link = &all->tree.rb_node, *parent = NULL;
	struct agent_process *p;

	while (*link) {
		parent = *link;
		p = rb_entry(parent, struct agent_process, node);
		if (p->tgid == fresh->tgid)
			return p;
		link = fresh->tgid < p->tgid ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&fresh->node, parent, link);
	rb_insert_color(&fresh->node, &all->tree);
	return fresh;
}

/* Called with the lock held.  The process no longer has a client, and is remembered until it ends. */
void gpurt_agent_process_lapse(struct agent_processes *all, struct agent_process *p)
{
	list_add_tail(&p->ordered, &all->lapsed);
}

/* Called with the lock held. */
void gpurt_agent_process_remove(struct agent_processes *all, struct agent_process *p)
{
	rb_erase(&p->node, &all->tree);
	list_del_init(&p->ordered);
}

/* Called with the lock held.  Moves some lapsed processes that have ended to @gone; the next call looks at others. */
void gpurt_agent_processes_prune(struct agent_processes *all, struct list_head *gone)
{
	struct agent_process *p;
	unsigned int count;

	rcu_read_lock();
	for (count = 0; count < PRUNED && !list_empty(&all->lapsed); count++) {
		p = list_first_entry(&all->lapsed, struct agent_process, ordered);
		if (pid_task(p->tgid, PIDTYPE_TGID)) {
			list_move_tail(&p->ordered, &all->lapsed);
		} else {
			gpurt_agent_process_remove(all, p);
			list_add(&p->ordered, gone);
		}
	}
	rcu_read_unlock();
}

#define NAMESPACE BIT_ULL(32)	/* above all users */

/*
 * The user to whom an agent of the caller's would belong.  Anyone can get more users in user namespaces: there the user
 * counts that made the outermost namespace.  Root makes namespaces for others, so each of these counts as a user.
 */
u64 gpurt_agent_user(void)
{
	const struct user_namespace *ns = current_user_ns();

	if (ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE))
		return GPURT_AGENT_UNLIMITED;
	if (ns == &init_user_ns)
		return __kuid_val(current_uid());
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	return uid_eq(ns->owner, GLOBAL_ROOT_UID) ? NAMESPACE | ns->ns.inum : __kuid_val(ns->owner);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The administrator's rules about processes, by process, by name, or by cgroup.  They also hold for clients that open
 * the device later.  The name is the process's name when it opened the device, and a process can choose its name.  Use
 * rules by name only if every user that may open the device is trusted.
 *
 * The lock is for changes of rules.  Readers take no lock, because any process may have rules read, even a process that
 * is kept from its CPU meanwhile.  A driver may ask for a process while it holds a lock that its commit() takes.
 */
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/kernfs.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "base/rules.h"
#include "uapi/gpurt.h"

static DEFINE_MUTEX(rules_lock);	/* for changes of what follows */
static LIST_HEAD(rules);		/* read under RCU */
static unsigned int rules_count[GPURT_RULE_COUNT];
static u64 rules_last;			/* id of the last rule made */
static unsigned int rules_changes = 1;	/* never 0; differs after each change */

/* Called with rules_lock held. */
static struct gpurt_rule_entry *find(enum gpurt_rule what, u32 attr, const char *text, const struct pid *pid)
{
	struct gpurt_rule_entry *rule;

	list_for_each_entry(rule, &rules, node)
		if (rule->what == what && rule->attr == attr && rule->pid == pid && !strcmp(rule->text, text))
			return rule;
	return NULL;
}

/* Called with rules_lock held, or when no other code runs.  Called after the list and the counts have changed. */
static void changed(void)
{
	/* Pairs with gpurt_rules_walk(): a reader that sees the number sees the change. */
	smp_store_release(&rules_changes, rules_changes + 1 ?: 1);
}

static void rule_free(struct rcu_head *rcu)
{
	struct gpurt_rule_entry *rule = container_of(rcu, struct gpurt_rule_entry, rcu);

	put_pid(rule->pid);
	kfree(rule);
}

/* Called with rules_lock held, or when no other code runs. */
static void rule_remove(struct gpurt_rule_entry *rule)
{
	list_del_rcu(&rule->node);
	WRITE_ONCE(rules_count[rule->what], rules_count[rule->what] - 1);
	changed();
	call_rcu(&rule->rcu, rule_free);
}

/* Whether the rule is for a process that has ended. */
static bool is_dead(const struct gpurt_rule_entry *rule)
{
	bool dead;

	rcu_read_lock();
	dead = rule->pid && !pid_task(rule->pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return dead;
}

/* Removes the rules for processes that have ended: an administrator can no longer name these processes. */
static void forget_the_dead(void)
{
	struct gpurt_rule_entry *rule, *next;

	list_for_each_entry_safe(rule, next, &rules, node)
		if (is_dead(rule))
			rule_remove(rule);
}

/* The user of the process; INVALID_UID: the process has ended. */
static kuid_t user_of(struct pid *pid)
{
	struct task_struct *task;
	kuid_t user;

	rcu_read_lock();
	task = pid ? pid_task(pid, PIDTYPE_TGID) : NULL;
	user = task ? task_uid(task) : INVALID_UID;
	rcu_read_unlock();
	return user;
}

#ifdef CONFIG_CGROUPS
/* Whether the cgroup v2 hierarchy, which gpurt_cgroup_of() reads, is mounted anywhere: only then can it be used. */
bool gpurt_has_cgroups(void)
{
	struct file_system_type *type = get_fs_type("cgroup2");
	bool mounted = type && !hlist_empty(&type->fs_supers);

	if (type)
		module_put(type->owner);
	return mounted;
}
#else
bool gpurt_has_cgroups(void) { return false; }
#endif

/* Called with rules_lock held.  @why: the reason for a refusal. */
static int rule_add(enum gpurt_rule what, u32 attr, const char *text, struct pid *pid, const char **why)
{
	struct gpurt_rule_entry *rule;

	if (attr == GPURT_A_CGROUP && !gpurt_has_cgroups()) {
		*why = "there are no cgroups of version 2 here, so no rule would match; name a pid or a name";
		return -EOPNOTSUPP;
	}
	forget_the_dead();
	if (rules_count[what] >= GPURT_MAX_RULES) {
		*why = "there are too many such rules already; remove some first";
		return -ENOBUFS;
	}
	rule = kzalloc(sizeof(*rule), GFP_KERNEL);
	if (!rule)
		return -ENOMEM;
	rule->what = what;
	rule->attr = attr;
	rule->pid = get_pid(pid);
	strscpy(rule->text, text, sizeof(rule->text));
	rule->user = user_of(pid);
	rule->id = rules_last + 1;
	rule->since = ktime_get_ns();
	WRITE_ONCE(rules_last, rule->id);
	list_add_tail_rcu(&rule->node, &rules);
	WRITE_ONCE(rules_count[what], rules_count[what] + 1);
	changed();
	return 0;
}

/* Adds or removes the rule for @pid, or for the name or path @text.  Removing a rule that is not there is no error. */
int gpurt_rule_change(enum gpurt_rule what, u32 attr, const char *text, struct pid *pid, bool add, const char **why)
{
	struct gpurt_rule_entry *rule;
	int err = 0;

	mutex_lock(&rules_lock);
	rule = find(what, attr, text, pid);
	if (add && !rule)
		err = rule_add(what, attr, text, pid, why);
	else if (!add && rule)
		rule_remove(rule);
	mutex_unlock(&rules_lock);
	return err;
}

#ifdef CONFIG_CGROUPS
/* Whether @path is @prefix or below it. */
bool gpurt_cgroup_is_below(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	while (n && prefix[n - 1] == '/')
		n--;
	return !strncmp(path, prefix, n) && (!path[n] || path[n] == '/');
}

/*
 * Writes the process's path in the cgroup v2 hierarchy, or the path's beginning.  A process that may make cgroups can
 * make the path of any length.  @path is empty if the process is gone.
 */
void gpurt_cgroup_of(struct pid *tgid, char path[GPURT_CGROUP_START])
{
	struct task_struct *task;

	*path = '\0';
	rcu_read_lock();
	task = pid_task(tgid, PIDTYPE_TGID);
	if (task && kernfs_path(task_dfl_cgroup(task)->kn, path, GPURT_CGROUP_START) < 0)
		*path = '\0';
	rcu_read_unlock();
}
#else
bool gpurt_cgroup_is_below(const char *path, const char *prefix) { return false; }
void gpurt_cgroup_of(struct pid *tgid, char path[GPURT_CGROUP_START]) { *path = '\0'; }
#endif

static bool matches(const struct gpurt_rule_entry *rule, const struct pid *tgid, const char *comm, const char *cgroup)
{
	switch (rule->attr) {
	case GPURT_A_PID:
		return rule->pid == tgid;
	case GPURT_A_COMM:
		return !strcmp(rule->text, comm);
	default:
		return *cgroup && gpurt_cgroup_is_below(cgroup, rule->text);
	}
}

/* Whether any rule of that kind is for the process. */
bool gpurt_rule_holds(enum gpurt_rule what, struct pid *tgid, const char *comm)
{
	char cgroup[GPURT_CGROUP_START];
	struct gpurt_rule_entry *rule;
	bool found = false;

	if (!READ_ONCE(rules_count[what]))
		return false;
	gpurt_cgroup_of(tgid, cgroup);
	rcu_read_lock();
	list_for_each_entry_rcu(rule, &rules, node)
		found = found || (rule->what == what && matches(rule, tgid, comm, cgroup));
	rcu_read_unlock();
	return found;
}

/* Id of the last rule made. */
u64 gpurt_rules_last(void)
{
	return READ_ONCE(rules_last);
}

/*
 * Calls @fn for the rules in force after rule @after and up to rule @last, in the order in which they were made.  The
 * first error ends the walk and is returned.  First stores in *@changes a number that differs after each change, which
 * a reader with several walks compares.  The administrator decides how many rules there are.
 */
int gpurt_rules_walk(u64 after, u64 last, unsigned int *changes, gpurt_rule_fn fn, void *about)
{
	struct gpurt_rule_entry *rule;
	int err = 0;

	*changes = smp_load_acquire(&rules_changes);	/* pairs with changed() */
	rcu_read_lock();
	list_for_each_entry_rcu(rule, &rules, node) {
		if (rule->id <= after || is_dead(rule))
			continue;
		if (rule->id > last || err)
			break;
		err = fn(rule, about);
	}
	rcu_read_unlock();
	return err;
}

/* Removes all rules, which rcu_barrier() frees.  Called when no other code runs. */
void gpurt_rules_clear(void)
{
	struct gpurt_rule_entry *rule, *next;

	list_for_each_entry_safe(rule, next, &rules, node)
		rule_remove(rule);
}

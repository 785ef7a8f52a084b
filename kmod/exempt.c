// SPDX-License-Identifier: GPL-2.0
/*
 * The clients that the administrator exempts, by process, by name, or by cgroup.  The rules also hold for clients that
 * open the device later.  A name is what the process called itself when it opened the device, and a process may choose
 * that.  Use rules by name only if every user that may open the device is trusted.
 */
#include <linux/cgroup.h>
#include <linux/fs.h>
#include <linux/kernfs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "client.h"
#include "exempt.h"

struct rule {
	struct list_head node;
	u32 attr;			/* GPURT_A_PID, GPURT_A_COMM or GPURT_A_CGROUP */
	struct pid *pid;
	char text[GPURT_CGROUP_LEN];
};

static DEFINE_MUTEX(rules_lock);
static LIST_HEAD(rules);
static unsigned int rules_count;

/* Called with rules_lock held. */
static struct rule *find(u32 attr, const char *text, const struct pid *pid)
{
	struct rule *rule;

	list_for_each_entry(rule, &rules, node)
		if (rule->attr == attr && rule->pid == pid && !strcmp(rule->text, text))
			return rule;
	return NULL;
}

/* Called with rules_lock held, or when no other code runs. */
static void rule_free(struct rule *rule)
{
	list_del(&rule->node);
	rules_count--;
	put_pid(rule->pid);
	kfree(rule);
}

/* Removes the rules for processes that have ended: those cannot be named any more. */
static void forget_the_dead(void)
{
	struct rule *rule, *next;
	bool gone;

	list_for_each_entry_safe(rule, next, &rules, node) {
		rcu_read_lock();
		gone = rule->pid && !pid_task(rule->pid, PIDTYPE_TGID);
		rcu_read_unlock();
		if (gone)
			rule_free(rule);
	}
}

#ifdef CONFIG_CGROUPS
/* Whether the hierarchy of version 2, in which cgroup_of() looks, is mounted anywhere: only then can it be used. */
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
static int rule_add(u32 attr, const char *text, struct pid *pid, const char **why)
{
	struct rule *rule;

	if (attr == GPURT_A_CGROUP && !gpurt_has_cgroups()) {
		*why = "there are no cgroups of version 2 here, so no rule would match; exempt by pid or by name";
		return -EOPNOTSUPP;
	}
	forget_the_dead();
	if (rules_count >= GPURT_MAX_RULES) {
		*why = "there are too many exemptions already; remove some first";
		return -ENOBUFS;
	}
	rule = kzalloc(sizeof(*rule), GFP_KERNEL);
	if (!rule)
		return -ENOMEM;
	rule->attr = attr;
	rule->pid = get_pid(pid);
	strscpy(rule->text, text, sizeof(rule->text));
	list_add_tail(&rule->node, &rules);
	rules_count++;
	return 0;
}

/* Adds or removes the rule for @pid, or for the name or path @text.  Removing a rule that is not there is no error. */
int gpurt_exempt_change(u32 attr, const char *text, struct pid *pid, bool add, const char **why)
{
	struct rule *rule;
	int err = 0;

	mutex_lock(&rules_lock);
	rule = find(attr, text, pid);
	if (add && !rule)
		err = rule_add(attr, text, pid, why);
	else if (!add && rule)
		rule_free(rule);
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

/* The path in the cgroup v2 hierarchy; empty if the process is gone or the path too long for any rule. */
void gpurt_cgroup_of(struct pid *tgid, char *path, size_t size)
{
	struct task_struct *task;

	*path = '\0';
	rcu_read_lock();
	task = pid_task(tgid, PIDTYPE_TGID);
	if (task && (size_t)kernfs_path(task_dfl_cgroup(task)->kn, path, size) >= size)
		*path = '\0';
	rcu_read_unlock();
}
#else
bool gpurt_cgroup_is_below(const char *path, const char *prefix) { return false; }
void gpurt_cgroup_of(struct pid *tgid, char *path, size_t size) { *path = '\0'; }
#endif

static bool matches(const struct rule *rule, const struct pid *tgid, const char *comm, const char *cgroup)
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

static bool any_matches(struct pid *tgid, const char *comm)
{
	char cgroup[GPURT_CGROUP_LEN];
	struct rule *rule;
	bool found = false;

	if (!READ_ONCE(rules_count))
		return false;
	gpurt_cgroup_of(tgid, cgroup, sizeof(cgroup));
	mutex_lock(&rules_lock);
	list_for_each_entry(rule, &rules, node)
		found = found || matches(rule, tgid, comm, cgroup);
	mutex_unlock(&rules_lock);
	return found;
}

/* Whether any rule is for this client. */
bool gpurt_exempt_matches(const struct gpurt_client *client)
{
	return any_matches(client->tgid, client->comm);
}

bool gpurt_process_is_exempt(struct pid *tgid)
{
	struct task_struct *task = get_pid_task(tgid, PIDTYPE_TGID);
	char comm[GPURT_COMM_LEN];

	if (!task)
		return false;
	get_task_comm(comm, task);
	put_task_struct(task);
	return any_matches(tgid, comm);
}
EXPORT_SYMBOL_GPL(gpurt_process_is_exempt);

/*
 * Called with the GPU held alive, when the rules have changed and every client has been told.  A driver that knows
 * processes which are no clients looks at those, and the runlist is made anew.
 */
void gpurt_exempt_tell(struct gpurt_gpu *gpu)
{
	if (!gpu->ops.exemptions_changed)
		return;
	gpu->ops.exemptions_changed(gpu->driver);
	gpurt_runlist_refresh(gpu);
}

struct exempt_update {
	struct gpurt_update u;
	bool exempt;
};

static int decide_exempt(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	bool exempt = container_of(u, struct exempt_update, u)->exempt;

	if (u->client->gone)
		return -ENOENT;
	if (u->client->core.exempt == exempt)
		return 0;
	gpu->ops.exempt(gpu->driver, u->client->ctx, exempt);
	gpurt_set_exempt(&gpu->sched, &u->client->core, exempt, now);
	return 0;
}

/*
 * Called with the GPU held alive.  Makes the client what the rules say.  They may change while the decision waits, so
 * it looks again afterwards.
 */
void gpurt_exempt_apply(struct gpurt_client *client)
{
	struct exempt_update e = {
		.u = { .decide = decide_exempt, .client = client, .level = GPURT_GATE_CONTROL, .in_thread = true },
	};

	if (!client->gpu->ops.exempt)
		return;
	do {
		e.exempt = gpurt_exempt_matches(client);
		/* Without rules most clients need not pass the gate. */
		if (e.exempt == READ_ONCE(client->core.exempt))
			return;
	} while (!gpurt_gate_update(client->gpu, &e.u));
}

/* Removes all rules.  Called when no other code runs. */
void gpurt_exempt_clear(void)
{
	struct rule *rule, *next;

	list_for_each_entry_safe(rule, next, &rules, node)
		rule_free(rule);
}

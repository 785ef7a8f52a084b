// SPDX-License-Identifier: GPL-2.0
/*
 * The administrator's budgets.  A budget is not a client's but a group's, which also holds for
 * clients that open the device later.  A process must not get more by opening the device again, or
 * by making other processes.
 *
 * The process that made a client's process is known while the processes between them live.  A
 * client that has been under a budget stays so when they end.  A program that is not trusted
 * belongs into a cgroup, which it cannot leave.
 */
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "base/rules.h"
#include "clients/budgets.h"
#include "decide/gate.h"
#include "state/client.h"

#define GENERATIONS 256

static DEFINE_RT_MUTEX(groups_lock);	/* as gpurt_gpu.clients_lock */
static LIST_HEAD(groups);
static unsigned int groups_count;

static void group_free(struct kref *ref)
{
	struct gpurt_group *group = container_of(ref, struct gpurt_group, ref);

	put_pid(group->pid);
	kfree_rcu(group, rcu);
}

void gpurt_group_put(struct gpurt_group *group)
{
	if (group)
		kref_put(&group->ref, group_free);
}

/* Called with groups_lock held. */
static struct gpurt_group *find(u32 attr, const char *path, const struct pid *pid)
{
	struct gpurt_group *group;

	list_for_each_entry(group, &groups, node)
		if (group->attr == attr && group->pid == pid && !strcmp(group->path, path))
			return group;
	return NULL;
}

/* Called with groups_lock held.  The list's reference is left to the caller. */
static void unlist(struct gpurt_group *group)
{
	list_del(&group->node);
	group->listed = false;
	groups_count--;
}

static bool is_dead(const struct gpurt_group *group)
{
	bool dead;

	rcu_read_lock();
	dead = group->pid && !pid_task(group->pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return dead && kref_read(&group->ref) == 1;
}

/* Called with groups_lock held.  Removes the groups of processes that have ended, without clients. */
static void forget_the_dead(void)
{
	struct gpurt_group *group, *next;

	list_for_each_entry_safe(group, next, &groups, node) {
		if (!is_dead(group))
			continue;
		unlist(group);
		gpurt_group_put(group);
	}
}

/* Called with groups_lock held.  NULL: no memory, or with @why, that there are too many. */
static struct gpurt_group *create(u32 attr, const char *path, struct pid *pid, const char **why)
{
	struct gpurt_group *group;

	forget_the_dead();
	if (groups_count >= GPURT_MAX_RULES) {
		*why = "there are too many budgets already; remove some first";
		return NULL;
	}
	group = kzalloc(sizeof(*group), GFP_KERNEL);
	if (!group)
		return NULL;
	kref_init(&group->ref);
	group->attr = attr;
	group->pid = get_pid(pid);
	strscpy(group->path, path, sizeof(group->path));
	group->listed = true;
	list_add_tail(&group->node, &groups);
	groups_count++;
	return group;
}

/*
 * Finds the group of that process or cgroup, with a reference for the caller.  NULL: there is none,
 * and none was to be made.  Returns -ENOMEM, or -ENOBUFS and why.
 */
int gpurt_group_get(u32 attr, const char *path, struct pid *pid, bool make, struct gpurt_group **group,
		    const char **why)
{
	rt_mutex_lock(&groups_lock);
	*group = find(attr, path, pid);
	if (!*group && make)
		*group = create(attr, path, pid, why);
	if (*group)
		kref_get(&(*group)->ref);
	rt_mutex_unlock(&groups_lock);
	if (*group || !make)
		return 0;
	return *why ? -ENOBUFS : -ENOMEM;
}

/* A group that has no budget on any GPU any more is no group. */
void gpurt_group_settle(struct gpurt_group *group)
{
	bool used = false;
	int i;

	rt_mutex_lock(&groups_lock);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		used |= READ_ONCE(group->budget[i].limit) != 0;
	if (!used && group->listed) {
		unlist(group);
		gpurt_group_put(group);
	}
	rt_mutex_unlock(&groups_lock);
}

/* Called with groups_lock held.  The group of the process, or of the nearest one above it. */
static struct gpurt_group *of_process(struct pid *tgid)
{
	struct gpurt_group *group = NULL;
	struct task_struct *task;
	int generation;

	rcu_read_lock();
	task = pid_task(tgid, PIDTYPE_TGID);
	for (generation = 0; task && !group && generation < GENERATIONS; generation++) {
		group = find(GPURT_A_PID, "", task_tgid(task));
		task = is_global_init(task) ? NULL : rcu_dereference(task->real_parent);
	}
	rcu_read_unlock();
	return group;
}

/* Called with groups_lock held.  The group of the nearest cgroup. */
static struct gpurt_group *of_cgroup(struct pid *tgid)
{
	struct gpurt_group *group, *best = NULL;
	char path[GPURT_CGROUP_START];

	gpurt_cgroup_of(tgid, path);
	list_for_each_entry(group, &groups, node)
		if (group->attr == GPURT_A_CGROUP && *path && gpurt_cgroup_is_below(path, group->path) &&
		    (!best || strlen(group->path) > strlen(best->path)))
			best = group;
	return best;
}

/* The client's group, with a reference for the caller. */
static struct gpurt_group *group_of(struct gpurt_client *client)
{
	struct gpurt_group *group = NULL, *now;

	if (!READ_ONCE(groups_count) && !READ_ONCE(client->group))
		return NULL;
	rt_mutex_lock(&groups_lock);
	group = of_process(client->tgid);
	rcu_read_lock();	/* the client may leave its group meanwhile; one that is listed stays */
	now = READ_ONCE(client->group);
	if (!group && now && now->listed && now->pid)
		group = now;
	rcu_read_unlock();
	if (!group)
		group = of_cgroup(client->tgid);
	if (group)
		kref_get(&group->ref);
	rt_mutex_unlock(&groups_lock);
	return group;
}

/*
 * The budget that the client is under.  For readers without the gate; they keep the client from being freed.  Any
 * process may be one, even one that is kept from its CPU meanwhile: it takes no lock for which clients wait that begin.
 */
void gpurt_group_describe(struct gpurt_client *client, u64 *limit, u64 *period, u32 *action)
{
	const struct gpurt_budget *budget;
	struct gpurt_group *group;

	rcu_read_lock();
	group = READ_ONCE(client->group);	/* of which it may not be any more */
	if (group) {
		budget = &group->budget[client->gpu->index];
		*limit = READ_ONCE(budget->limit);
		*period = *limit ? READ_ONCE(budget->period) : 0;
		*action = READ_ONCE(budget->action);
	}
	rcu_read_unlock();
}

struct group_update {
	struct gpurt_update u;
	struct gpurt_group *group;	/* to join; then, the one that was left */
};

static int decide_group(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_group **group = &container_of(u, struct group_update, u)->group, *left = u->client->group;
	struct gpurt_budget *budget = *group ? &(*group)->budget[gpu->index] : NULL;

	if (u->client->gone)
		return -ENOENT;
	gpurt_join_budget(&gpu->sched, &u->client->core, budget, now);
	WRITE_ONCE(u->client->group, *group);
	*group = left;
	return 0;
}

/*
 * Called with the GPU held alive.  Puts the client under the budget that it should be under.  Budgets may change while
 * the decision waits, so it looks again afterwards.
 */
void gpurt_group_apply(struct gpurt_client *client)
{
	struct group_update g = { .u = { .decide = decide_group, .client = client, .level = GPURT_GATE_CONTROL } };
	bool done;

	do {
		g.group = group_of(client);
		done = g.group == READ_ONCE(client->group);
		if (!done)
			done = gpurt_gate_update(client->gpu, &g.u) != 0;
		gpurt_group_put(g.group);
	} while (!done);
}

/* The GPU and its clients have gone: what its budgets say of clients does not hold for the next one of that number. */
void gpurt_groups_forget_gpu(u32 index)
{
	struct gpurt_group *group;
	struct gpurt_budget *b;

	rt_mutex_lock(&groups_lock);
	list_for_each_entry(group, &groups, node) {
		b = &group->budget[index];
		gpurt_budget_start(b, b->limit, b->period, b->action);
		b->queued = 0;
	}
	rt_mutex_unlock(&groups_lock);
}

/* Removes all groups.  Called when no other code runs. */
void gpurt_groups_clear(void)
{
	struct gpurt_group *group, *next;

	list_for_each_entry_safe(group, next, &groups, node) {
		unlist(group);
		gpurt_group_put(group);
	}
}

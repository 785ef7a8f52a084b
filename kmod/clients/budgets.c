// SPDX-License-Identifier: GPL-2.0
/*
 * The administrator's budgets.  A budget belongs not to a client but to an allowance, which also holds for clients that
 * open the device later.  A process must not get more by opening the device again, or by making other processes.
 *
 * The ancestors of a client's process are known while the processes between them live.  A client that has been under a
 * budget stays under it when they end.  Put a program that is not trusted into a cgroup, which it cannot leave.
 */
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "base/rules.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "state/client.h"
#include "state/team.h"

#define GENERATIONS 256

static DEFINE_RT_MUTEX(allowances_lock);	/* see gpurt_gpu.clients_lock */
static LIST_HEAD(allowances);
static unsigned int allowances_count;

static void allowance_free(struct kref *ref)
{
	struct gpurt_allowance *allowance = container_of(ref, struct gpurt_allowance, ref);

	put_pid(allowance->pid);
	kfree_rcu(allowance, rcu);
}

void gpurt_allowance_put(struct gpurt_allowance *allowance)
{
	if (allowance)
		kref_put(&allowance->ref, allowance_free);
}

/* Called with allowances_lock held. */
static struct gpurt_allowance *find(u32 attr, const char *path, const struct pid *pid)
{
	struct gpurt_allowance *allowance;

	list_for_each_entry(allowance, &allowances, node)
		if (allowance->attr == attr && allowance->pid == pid && !strcmp(allowance->path, path))
			return allowance;
	return NULL;
}

/* Called with allowances_lock held.  The caller gets the list's reference. */
static void unlist(struct gpurt_allowance *allowance)
{
	list_del(&allowance->node);
	allowance->listed = false;
	allowances_count--;
}

static bool is_dead(const struct gpurt_allowance *allowance)
{
	bool dead;

	rcu_read_lock();
	dead = allowance->pid && !pid_task(allowance->pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return dead && kref_read(&allowance->ref) == 1;
}

/* Called with allowances_lock held.  Removes allowances of ended processes, unless these have clients. */
static void forget_the_dead(void)
{
	struct gpurt_allowance *allowance, *next;

	list_for_each_entry_safe(allowance, next, &allowances, node) {
		if (!is_dead(allowance))
			continue;
		unlist(allowance);
		gpurt_allowance_put(allowance);
	}
}

/* Called with allowances_lock held.  NULL: no memory; if @why is set, there are too many. */
static struct gpurt_allowance *create(u32 attr, const char *path, struct pid *pid, const char **why)
{
	struct gpurt_allowance *allowance;

	forget_the_dead();
	if (allowances_count >= GPURT_MAX_RULES) {
		*why = "there are too many budgets already; remove some first";
		return NULL;
	}
	allowance = kzalloc(sizeof(*allowance), GFP_KERNEL);
	if (!allowance)
		return NULL;
	kref_init(&allowance->ref);
	allowance->attr = attr;
	allowance->pid = get_pid(pid);
	strscpy(allowance->path, path, sizeof(allowance->path));
	allowance->listed = true;
	list_add_tail(&allowance->node, &allowances);
	allowances_count++;
	return allowance;
}

/*
 * Finds the allowance of that process or cgroup, with a reference for the caller, or makes it if @make.  NULL: there is
 * no allowance.  Returns 0, -ENOMEM, or -ENOBUFS with the reason in @why.
 */
int gpurt_allowance_get(u32 attr, const char *path, struct pid *pid, bool make, struct gpurt_allowance **allowance,
			const char **why)
{
	rt_mutex_lock(&allowances_lock);
	*allowance = find(attr, path, pid);
	if (!*allowance && make)
		*allowance = create(attr, path, pid, why);
	if (*allowance)
		kref_get(&(*allowance)->ref);
	rt_mutex_unlock(&allowances_lock);
	if (*allowance || !make)
		return 0;
	return *why ? -ENOBUFS : -ENOMEM;
}

/* Ends an allowance that has no budget left on any GPU. */
void gpurt_allowance_settle(struct gpurt_allowance *allowance)
{
	bool used = false;
	int i;

	rt_mutex_lock(&allowances_lock);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		used |= READ_ONCE(allowance->budget[i].limit) != 0;
	if (!used && allowance->listed) {
		unlist(allowance);
		gpurt_allowance_put(allowance);
	}
	rt_mutex_unlock(&allowances_lock);
}

/* Called with allowances_lock held.  The allowance of the process, or of its nearest ancestor that has one. */
static struct gpurt_allowance *of_process(struct pid *tgid)
{
	struct gpurt_allowance *allowance = NULL;
	struct task_struct *task;
	int generation;

	rcu_read_lock();
	task = pid_task(tgid, PIDTYPE_TGID);
	for (generation = 0; task && !allowance && generation < GENERATIONS; generation++) {
		allowance = find(GPURT_A_PID, "", task_tgid(task));
		task = is_global_init(task) ? NULL : rcu_dereference(task->real_parent);
	}
	rcu_read_unlock();
	return allowance;
}

/* Called with allowances_lock held.  The allowance of the nearest cgroup. */
static struct gpurt_allowance *of_cgroup(struct pid *tgid)
{
	struct gpurt_allowance *allowance, *best = NULL;
	char path[GPURT_CGROUP_START];

	gpurt_cgroup_of(tgid, path);
	list_for_each_entry(allowance, &allowances, node)
		if (allowance->attr == GPURT_A_CGROUP && *path && gpurt_cgroup_is_below(path, allowance->path) &&
		    (!best || strlen(allowance->path) > strlen(best->path)))
			best = allowance;
	return best;
}

/* The client's allowance, with a reference for the caller. */
struct gpurt_allowance *gpurt_allowance_of(struct gpurt_client *client)
{
	struct gpurt_allowance *allowance = NULL, *now;

	if (!READ_ONCE(allowances_count) && !READ_ONCE(client->allowance))
		return NULL;
	rt_mutex_lock(&allowances_lock);
	allowance = of_process(client->tgid);
	rcu_read_lock();	/* the client may leave its allowance meanwhile; a listed allowance stays */
	now = READ_ONCE(client->allowance);
	if (!allowance && now && now->listed && now->pid)
		allowance = now;
	rcu_read_unlock();
	if (!allowance)
		allowance = of_cgroup(client->tgid);
	if (allowance)
		kref_get(&allowance->ref);
	rt_mutex_unlock(&allowances_lock);
	return allowance;
}

/*
 * The budget that the client is under, for readers without the gate, who keep the client from being freed.  Any process
 * may read, and may lose its CPU meanwhile.  So this takes no lock that a client's begin waits for.
 */
void gpurt_allowance_describe(struct gpurt_client *client, u64 *limit, u64 *period, u32 *action)
{
	const struct gpurt_budget *budget;
	struct gpurt_allowance *allowance;

	const struct gpurt_seat *seat = READ_ONCE(client->seat);

	rcu_read_lock();
	allowance = READ_ONCE(*(seat ? &seat->allowance : &client->allowance));	/* which it may have left already */
	if (allowance) {
		budget = &allowance->budget[client->gpu->index];
		*limit = READ_ONCE(budget->limit);
		*period = *limit ? READ_ONCE(budget->period) : 0;
		*action = READ_ONCE(budget->action);
	}
	rcu_read_unlock();
}

/* Called with the gate held.  Whether the group is under a budget other than this one.  Member @but does not count. */
bool gpurt_allowance_bars(struct gpurt_seat *seat, const struct gpurt_allowance *allowance, struct gpurt_client *but)
{
	struct gpurt_client *client;

	list_for_each_entry(client, &seat->members, in_seat)
		if (client != but && client->allowance && allowance && client->allowance != allowance)
			return true;
	return false;
}

/* Called with the gate held.  The group is under the budget of the first member that is under one. */
void gpurt_allowance_share(struct gpurt_seat *seat, u64 now)
{
	struct gpurt_allowance *allowance = NULL;
	struct gpurt_client *client;

	list_for_each_entry(client, &seat->members, in_seat)
		allowance = allowance ?: client->allowance;
	WRITE_ONCE(seat->allowance, allowance);
	if (!list_empty(&seat->members))
		gpurt_join_budget(&seat->gpu->sched, &seat->core.core,
				  gpurt_allowance_budget(allowance, seat->gpu->index), now);
}

struct allowance_update {
	struct gpurt_update u;
	struct gpurt_allowance *allowance;	/* the one to join; afterwards the one that was left */
};

static int decide_allowance(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_allowance **allowance = &container_of(u, struct allowance_update, u)->allowance;
	struct gpurt_allowance *left = u->client->allowance;
	struct gpurt_budget *budget = gpurt_allowance_budget(*allowance, gpu->index);
	struct gpurt_seat *seat = u->client->seat;

	if (u->client->gone)
		return -ENOENT;
	if (seat && gpurt_allowance_bars(seat, *allowance, u->client))
		return -EDQUOT;
	if (!seat)
		gpurt_join_budget(&gpu->sched, &u->client->core, budget, now);
	WRITE_ONCE(u->client->allowance, *allowance);
	*allowance = left;
	if (seat)
		gpurt_allowance_share(seat, now);
	return 0;
}

/*
 * Called with the GPU held alive.  Puts the client under the budget that the rules give it.  Budgets may change while
 * the decision waits, so it checks again afterwards.
 */
void gpurt_allowance_apply(struct gpurt_client *client)
{
	struct allowance_update g = {
		.u = { .decide = decide_allowance, .client = client, .level = GPURT_GATE_CONTROL },
	};
	bool done;

	do {
		g.allowance = gpurt_allowance_of(client);
		done = g.allowance == READ_ONCE(client->allowance);
		if (!done)
			done = gpurt_gate_update(client->gpu, &g.u) != 0;
		gpurt_allowance_put(g.allowance);
	} while (!done);
}

/*
 * Called with the GPU held alive.  A group's member that is to be under another budget leaves its own.  A group is
 * under one budget, so all members leave before the first joins the other budget.
 */
void gpurt_allowance_leave(struct gpurt_client *client)
{
	struct allowance_update g = {
		.u = { .decide = decide_allowance, .client = client, .level = GPURT_GATE_CONTROL },
	};
	struct gpurt_allowance *wanted;

	if (!READ_ONCE(client->seat))
		return;
	wanted = gpurt_allowance_of(client);
	if (wanted != READ_ONCE(client->allowance))
		gpurt_gate_update(client->gpu, &g.u);
	gpurt_allowance_put(wanted);
	gpurt_allowance_put(g.allowance);
}

/* The GPU and its clients have gone: resets its budgets, since the next GPU of that number has other clients. */
void gpurt_allowances_forget_gpu(u32 index)
{
	struct gpurt_allowance *allowance;
	struct gpurt_budget *b;

	rt_mutex_lock(&allowances_lock);
	list_for_each_entry(allowance, &allowances, node) {
		b = &allowance->budget[index];
		gpurt_budget_start(b, b->limit, b->period, b->action);
		b->queued = 0;
	}
	rt_mutex_unlock(&allowances_lock);
}

/* Removes all allowances.  Called when no other code runs. */
void gpurt_allowances_clear(void)
{
	struct gpurt_allowance *allowance, *next;

	list_for_each_entry_safe(allowance, next, &allowances, node) {
		unlist(allowance);
		gpurt_allowance_put(allowance);
	}
}

// SPDX-License-Identifier: GPL-2.0
/* The control plane's SET commands.  A command that is refused changes nothing. */
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/string.h>

#include "base/raised.h"
#include "base/rules.h"
#include "calls/calls.h"
#include "clients/clients.h"
#include "core/calls.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/team.h"

static u32 get_u32(struct genl_info *info, u32 attr, u32 otherwise)
{
	return info->attrs[attr] ? nla_get_u32(info->attrs[attr]) : otherwise;
}

static u64 get_u64(struct genl_info *info, u32 attr, u64 otherwise)
{
	return info->attrs[attr] ? nla_get_u64(info->attrs[attr]) : otherwise;
}

/*
 * Does a command's work on one GPU, which is held alive.  Returns -errno, or the number of changed clients.
 */
typedef int (*gpu_fn)(struct gpurt_gpu *gpu, struct genl_info *info, void *about);

static int one_gpu(u32 index, gpu_fn fn, struct genl_info *info, void *about)
{
	struct gpurt_gpu *gpu = gpurt_gpu_get(index);
	int ret = -ENODEV, reading, token;

	if (!gpu)
		return ret;
	reading = gpurt_clients_read();
	if (gpurt_gpu_hold(gpu, &token)) {
		ret = fn(gpu, info, about);
		gpurt_gpu_release(gpu, token);
	}
	gpurt_clients_done(reading);
	gpurt_gpu_put(gpu);
	return ret;
}

/* Calls @fn for the GPU that the message names, or for all.  Returns the sum of its results, or the first error. */
static int each_gpu(struct genl_info *info, gpu_fn fn, void *about)
{
	int ret, count = 0;
	u32 i;

	/* Pairs with client_join(): earlier changes hold for clients that the walk does not meet. */
	smp_mb();
	if (info->attrs[GPURT_A_GPU]) {
		ret = one_gpu(nla_get_u32(info->attrs[GPURT_A_GPU]), fn, info, about);
		if (ret == -ENODEV)
			gpurt_nl_refuse(info->extack, ret, "no GPU of that number");
		return ret;
	}
	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		ret = one_gpu(i, fn, info, about);
		if (ret < 0 && ret != -ENODEV)
			return ret;
		count += max(ret, 0);
	}
	return count;
}

typedef void (*client_fn)(struct gpurt_client *client);

static int to_clients(struct gpurt_gpu *gpu, struct genl_info *info, void *fn)
{
	struct gpurt_client *client;

	gpurt_for_each_client(client, gpu) {
		(*(client_fn *)fn)(client);
		cond_resched();
	}
	return 0;
}

/* Calls @fn for every client of the GPU that the message names, or of all GPUs. */
static int each_client(struct genl_info *info, client_fn fn)
{
	return each_gpu(info, to_clients, &fn);
}

static int set_priority(struct gpurt_gpu *gpu, struct genl_info *info, void *pid)
{
	struct gpurt_client *client;
	int count = 0;

	gpurt_for_each_client(client, gpu) {
		cond_resched();
		if (pid && client->tgid == pid)
			count += !gpurt_client_priority(client, nla_get_u32(info->attrs[GPURT_A_PRIORITY]));
	}
	return count;
}

/* Whether policy `boosted` can order the priority, if the process is a client of the GPU. */
static int check_priority(struct gpurt_gpu *gpu, struct genl_info *info, void *pid)
{
	u32 priority = nla_get_u32(info->attrs[GPURT_A_PRIORITY]);
	struct gpurt_client *client;

	if (READ_ONCE(gpu->sched.policy) != GPURT_POLICY_BOOSTED || priority == GPURT_PRIORITY_OWN ||
	    priority <= gpurt_normal)
		return 0;
	gpurt_for_each_client(client, gpu) {
		cond_resched();
		if (pid && client->tgid == pid)
			return gpurt_nl_refuse(info->extack, -ERANGE,
					       "policy boosted: the priority is above the parameter normal");
	}
	return 0;
}

/* Sets it for every client of the process that the message names by its number in the sender's namespace. */
static int set_priority_of(struct genl_info *info)
{
	u32 priority = nla_get_u32(info->attrs[GPURT_A_PRIORITY]);
	struct pid *pid;
	int ret;

	if (priority > GPURT_MAX_PRIORITY && priority != GPURT_PRIORITY_OWN)
		return gpurt_nl_refuse(info->extack, -EINVAL, "the priority is neither 0 to 99 nor OWN (255)");
	pid = find_get_pid((pid_t)nla_get_u32(info->attrs[GPURT_A_PID]));
	ret = each_gpu(info, check_priority, pid);
	if (ret >= 0)
		ret = each_gpu(info, set_priority, pid);
	put_pid(pid);
	if (!ret)
		return gpurt_nl_refuse(info->extack, -ESRCH, "that process is no client of the GPU");
	return min(ret, 0);
}

struct budget_update {
	struct gpurt_update u;
	struct gpurt_budget *budget;
	u64 limit, period;
	u32 action;
};

static int decide_budget(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct budget_update *b = container_of(u, struct budget_update, u);

	return gpurt_set_budget(&gpu->sched, b->budget, b->limit, b->period, b->action, now);
}

static void get_budget(struct genl_info *info, struct budget_update *b)
{
	b->limit = nla_get_u64(info->attrs[GPURT_A_BUDGET_NS]);
	b->period = get_u64(info, GPURT_A_PERIOD_NS, 0);
	b->action = get_u32(info, GPURT_A_OVERRUN, GPURT_OVERRUN_REPORT);
}

static int set_budget(struct gpurt_gpu *gpu, struct genl_info *info, void *allowance)
{
	struct budget_update b = {
		.u = { .decide = decide_budget, .level = GPURT_GATE_CONTROL },
		.budget = &((struct gpurt_allowance *)allowance)->budget[gpu->index],
	};

	get_budget(info, &b);
	return gpurt_gate_update(gpu, &b.u);
}

/*
 * Returns the attribute that names the message's allowance, with its text or process; 0: no such attribute, or several.
 */
static u32 which_allowance(struct genl_info *info, char *path, size_t size, struct pid **pid)
{
	if (!info->attrs[GPURT_A_PID] == !info->attrs[GPURT_A_CGROUP])
		return 0;
	if (info->attrs[GPURT_A_CGROUP]) {
		strscpy(path, nla_data(info->attrs[GPURT_A_CGROUP]), size);
		return GPURT_A_CGROUP;
	}
	*pid = find_get_pid((pid_t)nla_get_u32(info->attrs[GPURT_A_PID]));
	return GPURT_A_PID;
}

/* Whether @pid is a living process, and not one of its threads. */
static bool is_process(struct pid *pid)
{
	bool found;

	rcu_read_lock();
	found = pid && pid_task(pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return found;
}

/* A look at the budgets of all members of groups. */
struct budgets_look {
	u64 round;
	const struct gpurt_allowance *made;	/* the new one: no member of its group may be under another */
};

/* Whether the budget would hold for only some members of a group. */
static int check_members(struct gpurt_gpu *gpu, struct genl_info *info, void *about)
{
	struct gpurt_allowance *wanted;
	struct budgets_look *l = about;
	struct gpurt_client *client;
	struct gpurt_seat *seat;
	bool two = false;

	gpurt_for_each_client(client, gpu) {
		cond_resched();
		seat = READ_ONCE(client->seat);
		wanted = seat && !READ_ONCE(client->gone) ? gpurt_allowance_of(client) : NULL;
		if (!wanted)
			continue;
		two |= seat->round == l->round && seat->wanted != wanted &&
		       (wanted == l->made || seat->wanted == l->made);
		seat->wanted = wanted;
		seat->round = l->round;
		gpurt_allowance_put(wanted);
	}
	return two ? -EDQUOT : 0;
}

/* Called with one_at_a_time held, by a command for some GPUs.  A budget holds for its clients on all GPUs. */
static int check_groups(struct genl_info *info, const struct gpurt_allowance *allowance)
{
	static u64 rounds;
	struct budgets_look look = { .round = ++rounds, .made = allowance };
	int err;
	u32 i;

	smp_mb();	/* as in each_gpu() */
	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		err = one_gpu(i, check_members, info, &look);
		if (err == -EDQUOT)
			return gpurt_nl_refuse(info->extack, err, "members of a group would be under two budgets; "
					       "set one for all of them, or remove the other");
	}
	return 0;
}

static int change_budget(struct genl_info *info, u32 attr, const char *path, struct pid *pid, bool make)
{
	static DEFINE_MUTEX(one_at_a_time);	/* an allowance that settles must not get a budget meanwhile */
	struct gpurt_allowance *allowance;
	const char *why = NULL;
	int err;

	if (make && attr == GPURT_A_CGROUP && !gpurt_has_cgroups())
		return gpurt_nl_refuse(info->extack, -EOPNOTSUPP,
				       "there are no cgroups of version 2 here, so the budget would be nobody's");
	mutex_lock(&one_at_a_time);
	err = gpurt_allowance_get(attr, path, pid, make, &allowance, &why);
	if (!err && allowance) {
		err = make ? check_groups(info, allowance) : 0;
		if (!err)
			err = each_gpu(info, set_budget, allowance);
		gpurt_allowance_settle(allowance);
		gpurt_allowance_put(allowance);
	} else {
		err = gpurt_nl_refuse(info->extack, err, why);
	}
	mutex_unlock(&one_at_a_time);
	if (!err) {
		each_client(info, gpurt_allowance_leave);
		each_client(info, gpurt_allowance_apply);
	}
	return err;
}

static int set_budget_of(struct genl_info *info)
{
	char path[GPURT_CGROUP_LEN] = "";
	struct budget_update b;
	struct pid *pid = NULL;
	const char *why;
	u32 attr;
	int err;

	get_budget(info, &b);
	why = gpurt_budget_refusal(b.limit, b.period, b.action);
	if (why)
		return gpurt_nl_refuse(info->extack, -EINVAL, why);
	attr = which_allowance(info, path, sizeof(path), &pid);
	if (!attr)
		return gpurt_nl_refuse(info->extack, -EINVAL, "a budget is for exactly one of PID and CGROUP");
	if (attr == GPURT_A_CGROUP && path[0] != '/')
		return gpurt_nl_refuse(info->extack, -EINVAL,
				       "attribute GPURT_A_CGROUP must be a path that begins with /");
	if (attr == GPURT_A_CGROUP || is_process(pid))
		err = change_budget(info, attr, path, pid, b.limit);
	else
		err = gpurt_nl_refuse(info->extack, -ESRCH, "no process with that pid");
	put_pid(pid);
	return err;
}

static int check_policy(struct gpurt_gpu *gpu, struct genl_info *info, void *unused)
{
	int err = gpurt_policy_may(gpu, nla_get_u32(info->attrs[GPURT_A_POLICY]));

	return err == -EBUSY ? gpurt_nl_refuse(info->extack, err, GPURT_POLICY_SPANNED) : err;
}

static int set_policy(struct gpurt_gpu *gpu, struct genl_info *info, void *unused)
{
	const char *why = NULL;
	int err;

	err = gpurt_policy_set(gpu, nla_get_u32(info->attrs[GPURT_A_POLICY]),
			       get_u32(info, GPURT_A_NOTICE, GPURT_NOTICE_POLL),
			       get_u64(info, GPURT_A_POLL_NS, GPURT_POLL_DEFAULT_NS), &why);
	return gpurt_nl_refuse(info->extack, err, why);
}

static int set_policy_of(struct genl_info *info)
{
	int err;

	if (nla_get_u32(info->attrs[GPURT_A_POLICY]) >= GPURT_POLICY_COUNT)
		return gpurt_nl_refuse(info->extack, -EINVAL, "no such policy");
	if (get_u32(info, GPURT_A_NOTICE, GPURT_NOTICE_POLL) >= GPURT_NOTICE_COUNT)
		return gpurt_nl_refuse(info->extack, -EINVAL, "no such way to notice");
	err = each_gpu(info, check_policy, NULL);
	return err < 0 ? err : each_gpu(info, set_policy, NULL);
}

/* Returns the attribute that names the rule, with its text; 0: no such attribute, or several. */
static u32 which_rule(struct genl_info *info, char *text, size_t size)
{
	static const u32 kinds[] = { GPURT_A_PID, GPURT_A_COMM, GPURT_A_CGROUP };
	u32 found = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!info->attrs[kinds[i]])
			continue;
		if (found)
			return 0;
		found = kinds[i];
		if (found != GPURT_A_PID)
			strscpy(text, nla_data(info->attrs[found]), size);
	}
	return found;
}

/* @flag: the attribute that adds such a rule, or removes it.  @usage: the attributes that such a command needs. */
static int set_rule(struct genl_info *info, enum gpurt_rule what, u32 flag, const char *usage, client_fn apply)
{
	u32 kind, add = nla_get_u32(info->attrs[flag]);
	char text[GPURT_CGROUP_LEN] = "";
	struct pid *pid = NULL;
	const char *why = NULL;
	int err;

	kind = which_rule(info, text, sizeof(text));
	if (!kind || add > 1)
		return gpurt_nl_refuse(info->extack, -EINVAL, usage);
	if (kind == GPURT_A_COMM && !text[0])
		return gpurt_nl_refuse(info->extack, -EINVAL, "attribute GPURT_A_COMM must not be empty");
	if (kind == GPURT_A_CGROUP && text[0] != '/')
		return gpurt_nl_refuse(info->extack, -EINVAL,
				       "attribute GPURT_A_CGROUP must be a path that begins with /");
	if (kind == GPURT_A_PID) {
		pid = find_get_pid((pid_t)nla_get_u32(info->attrs[GPURT_A_PID]));
		if (add && !is_process(pid)) {
			put_pid(pid);
			return gpurt_nl_refuse(info->extack, -ESRCH, "no process with that pid");
		}
		if (!pid)
			return 0;
	}
	err = gpurt_rule_change(what, kind, text, pid, add, &why);
	put_pid(pid);
	if (err)
		return gpurt_nl_refuse(info->extack, err, why);
	return each_client(info, apply);
}

static int tell_driver(struct gpurt_gpu *gpu, struct genl_info *info, void *unused)
{
	gpurt_exempt_tell(gpu);
	return 0;
}

static int set_exempt(struct genl_info *info)
{
	int err = set_rule(info, GPURT_RULE_EXEMPT, GPURT_A_EXEMPT,
			   "EXEMPT is 0 or 1, with exactly one of PID, COMM and CGROUP", gpurt_exempt_apply);

	return err ?: each_gpu(info, tell_driver, NULL);
}

static int set_barred(struct genl_info *info)
{
	return set_rule(info, GPURT_RULE_BARRED, GPURT_A_BARRED,
			"BARRED is 0 or 1, with exactly one of PID, COMM and CGROUP", gpurt_boost_bar);
}

/* The next client of the process on that GPU, with a reference for the caller; NULL: no more clients. */
static struct gpurt_client *next_client(struct gpurt_gpu *gpu, const struct pid *pid, u64 *last)
{
	struct gpurt_client *client, *found = NULL;
	int reading = gpurt_clients_read();

	gpurt_for_each_client(client, gpu) {
		cond_resched();
		if (client->id <= *last || client->tgid != pid || !kref_get_unless_zero(&client->ref))
			continue;
		found = client;
		*last = client->id;
		break;
	}
	gpurt_clients_done(reading);
	return found;
}

/* Makes a process's descriptors members of the group of that name; @entering: how many were not in the group before. */
struct entry {
	const char *name;
	u32 entering;
};

/* Calls @fn for the descriptor of each client of the process on that GPU.  Returns the count, or the first error. */
static int each_file(u32 index, const struct pid *pid, struct entry *entry,
		     int (*fn)(struct gpurt_file *file, u32 index, struct entry *entry))
{
	struct gpurt_gpu *gpu = gpurt_gpu_get(index);
	struct gpurt_client *client;
	int err = 0, count = 0;
	u64 last = 0;

	if (!gpu)
		return 0;
	while (!err && (client = next_client(gpu, pid, &last))) {
		err = fn(client->file, index, entry);
		/* A closed descriptor, or one whose process has ended, no longer has clients. */
		count += !err;
		err = err == -ESTALE ? 0 : err;
		gpurt_client_put(client);
	}
	gpurt_gpu_put(gpu);
	return err ?: count;
}

static int may_move(struct gpurt_file *file, u32 index, struct entry *entry)
{
	return gpurt_group_check(file, entry->name, index, &entry->entering);
}

static int move(struct gpurt_file *file, u32 index, struct entry *entry)
{
	return gpurt_group_moved(file, entry->name);
}

static const char *why_no_member(int err)
{
	switch (err) {
	case -EBUSY:
		return "the process is in another group, until it ends";
	case -EDQUOT:
		return "too many groups of the user, or members, or group and process are under different budgets";
	case -EOPNOTSUPP:
		return "no driver here has groups, or the policy is a lock: then a group is on one GPU at a time";
	default:
		return NULL;
	}
}

/* All checks had passed, but something has changed since. */
static const char half_moved[] = "some clients of the process may be members, and others not; try again";

static int move_all(struct genl_info *info, const struct pid *pid, const char *name)
{
	int (*const steps[])(struct gpurt_file *file, u32 index, struct entry *entry) = { may_move, move };
	struct entry entry = { .name = name };
	int count = 0, ret;
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		for (k = 0, count = 0; k < GPURT_MAX_GPUS; k++) {
			ret = pid ? each_file(k, pid, &entry, steps[i]) : 0;
			if (ret < 0)
				return gpurt_nl_refuse(info->extack, ret, i ? half_moved : why_no_member(ret));
			count += ret;
		}
	}
	return count ? 0 : gpurt_nl_refuse(info->extack, -ESRCH, "that process is no client of the GPU");
}

static int set_group(struct genl_info *info)
{
	char name[GPURT_NAME_LEN] = "";
	struct pid *pid;
	int err;

	strscpy(name, nla_data(info->attrs[GPURT_A_GROUP]), sizeof(name));
	if (!gpurt_is_name(name, sizeof(name)))
		return gpurt_nl_refuse(info->extack, -EINVAL,
				       "attribute GPURT_A_GROUP must be printable ASCII, and not empty");
	pid = find_get_pid((pid_t)nla_get_u32(info->attrs[GPURT_A_PID]));
	err = move_all(info, pid, name);
	put_pid(pid);
	return err;
}

static int (*const sets[])(struct genl_info *info) = {
	[GPURT_CMD_SET_PRIORITY] = set_priority_of,
	[GPURT_CMD_SET_POLICY] = set_policy_of,
	[GPURT_CMD_SET_BUDGET] = set_budget_of,
	[GPURT_CMD_SET_EXEMPT] = set_exempt,
	[GPURT_CMD_SET_BARRED] = set_barred,
	[GPURT_CMD_SET_GROUP] = set_group,
};

int gpurt_nl_set(struct sk_buff *skb, struct genl_info *info)
{
	int err = gpurt_nl_check(skb, info->nlhdr, info->extack);

	return err ?: sets[info->genlhdr->cmd](info);
}

// SPDX-License-Identifier: GPL-2.0
/* The groups that there are, by user and name, and the descriptors in them. */
#include <linux/pid.h>
#include <linux/rtmutex.h>
#include <linux/string.h>

#include "state/file.h"
#include "state/team.h"

static DEFINE_RT_MUTEX(teams_lock);	/* see gpurt_gpu.clients_lock */
static LIST_HEAD(teams);

/* Called with teams_lock held.  The user's group of that name; NULL: none.  *@count: how many the user has. */
static struct gpurt_team *find(kuid_t uid, const char *name, u32 *count)
{
	struct gpurt_team *team, *found = NULL;

	*count = 0;
	list_for_each_entry(team, &teams, node) {
		if (!uid_eq(team->uid, uid))
			continue;
		++*count;
		if (!strcmp(team->name, name))
			found = team;
	}
	return found;
}

/* Whether @more descriptors can enter the @team of a user; NULL: a new team, beside the user's @count others. */
static bool has_room(const struct gpurt_team *team, u32 count, u32 more)
{
	if (!team && count >= GPURT_MAX_USER_GROUPS)
		return false;
	return (team ? team->count : 0) + more <= GPURT_MAX_MEMBERS;
}

/* Whether @more descriptors can enter the user's group of that name now; others may enter it meanwhile. */
bool gpurt_team_has_room(kuid_t uid, const char *name, u32 more)
{
	struct gpurt_team *team;
	u32 count;
	bool room;

	rt_mutex_lock(&teams_lock);
	team = find(uid, name, &count);
	room = has_room(team, count, more);
	rt_mutex_unlock(&teams_lock);
	return room;
}

/* Called with teams_lock held.  @file enters its team, if there is room; if there is no team, @made becomes it. */
static int enter(struct gpurt_file *file, const char *name, bool all, struct gpurt_team *made)
{
	u32 count;
	struct gpurt_team *team = find(file->uid, name, &count);

	if (!has_room(team, count, 1))
		return -EDQUOT;
	if (team && all && !team->core.all)
		return -EBUSY;
	if (!team) {
		team = made;
		team->core.all = all;
		list_add_tail(&team->node, &teams);
	}
	kref_get(&team->ref);
	team->count++;
	raw_spin_lock(&gpurt_groups_lock);
	list_add_tail(&file->in_team, &team->files);
	raw_spin_unlock(&gpurt_groups_lock);
	file->team = team;
	return 0;
}

/*
 * Called with file->lock held.  The descriptor joins its user's group of that name.  -EBUSY: @all, but the
 * group does not raise all its threads; -EDQUOT or -ENOMEM.
 */
int gpurt_team_enter(struct gpurt_file *file, const char *name, bool all)
{
	struct gpurt_team *made = gpurt_team_make(file->uid, name);
	int err;

	if (!made)
		return -ENOMEM;
	rt_mutex_lock(&teams_lock);
	err = enter(file, name, all, made);
	rt_mutex_unlock(&teams_lock);
	gpurt_team_put(made);
	return err;
}

/* Called with file->lock held, when its clients have ended or are no members.  The last descriptor removes the team. */
void gpurt_team_leave(struct gpurt_file *file)
{
	struct gpurt_team *team = file->team;

	if (!team || list_empty(&file->in_team))
		return;
	rt_mutex_lock(&teams_lock);
	raw_spin_lock(&gpurt_groups_lock);
	list_del_init(&file->in_team);
	raw_spin_unlock(&gpurt_groups_lock);
	if (!--team->count)
		list_del(&team->node);
	rt_mutex_unlock(&teams_lock);
}

/* Called with gpurt_groups_lock held.  Open segments of other clients of a member's process, on all GPUs. */
u32 gpurt_team_elsewhere(const struct gpurt_client *client)
{
	const struct gpurt_client *other;
	const struct gpurt_file *file;
	u32 depth = 0;
	int i;

	if (!client->seat)
		return 0;
	lockdep_assert_held(&gpurt_groups_lock);
	list_for_each_entry(file, &client->seat->team->files, in_team) {
		for (i = 0; file->tgid == client->tgid && i < GPURT_MAX_GPUS; i++) {
			other = READ_ONCE(file->clients[i]);
			if (other && other != client && other->seat)
				depth += other->core.depth;
		}
	}
	return depth;
}

/* The processes of all members, each with a reference for the caller.  Returns how many, at most GPURT_MAX_MEMBERS. */
u32 gpurt_team_pids(struct gpurt_team *team, struct pid **pids)
{
	const struct gpurt_file *file;
	u32 n = 0;

	raw_spin_lock(&gpurt_groups_lock);
	list_for_each_entry(file, &team->files, in_team)
		if (n < GPURT_MAX_MEMBERS)
			pids[n++] = get_pid(file->tgid);
	raw_spin_unlock(&gpurt_groups_lock);
	return n;
}

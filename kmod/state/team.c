// SPDX-License-Identifier: GPL-2.0
/* One group: its memory, and the questions about it. */
#include <linux/slab.h>
#include <linux/string.h>

#include "state/team.h"

/*
 * Taken inside every gate.  There is one lock for all groups.  One decision, such as the end of a budget, may concern
 * several of them, and all tenures take their stamps from one counter.
 */
DEFINE_RAW_SPINLOCK(gpurt_groups_lock);

static u64 stamps;			/* of tenures; with gpurt_groups_lock held */

static void team_free(struct kref *ref)
{
	kfree(container_of(ref, struct gpurt_team, ref));
}

/* In process context.  @team: may be NULL. */
void gpurt_team_put(struct gpurt_team *team)
{
	if (team)
		kref_put(&team->ref, team_free);
}

/* NULL: no memory. */
struct gpurt_team *gpurt_team_make(kuid_t uid, const char *name)
{
	struct gpurt_team *team = kzalloc(sizeof(*team), GFP_KERNEL_ACCOUNT);
	int i;

	if (!team)
		return NULL;
	kref_init(&team->ref);
	team->uid = uid;
	strscpy(team->name, name, sizeof(team->name));
	INIT_LIST_HEAD(&team->files);
	gpurt_group_init(&team->core, &stamps);
	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		team->seats[i].team = team;
		INIT_LIST_HEAD(&team->seats[i].members);
	}
	return team;
}

/* Called with the gate held.  The client that events of this owner name: of a group, a member in a segment, or NULL. */
struct gpurt_client *gpurt_voice(struct gpurt_sched_client *owner)
{
	struct gpurt_group_gpu *g = owner->group;

	if (!g)
		return gpurt_client_of(owner);
	if (!list_empty(&g->inside))
		return container_of(g->inside.next, struct gpurt_client, core.in_segments);
	if (!list_empty(&g->working))
		return container_of(g->working.next, struct gpurt_client, core.in_jobs);
	return NULL;
}

/* The level of a segment that begins now, by a thread of priority @own that asks for @hint.  Without the gate. */
u32 gpurt_level_of_begin(const struct gpurt_client *client, u32 own, u32 hint)
{
	u32 level;

	if (likely(READ_ONCE(client->core.entry) == &client->core))
		return gpurt_begin_level(READ_ONCE(client->core.set), own, hint);
	raw_spin_lock(&gpurt_groups_lock);
	level = gpurt_client_begin_level(&client->core, own, hint);
	raw_spin_unlock(&gpurt_groups_lock);
	return level;
}

/* The client's level; in a group, its tenure's, or that of a tenure that began now.  Without the gate. */
u32 gpurt_level_told(const struct gpurt_client *client)
{
	u32 level;

	if (READ_ONCE(client->core.entry) == &client->core)
		return READ_ONCE(client->core.level);
	raw_spin_lock(&gpurt_groups_lock);
	level = gpurt_client_level(&client->core);
	raw_spin_unlock(&gpurt_groups_lock);
	return level;
}

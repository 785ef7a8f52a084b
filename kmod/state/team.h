/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Groups: programs that own GPUs together (core/group.h).  A team is a group of a user's descriptors.  It has a seat
 * on each GPU, which stands in the queues there, and on the runlist, for its members.
 *
 * Decisions about several GPUs may be taken at the same time, and a group concerns all of its GPUs.  So a decision
 * about a GPU that has groups also holds gpurt_groups_lock: see gate.c.
 *
 * A team lives until the last of its descriptors is freed, hence longer than their clients.  Code that may read a
 * client may read its seat.
 */
#ifndef GPURT_STATE_TEAM_H
#define GPURT_STATE_TEAM_H

#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "core/group.h"
#include "core/sched.h"
#include "state/client.h"

struct gpurt_allowance;
struct gpurt_file;
struct gpurt_gpu;
struct gpurt_team;
struct pid;

/* A group on one GPU. */
struct gpurt_seat {
	struct gpurt_team *team;
	/* Changed with the gate and gpurt_groups_lock held, down to the blank line. */
	struct gpurt_group_gpu core;
	struct gpurt_gpu *gpu;			/* valid while it has members */
	u64 serial;				/* gpurt_gpu.serial of that GPU; 0: never had members */
	struct list_head members;		/* gpurt_client.in_seat, in the order in which they joined */
	struct gpurt_allowance *allowance;	/* of the member whose budget it is under; for readers under RCU */

	/* With gpurt_gpu.clients_lock held: */
	u32 users;				/* members that the driver knows, and future ones */
	void *ctx;				/* the driver's context, while there are users */

	/* With one_at_a_time of netlink_set.c held: */
	u64 round;				/* number of the last look at all members' budgets */
	const void *wanted;			/* the budget found by that look; only compared */

	struct kthread_work settle;		/* has the GPU's thread follow the group's key on another GPU */
};

struct gpurt_team {
	struct kref ref;			/* its descriptors', until they are freed, and those of queued work */
	kuid_t uid;
	char name[GPURT_NAME_LEN];
	/* With teams_lock of teams.c held: */
	struct list_head node;			/* of teams, while it has a living descriptor */
	u32 count;				/* number of living descriptors */
	/* With gpurt_groups_lock held: */
	struct gpurt_group core;
	struct list_head files;			/* gpurt_file.in_team */

	struct gpurt_seat seats[GPURT_MAX_GPUS];
};

extern raw_spinlock_t gpurt_groups_lock;

/* The seat whose entry is the owner; NULL: the owner is a client. */
static inline struct gpurt_seat *gpurt_seat_of(const struct gpurt_sched_client *owner)
{
	return owner->group ? container_of(owner->group, struct gpurt_seat, core) : NULL;
}

struct gpurt_team *gpurt_team_make(kuid_t uid, const char *name);
void gpurt_team_put(struct gpurt_team *team);
struct gpurt_client *gpurt_voice(struct gpurt_sched_client *owner);
u32 gpurt_level_of_begin(const struct gpurt_client *client, u32 own, u32 hint);
u32 gpurt_level_told(const struct gpurt_client *client);

/* teams.c: the groups that there are, by user and name, and the descriptors in them. */
bool gpurt_team_has_room(kuid_t uid, const char *name, u32 more);
int gpurt_team_enter(struct gpurt_file *file, const char *name, bool all);
void gpurt_team_leave(struct gpurt_file *file);
u32 gpurt_team_elsewhere(const struct gpurt_client *client);
u32 gpurt_team_pids(struct gpurt_team *team, struct pid **pids);

#endif

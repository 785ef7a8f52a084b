// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors join groups, and their clients take their seats.
 *
 * A descriptor joins once, until it is gone.  Its clients become members one GPU after the other, each by a decision of
 * its own, because no thread may hold two gates.  On a later GPU, a new client takes its seat before any call uses it.
 */
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "clients/clients.h"
#include "core/sched.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/exits.h"
#include "state/file.h"
#include "state/team.h"

/* Whether clients of any GPU can be in a group. */
static bool are_possible(void)
{
	struct gpurt_gpu *gpu;
	bool possible = false;
	u32 i;

	for (i = 0; i < GPURT_MAX_GPUS && !possible; i++) {
		gpu = gpurt_gpu_get(i);
		if (!gpu)
			continue;
		possible = gpu->ops.group_open;
		gpurt_gpu_put(gpu);
	}
	return possible;
}

/* Called with the GPU held alive.  Has the driver know the group on that GPU, for one more member.  -ENOMEM. */
static int occupy(struct gpurt_gpu *gpu, struct gpurt_seat *seat)
{
	void *made;
	int err = gpu->ops.group_open(gpu->driver, &made);

	if (err)
		return err;
	rt_mutex_lock(&gpu->clients_lock);
	/* Counts from before the first member's decision until after the last member's: see decide() in gate.c. */
	WRITE_ONCE(gpu->groups, gpu->groups + 1);
	if (!seat->users++) {
		seat->ctx = made;
		made = NULL;
	}
	rt_mutex_unlock(&gpu->clients_lock);
	if (made)
		gpu->ops.group_close(gpu->driver, made);
	return 0;
}

/* Called with the GPU held alive, or when no decision is under way or will be taken.  One member leaves. */
static void vacate(struct gpurt_gpu *gpu, struct gpurt_seat *seat)
{
	void *left = NULL;

	rt_mutex_lock(&gpu->clients_lock);
	WRITE_ONCE(gpu->groups, gpu->groups - 1);
	if (!--seat->users) {
		left = seat->ctx;
		seat->ctx = NULL;
	}
	rt_mutex_unlock(&gpu->clients_lock);
	if (left)
		gpu->ops.group_close(gpu->driver, left);
}

struct join_update {
	struct gpurt_update u;
	struct gpurt_seat *seat;
	u32 own;
	bool moved;
};

/* Called with the gate held.  From now on the group has this seat on that GPU. */
static void set_up(struct gpurt_gpu *gpu, struct gpurt_seat *seat)
{
	struct gpurt_group *group = &seat->team->core;

	if (seat->serial == gpu->serial)
		return;
	if (!seat->serial)
		gpurt_group_gpu_init(&seat->core, group, &gpu->sched);
	seat->core.sched = &gpu->sched;
	gpu->sched.stamps = group->stamps;
	gpurt_updates_seat(seat);
	seat->gpu = gpu;
	seat->serial = gpu->serial;
}

/* Called with the gate held.  If the group or the client is under a budget, both come under that budget. */
static void share(struct gpurt_gpu *gpu, struct gpurt_seat *seat, struct gpurt_client *client, u64 now)
{
	struct gpurt_budget *budget = gpurt_allowance_budget(seat->allowance ?: client->allowance, gpu->index);

	if (!list_empty(&seat->members))
		gpurt_join_budget(&gpu->sched, &seat->core.core, budget, now);
	gpurt_join_budget(&gpu->sched, &client->core, budget, now);
}

/* Called with the gate held.  Events of the same decision name the group. */
static void sit_down(struct gpurt_seat *seat, struct gpurt_client *client)
{
	list_add_tail_rcu(&client->in_seat, &seat->members);
	WRITE_ONCE(client->seat, seat);
}

static int decide_join(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct join_update *j = container_of(u, struct join_update, u);
	struct gpurt_client *client = u->client;
	struct gpurt_seat *seat = j->seat;
	int err;

	if (client->gone)
		return -ESTALE;
	if (gpurt_allowance_bars(seat, client->allowance, client))
		return -EDQUOT;
	set_up(gpu, seat);
	err = gpurt_group_refusal(&seat->core, &client->core, j->moved);
	if (err)
		return err;
	err = gpu->ops.group_join(gpu->driver, client->ctx, seat->ctx);
	if (err)
		return err;
	share(gpu, seat, client, now);
	sit_down(seat, client);
	if (j->moved)
		gpurt_group_move(&seat->core, &client->core, now);
	else
		gpurt_group_add(&seat->core, &client->core, j->own, now);
	gpurt_allowance_share(seat, now);
	return 0;
}

/*
 * Called with file->lock held.  A thread of priority @own, or the administrator (@moved), makes the client a member of
 * its descriptor's group.  Errors as GPURT_IOC_GROUP_JOIN and GPURT_CMD_SET_GROUP.
 */
int gpurt_group_seat(struct gpurt_client *client, u32 own, bool moved)
{
	struct gpurt_gpu *gpu = client->gpu;
	struct join_update j = {
		.u = {
			.decide = decide_join, .client = client, .level = GPURT_GATE_CONTROL,
			.flags = moved ? 0 : GPURT_UPDATE_OWN | GPURT_UPDATE_RESTS,
		},
		.seat = &client->file->team->seats[gpu->index], .own = own, .moved = moved,
	};
	int err, token;

	lockdep_assert_held(&client->file->lock);
	if (client->seat)
		return 0;
	if (!gpu->ops.group_open)
		return -EOPNOTSUPP;
	if (!gpurt_gpu_hold(gpu, &token))
		return -ENODEV;
	err = occupy(gpu, j.seat);
	if (!err) {
		err = gpurt_gate_update(gpu, &j.u);
		if (err)
			vacate(gpu, j.seat);
	}
	/* Its group may own the GPU as a lock, and the client may be in a segment. */
	if (!err && moved) {
		gpurt_exits_holds(client);
		gpurt_exits_calm(client);
	}
	gpurt_gpu_release(gpu, token);
	return err;
}

/* Called with the gate held.  The scheduler has forgotten the client. */
void gpurt_group_left(struct gpurt_client *client, u64 now)
{
	struct gpurt_seat *seat = client->seat;

	if (!seat)
		return;
	list_del_rcu(&client->in_seat);
	gpurt_allowance_share(seat, now);
}

/* Called when the driver has forgotten the client, as its client_close(). */
void gpurt_group_parted(struct gpurt_client *client)
{
	if (client->seat)
		vacate(client->gpu, client->seat);
}

/* Called with file->lock held.  Whether the clients of the descriptor may become members: 0, -EBUSY or -EOPNOTSUPP. */
static int check_clients(struct gpurt_file *file, bool moved)
{
	struct gpurt_client *client;
	int i;

	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		client = file->clients[i];
		if (!client || client->seat)
			continue;
		if (!client->gpu->ops.group_open)
			return -EOPNOTSUPP;
		if (!moved && READ_ONCE(client->core.depth))
			return -EBUSY;
	}
	return are_possible() ? 0 : -EOPNOTSUPP;
}

/* Called with file->lock held. */
static int check(struct gpurt_file *file, const char *name, bool moved)
{
	if (file->gone)
		return -ESTALE;
	if (file->team && strcmp(file->team->name, name))
		return -EBUSY;
	return check_clients(file, moved);
}

/*
 * Whether the administrator may move the descriptor into that group, as far as can be known in advance.  Increments
 * *@entering if the descriptor would enter: if it is no member, and has no client on a GPU before @index.
 */
int gpurt_group_check(struct gpurt_file *file, const char *name, u32 index, u32 *entering)
{
	bool first = true;
	int err;
	u32 i;

	mutex_lock(&file->lock);
	err = check(file, name, true);
	for (i = 0; i < index; i++)
		first = first && !file->clients[i];
	if (!err && first && !file->team && !gpurt_team_has_room(file->uid, name, ++*entering))
		err = -EDQUOT;
	mutex_unlock(&file->lock);
	return err;
}

/* The client has become a member. */
static void newly_leveled(struct gpurt_client *client)
{
	int reading = gpurt_clients_read();

	gpurt_group_leveled(client);
	gpurt_clients_done(reading);
}

/*
 * Called with file->lock held.  Returns the first error; the other clients became members.  *@any: one of these, or
 * NULL. Open segments and copies of new members may change level in the group, and may change the group's level.
 */
static int seat_all(struct gpurt_file *file, u32 own, bool moved, struct gpurt_client **any)
{
	struct gpurt_client *client, *fresh = NULL;
	int i, err = 0, ret;
	bool had;

	*any = NULL;
	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		client = file->clients[i];
		if (!client)
			continue;
		had = client->seat;
		ret = gpurt_group_seat(client, own, moved);
		if (!ret && !had)
			fresh = client;
		/* A GPU that is gone needs no seat. */
		if (ret != -ENODEV)
			err = err ?: ret;
		if (!ret)
			*any = client;
	}
	/* Joining again does nothing, however often. */
	if (fresh)
		newly_leveled(fresh);
	return err;
}

/* Called with file->lock held.  Whether the administrator has barred a client of the descriptor. */
static bool is_barred(const struct gpurt_file *file)
{
	int i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->clients[i] && test_bit(GPURT_BOOST_BARRED, &file->clients[i]->boost.flags))
			return true;
	return false;
}

/* Called with file->lock held.  Each client's group raises the caller from now on. */
static void keep_all(struct gpurt_file *file, u32 right)
{
	int i;

	file->kept = true;
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->clients[i])
			gpurt_boost_keeps(file->clients[i], right);
}

/*
 * A thread of priority @own, or the administrator (@moved), makes the descriptor join its user's group of that name,
 * for good.  Errors as GPURT_IOC_GROUP_JOIN.  After an error it is in no group, unless another thread of its process
 * began a segment meanwhile: a client on another GPU may have joined.
 */
static int join(struct gpurt_file *file, const char *name, u32 own, bool moved, bool all)
{
	struct gpurt_client *any;
	bool entered;
	int err;

	lockdep_assert_held(&file->lock);
	err = check(file, name, moved);
	if (!err && all && file->team && !file->team->core.all)
		err = -EBUSY;
	entered = !err && !file->team;
	if (entered)
		err = gpurt_team_enter(file, name, all);
	if (err)
		return err;
	err = seat_all(file, own, moved, &any);
	if (err && entered && !any) {
		gpurt_team_leave(file);
		gpurt_team_put(file->team);
		file->team = NULL;
	}
	return err;
}

/* GPURT_IOC_GROUP_JOIN, by a thread of priority @own. */
int gpurt_group_join(struct gpurt_file *file, const struct gpurt_group_join *asked, u32 own)
{
	bool all = asked->flags & GPURT_GROUP_ALL;
	u32 right;
	int err = all ? gpurt_boost_may_keep(own, &right) : 0;

	if (err)
		return err;
	mutex_lock(&file->lock);
	if (all && is_barred(file))
		err = -EPERM;
	if (!err)
		err = join(file, asked->name, own, false, all);
	if (!err && all)
		keep_all(file, right);
	mutex_unlock(&file->lock);
	return err;
}

/* GPURT_CMD_SET_GROUP. */
int gpurt_group_moved(struct gpurt_file *file, const char *name)
{
	int err;

	mutex_lock(&file->lock);
	err = join(file, name, 0, true, false);
	mutex_unlock(&file->lock);
	return err;
}

/*
 * Called with file->lock held.  The client is new, and its descriptor is in a group.  If the group raises all its
 * threads, it raises the caller for the client, up to @right.  Errors as GPURT_IOC_GROUP_JOIN.
 */
int gpurt_group_first(struct gpurt_client *client, u32 own, u32 right)
{
	bool kept = client->file->kept;
	int err = kept && test_bit(GPURT_BOOST_BARRED, &client->boost.flags) ? -EPERM : 0;

	if (!err)
		err = gpurt_group_seat(client, own, false);
	if (err)
		return err;
	newly_leveled(client);
	if (kept)
		gpurt_boost_keeps(client, right);
	return 0;
}

/* The level of the client or its group may have changed, perhaps to a real-time level. */
static void follow(struct gpurt_client *client)
{
	if (gpurt_level_told(client))
		gpurt_exits_urgent(client);
	gpurt_bus_relevel(client);
}

/* Called while no client is freed.  follow() for all members of its group, or for a client in no group. */
void gpurt_group_leveled(struct gpurt_client *client)
{
	const struct gpurt_seat *seat = READ_ONCE(client->seat);
	struct gpurt_client *member;
	int i;

	if (!seat) {
		follow(client);
		return;
	}
	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		list_for_each_entry_rcu(member, &seat->team->seats[i].members, in_seat, gpurt_clients_reading())
			follow(member);
		cond_resched();
	}
}

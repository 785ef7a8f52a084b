// SPDX-License-Identifier: GPL-2.0
/* The clients of a descriptor: made on first use, one for each GPU, and ended together. */
#include <linux/err.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "base/raised.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/exits.h"
#include "state/file.h"
#include "state/team.h"

/*
 * Whether the opener still executes the program that opened the descriptor.  The flag file->gone alone does not tell:
 * it is set some time after the opener has executed another program.
 */
bool gpurt_file_is_alive(const struct gpurt_file *file)
{
	return !READ_ONCE(file->gone) && file->mm == current->mm;
}

/* Called with file->lock held. */
static struct gpurt_client *client_make(struct gpurt_file *file, u32 index)
{
	struct gpurt_gpu *gpu = gpurt_gpu_get(index);
	u32 own = gpurt_raised_own(current), right = 0;
	struct gpurt_client *client;
	int err;

	if (!gpu)
		return ERR_PTR(-ENODEV);
	err = file->kept ? gpurt_boost_may_keep(own, &right) : 0;
	if (err) {
		gpurt_gpu_put(gpu);
		return ERR_PTR(err);
	}
	client = gpurt_client_open(gpu, file);
	if (!IS_ERR(client) && file->team) {
		err = gpurt_group_first(client, own, right);
		if (err) {
			gpurt_client_gone(client, false);
			gpurt_client_put(client);
			return ERR_PTR(err);
		}
	}
	if (!IS_ERR(client))
		/* Pairs with the acquire in gpurt_file_client(). */
		smp_store_release(&file->clients[index], client);
	return client;
}

/*
 * The descriptor's client of that GPU, made on first use.  It lives as long as the descriptor, hence longer than any
 * call on it.  Errors: -EPERM, the caller is not the opener; -ESTALE, the opener executed another program; -ENODEV; for
 * a descriptor in a group, also the errors of GPURT_IOC_GROUP_JOIN.
 */
struct gpurt_client *gpurt_file_client(struct gpurt_file *file, u32 index)
{
	struct gpurt_client *client;
	int err;

	if (file->tgid != task_tgid(current))
		return ERR_PTR(-EPERM);
	if (index >= GPURT_MAX_GPUS)
		return ERR_PTR(-ENODEV);
	if (!gpurt_file_is_alive(file))
		return ERR_PTR(-ESTALE);
	client = smp_load_acquire(&file->clients[index]);	/* pairs with client_make() */
	if (client)
		return client;
	err = gpurt_file_await_ends(file->uid);
	if (err)
		return ERR_PTR(err);
	mutex_lock(&file->lock);
	client = file->clients[index];
	if (file->gone)
		client = ERR_PTR(-ESTALE);
	else if (!client)
		client = client_make(file, index);
	mutex_unlock(&file->lock);
	return client;
}

/* Ends all clients.  Called when the descriptor is released, and when its opener ends: the first call does the work. */
void gpurt_file_gone(struct gpurt_file *file, bool process)
{
	int i;

	gpurt_exits_over(file);
	mutex_lock(&file->lock);
	WRITE_ONCE(file->gone, true);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->clients[i])
			gpurt_client_gone(file->clients[i], process);
	gpurt_team_leave(file);
	mutex_unlock(&file->lock);
}

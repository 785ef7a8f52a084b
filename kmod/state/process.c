// SPDX-License-Identifier: GPL-2.0
/* The processes that have clients of a GPU. */
#include <linux/pid.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "state/client.h"
#include "state/process.h"

/* May sleep.  NULL: no memory. */
struct gpurt_process *gpurt_process_make(struct pid *tgid)
{
	struct gpurt_process *process = kzalloc(sizeof(*process), GFP_KERNEL_ACCOUNT);

	if (!process)
		return NULL;
	kref_init(&process->ref);
	INIT_LIST_HEAD(&process->clients);
	process->by.tgid = tgid;	/* each of its clients has a reference to it */
	return process;
}

static void process_free(struct kref *ref)
{
	kfree(container_of(ref, struct gpurt_process, ref));
}

void gpurt_process_put(struct gpurt_process *process)
{
	kref_put(&process->ref, process_free);
}

/* Any context, between gpurt_clients_read() and gpurt_clients_done().  NULL: the process has no client of the GPU. */
struct gpurt_process *gpurt_process_find(struct gpurt_gpu *gpu, const struct pid *tgid)
{
	struct gpurt_by_process *by = gpurt_processes_find(&gpu->processes, tgid);

	return by ? container_of(by, struct gpurt_process, by) : NULL;
}

/* Called with gpu->clients_lock held.  Adds the client to its process; the structure made for it may be surplus. */
void gpurt_process_enter(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;
	struct gpurt_process *known = gpurt_process_find(gpu, client->tgid);

	if (known) {
		kref_get(&known->ref);
		gpurt_process_put(client->process);
		client->process = known;
	} else {
		gpurt_processes_add(&gpu->processes, &client->process->by);
	}
	list_add_rcu(&client->by_process, &client->process->clients);
}

/* Called with gpu->clients_lock held, after the client's last decision. */
void gpurt_process_leave(struct gpurt_client *client)
{
	struct gpurt_process *process = client->process;

	if (client->core.exempt)
		atomic_dec(&process->exempt);
	list_del_rcu(&client->by_process);
	if (list_empty(&process->clients))
		gpurt_processes_remove(&client->gpu->processes, &process->by);
}

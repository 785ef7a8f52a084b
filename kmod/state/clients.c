// SPDX-License-Identifier: GPL-2.0
/* The clients of all GPUs: walks of them, and their release. */
#include <linux/llist.h>
#include <linux/sched.h>

#include "base/deps.h"
#include "base/workers.h"
#include "state/clients.h"
#include "state/process.h"

DEFINE_STATIC_SRCU(gpurt_clients_srcu);
static GPURT_DEP(clients_read);
static atomic64_t last_id = ATOMIC64_INIT(0);
static LLIST_HEAD(dead);
static void (*destroy)(struct gpurt_client *client);

/* Called with gpu->clients_lock held.  From now on the client can be found. */
void gpurt_clients_add(struct gpurt_client *client)
{
	client->listed = true;
	client->id = atomic64_inc_return(&last_id);	/* here, so that the list is in order of ids */
	/* Comes first: it may free the present client->process, which readers that find the client use. */
	gpurt_process_enter(client);
	list_add_tail_rcu(&client->node, &client->gpu->clients);
}

/* From now on the client cannot be found.  Returns false if it could not be found before. */
bool gpurt_clients_remove(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;
	bool listed;

	rt_mutex_lock(&gpu->clients_lock);
	listed = client->listed;
	if (listed) {
		list_del_rcu(&client->node);
		gpurt_process_leave(client);
		list_del_init(&client->leaving);
	}
	client->listed = false;
	rt_mutex_unlock(&gpu->clients_lock);
	return listed;
}

/*
 * Frees clients, and their descriptors, when no reader uses them any more.  The thread that drops the last reference
 * may be a GPU's thread, and does not free.  To free a descriptor is to wait for a worker, which that thread may keep
 * off its CPU.
 *
 * A process may end with very many clients.  call_srcu() would free them all at once.  In a kernel without full
 * preemption no other task of that CPU would execute meanwhile.
 */
static void bury(struct work_struct *work)
{
	struct llist_node *all = llist_del_all(&dead);
	struct gpurt_client *client, *next;

	if (!all)
		return;
	gpurt_dep_wait(&clients_read);
	synchronize_srcu(&gpurt_clients_srcu);
	llist_for_each_entry_safe(client, next, all, dead) {
		destroy(client);
		cond_resched();
	}
}

static DECLARE_WORK(burial, bury);

static void client_release(struct kref *ref)
{
	struct gpurt_client *client = container_of(ref, struct gpurt_client, ref);

	if (client->polled)
		atomic_dec(&client->gpu->waiting);
	llist_add(&client->dead, &dead);
	queue_work(gpurt_workers, &burial);
}

/* In process context. */
void gpurt_client_put(struct gpurt_client *client)
{
	kref_put(&client->ref, client_release);
}

/* The id of the newest client.  Later clients have higher ids. */
u64 gpurt_clients_newest(void)
{
	return atomic64_read(&last_id);
}

int gpurt_clients_read(void) __acquires(&gpurt_clients_srcu)
{
	/* Drivers may ask in an interrupt, which never waits. */
	if (in_task())
		gpurt_dep_read(&clients_read);
	return srcu_read_lock(&gpurt_clients_srcu);
}

void gpurt_clients_done(int token) __releases(&gpurt_clients_srcu)
{
	srcu_read_unlock(&gpurt_clients_srcu, token);
	if (in_task())
		gpurt_dep_end(&clients_read);
}

bool gpurt_clients_reading(void)
{
	return srcu_read_lock_held(&gpurt_clients_srcu);
}

/* @free_one: frees a client that has no readers, and drops its references; may sleep. */
void gpurt_clients_start(void (*free_one)(struct gpurt_client *client))
{
	destroy = free_one;
}

/* Waits until the last client has been freed. */
void gpurt_clients_stop(void)
{
	flush_work(&burial);
}

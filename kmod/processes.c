// SPDX-License-Identifier: GPL-2.0
/* Trees of what is found by process; and the processes that have clients of a GPU, which are found so. */
#include <linux/pid.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "client.h"
#include "gpu.h"
#include "processes.h"

#ifdef GPURT_KUNIT
unsigned int gpurt_processes_seen;
void (*gpurt_processes_look)(void);
#endif

static struct gpurt_by_process *of_node(struct latch_tree_node *node)
{
	return container_of(node, struct gpurt_by_process, node);
}

static bool less(struct latch_tree_node *a, struct latch_tree_node *b)
{
	return of_node(a)->tgid < of_node(b)->tgid;
}

static int compare(void *tgid, struct latch_tree_node *node)
{
	const struct pid *other = of_node(node)->tgid;

#ifdef GPURT_KUNIT
	gpurt_processes_seen++;
	if (gpurt_processes_look)
		gpurt_processes_look();
#endif
	return tgid < (void *)other ? -1 : tgid > (void *)other;
}

static const struct latch_tree_ops order = { .less = less, .comp = compare };

/* The caller keeps others from changing the tree.  The process is not in it. */
void gpurt_processes_add(struct gpurt_processes *all, struct gpurt_by_process *one)
{
	latch_tree_insert(&one->node, &all->tree, &order);
}

/* Likewise.  @one is in the tree. */
void gpurt_processes_remove(struct gpurt_processes *all, struct gpurt_by_process *one)
{
	latch_tree_erase(&one->node, &all->tree, &order);
}

/* Any context.  The caller keeps what it finds from being freed.  NULL: the process is not there. */
struct gpurt_by_process *gpurt_processes_find(struct gpurt_processes *all, const struct pid *tgid)
{
	struct latch_tree_node *node = latch_tree_find((void *)tgid, &all->tree, &order);

	return node ? of_node(node) : NULL;
}

/* May sleep.  NULL: no memory. */
struct gpurt_process *gpurt_process_make(struct pid *tgid)
{
	struct gpurt_process *process = kzalloc(sizeof(*process), GFP_KERNEL_ACCOUNT);

	if (!process)
		return NULL;
	kref_init(&process->ref);
	INIT_LIST_HEAD(&process->clients);
	process->by.tgid = tgid;	/* of which each of its clients has a reference */
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

/* Any context, between gpurt_clients_read() and gpurt_clients_done().  NULL: it has no client of the GPU. */
struct gpurt_process *gpurt_process_find(struct gpurt_gpu *gpu, const struct pid *tgid)
{
	struct gpurt_by_process *by = gpurt_processes_find(&gpu->processes, tgid);

	return by ? container_of(by, struct gpurt_process, by) : NULL;
}

/* Called with gpu->clients_lock held.  The client is its process's; the one that was made for it may not be needed. */
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

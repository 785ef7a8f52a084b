// SPDX-License-Identifier: GPL-2.0
/* Trees that are searched by process. */
#include "base/processes.h"

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

/* The caller keeps others from changing the tree.  The tree has no entry of the process. */
void gpurt_processes_add(struct gpurt_processes *all, struct gpurt_by_process *one)
{
	latch_tree_insert(&one->node, &all->tree, &order);
}

/* Likewise.  @one is in the tree. */
void gpurt_processes_remove(struct gpurt_processes *all, struct gpurt_by_process *one)
{
	latch_tree_erase(&one->node, &all->tree, &order);
}

/* Any context.  The caller keeps what it finds from being freed.  NULL: the tree has no entry of the process. */
struct gpurt_by_process *gpurt_processes_find(struct gpurt_processes *all, const struct pid *tgid)
{
	struct latch_tree_node *node = latch_tree_find((void *)tgid, &all->tree, &order);

	return node ? of_node(node) : NULL;
}

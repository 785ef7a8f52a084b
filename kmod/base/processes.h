/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A tree of entries, each found by its process.  Users choose the number of processes, and can choose processes with
 * the same hash.  Hence a balanced tree.  Readers need no lock.
 */
#ifndef GPURT_PROCESSES_H
#define GPURT_PROCESSES_H

#include <linux/rbtree_latch.h>
#include <linux/types.h>

struct pid;

struct gpurt_processes {
	struct latch_tree_root tree;	/* of gpurt_by_process.node */
};

/* An entry of a process.  It is freed when no reader uses it any more (RCU, or gpurt_clients_read()). */
struct gpurt_by_process {
	struct latch_tree_node node;
	struct pid *tgid;
};

void gpurt_processes_add(struct gpurt_processes *all, struct gpurt_by_process *one);
void gpurt_processes_remove(struct gpurt_processes *all, struct gpurt_by_process *one);
struct gpurt_by_process *gpurt_processes_find(struct gpurt_processes *all, const struct pid *tgid);

#ifdef GPURT_KUNIT
extern unsigned int gpurt_processes_seen;	/* entries that all look-ups have seen */
extern void (*gpurt_processes_look)(void);	/* called by each look-up */
#endif

#endif

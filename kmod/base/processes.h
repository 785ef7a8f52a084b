/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A tree of entries, each found by its process.  Users choose how many processes there are, and
 * many have the same hash if a user chooses them so.  Hence a balanced tree.  Those who look need
 * no lock.
 */
#ifndef GPURT_PROCESSES_H
#define GPURT_PROCESSES_H

#include <linux/rbtree_latch.h>
#include <linux/types.h>

struct pid;

struct gpurt_processes {
	struct latch_tree_root tree;	/* of gpurt_by_process.node */
};

/* Something that is a process's.  It is freed when nobody looks any more (RCU, or gpurt_clients_read()). */
struct gpurt_by_process {
	struct latch_tree_node node;
	struct pid *tgid;
};

void gpurt_processes_add(struct gpurt_processes *all, struct gpurt_by_process *one);
void gpurt_processes_remove(struct gpurt_processes *all, struct gpurt_by_process *one);
struct gpurt_by_process *gpurt_processes_find(struct gpurt_processes *all, const struct pid *tgid);

#ifdef GPURT_KUNIT
extern unsigned int gpurt_processes_seen;	/* by all that have looked */
extern void (*gpurt_processes_look)(void);	/* called by each that looks */
#endif

#endif

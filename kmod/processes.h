/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is found by process.  Users choose how many processes there are, and many have the same hash if a user chooses
 * them so.  Hence a balanced tree.  Those who look need no lock.
 */
#ifndef GPURT_PROCESSES_H
#define GPURT_PROCESSES_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rbtree_latch.h>
#include <linux/types.h>

struct gpurt_client;
struct gpurt_gpu;
struct pid;

struct gpurt_processes {
	struct latch_tree_root tree;	/* of gpurt_by_process.node */
};

/* Something that is a process's.  It is freed when nobody looks any more (RCU, or gpurt_clients_read()). */
struct gpurt_by_process {
	struct latch_tree_node node;
	struct pid *tgid;
};

/* A process that has clients of a GPU. */
struct gpurt_process {
	struct gpurt_by_process by;	/* of gpurt_gpu.processes, while it has */
	struct kref ref;		/* its clients', until they are freed */
	struct list_head clients;	/* of gpurt_client.by_process; changed with gpurt_gpu.clients_lock held */
	atomic_t exempt;		/* how many of them are */
};

void gpurt_processes_add(struct gpurt_processes *all, struct gpurt_by_process *one);
void gpurt_processes_remove(struct gpurt_processes *all, struct gpurt_by_process *one);
struct gpurt_by_process *gpurt_processes_find(struct gpurt_processes *all, const struct pid *tgid);

struct gpurt_process *gpurt_process_make(struct pid *tgid);
void gpurt_process_put(struct gpurt_process *process);
struct gpurt_process *gpurt_process_find(struct gpurt_gpu *gpu, const struct pid *tgid);
void gpurt_process_enter(struct gpurt_client *client);
void gpurt_process_leave(struct gpurt_client *client);

#ifdef GPURT_KUNIT
extern unsigned int gpurt_processes_seen;	/* by all that have looked */
extern void (*gpurt_processes_look)(void);	/* called by each that looks */
#endif

#endif

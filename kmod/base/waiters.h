/* SPDX-License-Identifier: GPL-2.0 */
/* Threads that wait for the same thing, the most urgent first. */
#ifndef GPURT_WAITERS_H
#define GPURT_WAITERS_H

#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct task_struct;

struct gpurt_waiters {
	raw_spinlock_t lock;
	struct rb_root_cached tree;	/* of gpurt_waiter.node, by priority and arrival */
};

/* One thread, while it waits; on its stack. */
struct gpurt_waiter {
	struct rb_node node;
	struct task_struct *task;
	int priority;			/* the scheduler's: a lower value is more urgent */
	bool woken;			/* and has not passed the wake-up on yet */
};

void gpurt_waiters_init(struct gpurt_waiters *w);
void gpurt_waiters_add(struct gpurt_waiters *w, struct gpurt_waiter *waiter);
void gpurt_waiters_pass_on(struct gpurt_waiters *w, struct gpurt_waiter *waiter);
void gpurt_waiters_remove(struct gpurt_waiters *w, struct gpurt_waiter *waiter);
void gpurt_waiters_wake(struct gpurt_waiters *w);

#endif

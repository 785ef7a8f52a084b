/* SPDX-License-Identifier: GPL-2.0 */
/* Threads that are raised above the normal priorities of their CPU, and what they were before. */
#ifndef GPURT_RAISED_H
#define GPURT_RAISED_H

#include <linux/list.h>
#include <linux/types.h>

struct task_struct;

/* What a thread was before it was raised. */
struct gpurt_saved {
	int policy;			/* SCHED_FIFO or SCHED_RR */
	u8 priority;
	bool reset_on_fork;
};

/* One reason to raise a thread.  It may have several at once: then the highest counts. */
struct gpurt_raised {
	struct task_struct *task;	/* with a reference; NULL: none */
	struct hlist_node node;
	u8 want;			/* the CPU priority that the thread needs for this reason, */
	u8 right;			/* which is not above this one: its user was found to have the right to it */
	/* The same for all reasons of a thread: */
	u8 set;				/* that it was raised to; 0: it is not, or has changed its scheduling */
	bool refused;			/* it has done that: it is left alone while it has a reason */
	struct gpurt_saved saved;
};

u32 gpurt_raised_own(struct task_struct *task);
u32 gpurt_raised_to(const struct gpurt_raised *b);

/* Called one at a time, by callers that may sleep. */
void gpurt_raised_take(struct gpurt_raised *b, struct task_struct *task, u32 right);
void gpurt_raised_want(struct gpurt_raised *b, u32 priority);
void gpurt_raised_let_go(struct gpurt_raised *b);

bool gpurt_raised_possible(void);
void gpurt_raised_load(void);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Threads that are raised above the normal priorities of their CPU, and what they were before. */
#ifndef GPURT_RAISED_H
#define GPURT_RAISED_H

#include <linux/list.h>
#include <linux/types.h>

struct gpurt_thread;
struct task_struct;

/* One reason to raise a thread.  If a thread has several, the highest counts. */
struct gpurt_raised {
	struct task_struct *task;	/* NULL: none; only the reason's owner may dereference it */
	struct gpurt_thread *thread;	/* of that task; raised.c has a reference to the task */
	struct gpurt_thread *spare;	/* while there is no thread: for the next one */
	struct hlist_node node;		/* of gpurt_thread.reasons */
	u8 want;			/* the CPU priority that the thread needs for this reason */
	u8 right;			/* the highest that the user was found to have a right to */
};

extern unsigned int gpurt_normal;	/* the highest CPU priority of threads that are not raised */

u32 gpurt_raised_own(struct task_struct *task);
u32 gpurt_raised_to(const struct gpurt_raised *b);
bool gpurt_raised_refused(const struct gpurt_raised *b);

int gpurt_raised_init(struct gpurt_raised *b);
void gpurt_raised_destroy(struct gpurt_raised *b);

/* Called one at a time for a reason, by the thread itself or by gpurt-boost. */
void gpurt_raised_take(struct gpurt_raised *b, struct task_struct *task, u32 right);
void gpurt_raised_want(struct gpurt_raised *b, u32 priority);
void gpurt_raised_let_go(struct gpurt_raised *b);

bool gpurt_raised_possible(void);
void gpurt_raised_load(void);

#endif

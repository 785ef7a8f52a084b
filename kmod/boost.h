/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Policy `boosted`: threads of clients are raised and lowered.  When is decided in core/boost.c, which says so through
 * gpurt_sched_ops.raise.
 */
#ifndef GPURT_BOOST_H
#define GPURT_BOOST_H

#include <linux/kthread.h>
#include <linux/types.h>

#include "raised.h"

struct gpurt_client;
struct gpurt_gpu;
struct task_struct;

/* A client's part in the raising of threads. */
struct gpurt_boosted {
	u32 level;			/* what gpurt_sched_ops.raise said last; written with the gate held */
	bool calling;			/* the thread is in a call, and carries that out at its end */
	/* With the lock of boost.c held: */
	struct gpurt_raised raised;	/* the thread that began the outermost segment */
	struct task_struct *asker;	/* the same, while it asks for that begin; only compared */
	u32 asked;			/* at that level; 0: it does not */
	bool over;			/* the client is gone: no thread is raised for it again */
	bool barred;			/* the administrator has barred it: nor is one now; also read without */

	struct kthread_work work;	/* has a thread of the highest FIFO priority carry out `level` */
};

extern unsigned int gpurt_normal;	/* the highest CPU priority of threads that are not raised */

const char *gpurt_boost_why_not(void);

void gpurt_boost_init(struct gpurt_client *client);
int gpurt_boost_begins(struct gpurt_client *client, u32 own, u32 hint, u32 form, bool *raised);
bool gpurt_boost_ends(struct gpurt_client *client);
bool gpurt_boost_asks(const struct gpurt_client *client);
void gpurt_boost_returns(struct gpurt_client *client, bool raised);
void gpurt_boost_wanted(struct gpurt_client *client, u32 level);
void gpurt_boost_look(struct gpurt_client *client);
void gpurt_boost_bar(struct gpurt_client *client);
void gpurt_boost_stop(struct gpurt_client *client);

int gpurt_boost_load(void);
void gpurt_boost_unload(void);

#endif

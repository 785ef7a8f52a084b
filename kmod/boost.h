/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Policy `boosted`: threads of clients are raised and lowered.  When is decided in core/boost.c, which says so through
 * gpurt_sched_ops.raise.
 */
#ifndef GPURT_BOOST_H
#define GPURT_BOOST_H

#include <linux/kthread.h>
#include <linux/rtmutex.h>
#include <linux/types.h>

#include "raised.h"
#include "uapi/gpurt.h"

struct gpurt_client;
struct gpurt_gpu;
struct task_struct;

/* A client's part in the raising of threads. */
struct gpurt_boosted {
	/* Written with the gate held: */
	u32 level;			/* what gpurt_sched_ops.raise said last */
	bool may;			/* the begin of its segment has raised its thread */

	struct rt_mutex calls;		/* of the thread that is raised, or asks to be, while it is in a call; */
	struct rt_mutex lock;		/* innermost of the client's, and outside of raised.c's */
	bool calling;			/* the thread is in such a call, and carries `level` out at its end */
	bool turn;			/* it was handed the gate without its CPU; set with the lock of the gate held */
	/* With the lock held: */
	struct gpurt_raised raised;	/* the thread that began the outermost segment */
	bool at_gate;			/* it is in such a call; it stays the one until the call is over */
	struct task_struct *asker;	/* the same, while it asks for that begin; only compared */
	u32 asked;			/* the level that it needs for its call; 0: none, or it waits at the gate */
	u32 form;			/* enum gpurt_form, of that begin */
	bool spins;			/* it keeps its CPU while it waits at the gate */
	bool working;			/* form fence: it waits for its own work, */
	struct gpurt_wait awaited;	/* which is this */
	bool over;			/* the client is gone: no thread is raised for it again */
	bool barred;			/* the administrator has barred it: nor is one now; written without */

	struct kthread_work work;	/* has a thread of the highest FIFO priority carry all that out */
};

extern unsigned int gpurt_normal;	/* the highest CPU priority of threads that are not raised */

const char *gpurt_boost_why_not(void);

int gpurt_boost_init(struct gpurt_client *client);
void gpurt_boost_destroy(struct gpurt_client *client);
int gpurt_boost_begins(struct gpurt_client *client, u32 own, const struct gpurt_begin *begin, bool *raised);
bool gpurt_boost_ends(struct gpurt_client *client);
int gpurt_boost_copies(struct gpurt_client *client, u32 own, u32 level);
void gpurt_boost_copied(struct gpurt_client *client);
u32 gpurt_boost_queues_at(const struct gpurt_client *client, u32 level);
void gpurt_boost_returns(struct gpurt_client *client, bool raised);
void gpurt_boost_wanted(struct gpurt_client *client, u32 level);
void gpurt_boost_look(struct gpurt_client *client);
void gpurt_boost_bar(struct gpurt_client *client);
void gpurt_boost_stop(struct gpurt_client *client);

/* What of struct gpurt_boosted has the lock is changed with it held, and carried out before it is given back. */
void gpurt_boost_settle(struct gpurt_client *client);
void gpurt_boost_have_looked(struct gpurt_client *client);

/* At the gate, by and for a thread that is raised while its client owns the GPU. */
bool gpurt_boost_is_owners(const struct gpurt_client *client);
bool gpurt_boost_spins(const struct gpurt_client *client);
void gpurt_boost_waits(struct gpurt_client *client);
void gpurt_boost_handed(struct gpurt_client *client);
bool gpurt_boost_passed(struct gpurt_client *client);

/* Form fence. */
void gpurt_boost_works(struct gpurt_client *client, const struct gpurt_wait *w);
void gpurt_boost_worked(struct gpurt_client *client, const struct gpurt_wait *w);
void gpurt_boost_submits(struct gpurt_client *client);
void gpurt_boost_completed(struct gpurt_client *client);

int gpurt_boost_load(void);
void gpurt_boost_unload(void);

#endif

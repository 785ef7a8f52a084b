/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Ready queue: one FIFO list a priority level and a bitmap of the levels that are not empty.
 * Insertion, removal and finding the most urgent entry cost the same whatever the queue holds.
 */
#ifndef GPURT_CORE_QUEUE_H
#define GPURT_CORE_QUEUE_H

#include "env.h"

#define GPURT_LEVELS 100	/* 0: best effort; 1..99: real time, as SCHED_FIFO counts */
#define GPURT_LEVEL_WORDS ((GPURT_LEVELS + 63) / 64)

struct gpurt_queue {
	u64 filled[GPURT_LEVEL_WORDS];
	struct list_head level[GPURT_LEVELS];
};

void gpurt_queue_init(struct gpurt_queue *q);
void gpurt_queue_add(struct gpurt_queue *q, struct list_head *node, unsigned int level);
void gpurt_queue_add_first(struct gpurt_queue *q, struct list_head *node, unsigned int level);
void gpurt_queue_add_after(struct gpurt_queue *q, struct list_head *at, struct list_head *node, unsigned int level);
void gpurt_queue_del(struct gpurt_queue *q, struct list_head *node, unsigned int level);
struct list_head *gpurt_queue_first(const struct gpurt_queue *q);

/*
 * The order of decisions about a GPU: the highest level first, and among equals the one that came first
 * (docs/readings/model.md, assumption A2).
 *
 * A waiting decision stays in the queue until it enters, so a less urgent one never passes it.  A more urgent decision
 * that comes meanwhile does pass.  The caller serialises all calls; sleeping, waking and barriers are the host's.
 *
 * A begin queues at gpurt_begin_level(), the level that the segment will have.  An end, or a change of the client's
 * TSGs, queues at gpurt_sched_client.level.  All others queue at:
 */
#define GPURT_GATE_CONTROL	0	/* the administrator's: priority, policy, budget, exemption */
#define GPURT_GATE_URGENT	99	/* a client is gone, a budget or a retry is due, a task's state changed */

struct gpurt_turn {
	struct list_head node;
	u32 level;			/* 0..99 */
};

struct gpurt_turns {
	bool held;			/* a decision is being taken or carried out */
	u32 count;			/* of waiting decisions */
	struct gpurt_queue waiting;	/* gpurt_turn.node, by level */
};

void gpurt_turns_init(struct gpurt_turns *t);
bool gpurt_turns_may_enter(const struct gpurt_turns *t, u32 level);
void gpurt_turns_add(struct gpurt_turns *t, struct gpurt_turn *turn, u32 level);
void gpurt_turns_remove(struct gpurt_turns *t, struct gpurt_turn *turn);
struct gpurt_turn *gpurt_turns_first(const struct gpurt_turns *t);

#endif

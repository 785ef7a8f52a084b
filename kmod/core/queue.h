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

#endif

// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "queue.h"

#define BITS 64

void gpurt_queue_init(struct gpurt_queue *q)
{
	unsigned int i;

	for (i = 0; i < GPURT_LEVEL_WORDS; i++)
		q->filled[i] = 0;
	for (i = 0; i < GPURT_LEVELS; i++)
		INIT_LIST_HEAD(&q->level[i]);
}

void gpurt_queue_add(struct gpurt_queue *q, struct list_head *node, unsigned int level)
{
	list_add_tail(node, &q->level[level]);
	q->filled[level / BITS] |= 1ULL << (level % BITS);
}

void gpurt_queue_add_first(struct gpurt_queue *q, struct list_head *node, unsigned int level)
{
	list_add(node, &q->level[level]);
	q->filled[level / BITS] |= 1ULL << (level % BITS);
}

/* @at: an entry of that level, or the level's head: then @node comes first. */
void gpurt_queue_add_after(struct gpurt_queue *q, struct list_head *at, struct list_head *node, unsigned int level)
{
	list_add(node, at);
	q->filled[level / BITS] |= 1ULL << (level % BITS);
}

/* @node must be in @level of @q. */
void gpurt_queue_del(struct gpurt_queue *q, struct list_head *node, unsigned int level)
{
	list_del_init(node);
	if (list_empty(&q->level[level]))
		q->filled[level / BITS] &= ~(1ULL << (level % BITS));
}

/* The entry that came first to the highest level that has any; NULL if the queue is empty. */
struct list_head *gpurt_queue_first(const struct gpurt_queue *q)
{
	int i;

	for (i = GPURT_LEVEL_WORDS - 1; i >= 0; i--)
		if (q->filled[i])
			return q->level[i * BITS + fls64(q->filled[i]) - 1].next;
	return NULL;
}

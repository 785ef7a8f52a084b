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

/* @at: an entry of that level, or the level's head, which makes @node the first. */
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

/* The first entry of the highest level that is not empty; NULL if the queue is empty. */
struct list_head *gpurt_queue_first(const struct gpurt_queue *q)
{
	int i;

	for (i = GPURT_LEVEL_WORDS - 1; i >= 0; i--)
		if (q->filled[i])
			return q->level[i * BITS + fls64(q->filled[i]) - 1].next;
	return NULL;
}

/* Initialises @t: no decision is being taken or waits. */
void gpurt_turns_init(struct gpurt_turns *t)
{
	t->held = false;
	t->count = 0;
	gpurt_queue_init(&t->waiting);
}

/* Whether a decision of that level that comes now is taken at once, without waiting. */
bool gpurt_turns_may_enter(const struct gpurt_turns *t, u32 level)
{
	return !t->held && (!t->count || gpurt_turns_first(t)->level < level);
}

void gpurt_turns_add(struct gpurt_turns *t, struct gpurt_turn *turn, u32 level)
{
	turn->level = level;
	t->count++;
	gpurt_queue_add(&t->waiting, &turn->node, level);
}

/* The decision enters, or is given up. */
void gpurt_turns_remove(struct gpurt_turns *t, struct gpurt_turn *turn)
{
	t->count--;
	gpurt_queue_del(&t->waiting, &turn->node, turn->level);
}

/* The next decision to enter; NULL: none waits. */
struct gpurt_turn *gpurt_turns_first(const struct gpurt_turns *t)
{
	return t->count ? list_entry(gpurt_queue_first(&t->waiting), struct gpurt_turn, node) : NULL;
}

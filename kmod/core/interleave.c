// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "interleave.h"

static struct gpurt_place *first(const struct list_head *ring)
{
	return list_empty(ring) ? NULL : list_first_entry(ring, struct gpurt_place, node);
}

static struct list_head *due(struct gpurt_interleave *i, u32 level)
{
	return &i->ring[level][i->pass[level] % 2];
}

/*
 * TSGs of level low are always due: only their turns begin no new pass of their own level.
 */
static struct list_head *served(struct gpurt_interleave *i, u32 level)
{
	return level == GPURT_INTERLEAVE_LOW ? due(i, level) : &i->ring[level][(i->pass[level] + 1) % 2];
}

void gpurt_interleave_init(struct gpurt_interleave *i)
{
	u32 level;

	for (level = 0; level < GPURT_INTERLEAVE_COUNT; level++) {
		INIT_LIST_HEAD(&i->ring[level][0]);
		INIT_LIST_HEAD(&i->ring[level][1]);
		i->pass[level] = 1;
	}
}

void gpurt_place_init(struct gpurt_place *p, u32 level)
{
	INIT_LIST_HEAD(&p->node);
	p->level = level;
	p->pass = 0;
}

/* The TSG has work again: it goes to the end of its ring. */
void gpurt_interleave_join(struct gpurt_interleave *i, struct gpurt_place *p)
{
	list_add_tail(&p->node, p->pass == i->pass[p->level] ? served(i, p->level) : due(i, p->level));
}

/* The TSG no longer has work. */
void gpurt_interleave_leave(struct gpurt_place *p)
{
	list_del_init(&p->node);
}

/* The TSG's turn is over. */
void gpurt_interleave_over(struct gpurt_interleave *i, struct gpurt_place *p)
{
	if (p->level != GPURT_INTERLEAVE_LOW)
		p->pass = i->pass[p->level];
	list_move_tail(&p->node, served(i, p->level));
}

/* The TSG whose turn it is; NULL: no TSG has work. */
struct gpurt_place *gpurt_interleave_first(const struct gpurt_interleave *i)
{
	struct gpurt_place *p = NULL;
	u32 n;

	/* TSGs that are due, level high first; then the others, level medium first. */
	for (n = GPURT_INTERLEAVE_COUNT; n-- && !p;)
		p = first(&i->ring[n][i->pass[n] % 2]);
	for (n = GPURT_INTERLEAVE_MEDIUM; n < GPURT_INTERLEAVE_COUNT && !p; n++)
		p = first(&i->ring[n][(i->pass[n] + 1) % 2]);
	return p;
}

/* The same, and begins its turn: begins new passes of higher levels, and of its own level if it was not due. */
struct gpurt_place *gpurt_interleave_take(struct gpurt_interleave *i)
{
	struct gpurt_place *p = gpurt_interleave_first(i);
	u32 n;

	if (!p)
		return NULL;
	if (first(due(i, p->level)) != p)
		i->pass[p->level]++;
	for (n = p->level + 1; n < GPURT_INTERLEAVE_COUNT; n++)
		i->pass[n]++;
	return p;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "gate.h"

/* No decision is being taken, and none waits. */
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

/* It enters, or is given up. */
void gpurt_turns_remove(struct gpurt_turns *t, struct gpurt_turn *turn)
{
	t->count--;
	gpurt_queue_del(&t->waiting, &turn->node, turn->level);
}

/* The next to enter; NULL: none waits. */
struct gpurt_turn *gpurt_turns_first(const struct gpurt_turns *t)
{
	return t->count ? list_entry(gpurt_queue_first(&t->waiting), struct gpurt_turn, node) : NULL;
}

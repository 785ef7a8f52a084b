// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "gate.h"

/* No decision is being taken, and none waits. */
void gpurt_turns_init(struct gpurt_turns *t)
{
	t->held = false;
	gpurt_queue_init(&t->waiting);
}

/* Whether a decision of that level that comes now is taken at once, without waiting. */
bool gpurt_turns_may_enter(const struct gpurt_turns *t, u32 level)
{
	const struct gpurt_turn *first = gpurt_turns_first(t);

	return !t->held && (!first || first->level < level);
}

void gpurt_turns_add(struct gpurt_turns *t, struct gpurt_turn *turn, u32 level)
{
	turn->level = level;
	gpurt_queue_add(&t->waiting, &turn->node, level);
}

/* It enters, or is given up. */
void gpurt_turns_remove(struct gpurt_turns *t, struct gpurt_turn *turn)
{
	gpurt_queue_del(&t->waiting, &turn->node, turn->level);
}

/* The next to enter; NULL: none waits. */
struct gpurt_turn *gpurt_turns_first(const struct gpurt_turns *t)
{
	struct list_head *node = gpurt_queue_first(&t->waiting);

	return node ? list_entry(node, struct gpurt_turn, node) : NULL;
}

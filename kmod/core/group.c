// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "sched.h"

/* @stamps: the host's counter of tenures. */
void gpurt_group_init(struct gpurt_group *g, u64 *stamps)
{
	*g = (struct gpurt_group){ .stamps = stamps, .set = GPURT_PRIORITY_OWN };
	gpurt_queue_init(&g->members);
	INIT_LIST_HEAD(&g->gpus);
}

/* The level of a tenure that begins now: that of the control plane, else the highest known of its members' threads. */
u8 gpurt_group_level(const struct gpurt_group *g)
{
	struct list_head *first = gpurt_queue_first(&g->members);
	u32 own = first ? list_entry(first, struct gpurt_sched_client, in_order)->own : 0;

	return (u8)gpurt_begin_level(g->set, own, 0);
}

/* A member began a segment on some GPU.  Groups have even stamps, so a client that comes later has a higher stamp. */
void gpurt_group_opened(struct gpurt_group *g)
{
	if (g->open++)
		return;
	g->level = gpurt_group_level(g);
	g->stamp = 2 * ++*g->stamps;
}

/* A member has ended @segments segments. */
void gpurt_group_closed(struct gpurt_group *g, u32 segments)
{
	g->open -= segments;
	if (!g->open)
		g->demoted = false;
}

/* Whether the group is in a segment on another GPU; @lock: on a GPU whose owner cannot be preempted. */
bool gpurt_group_elsewhere(const struct gpurt_group_gpu *here, bool lock)
{
	const struct gpurt_group_gpu *g;
	struct list_head *node;

	list_for_each(node, &here->group->gpus) {
		g = list_entry(node, struct gpurt_group_gpu, in_group);
		if (g != here && g->core.depth && (!lock || gpurt_policy_locks(g->sched->policy)))
			return true;
	}
	return false;
}

/* The invariant: where the group is queued for a segment, it is queued by the key of its tenure. */
bool gpurt_group_holds(const struct gpurt_group_gpu *g)
{
	const struct gpurt_sched_client *e = &g->core;

	if (list_empty(&e->in_segments))
		return true;
	return e->depth && e->level == g->group->level && e->stamp == g->group->stamp && !g->group->demoted;
}

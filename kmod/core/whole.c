// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "whole.h"

static struct gpurt_vgpu *part(struct list_head *node)
{
	return list_entry(node, struct gpurt_vgpu, in_whole);
}

void gpurt_whole_init(struct gpurt_whole *whole, u32 cross)
{
	INIT_LIST_HEAD(&whole->parts);
	whole->cross = cross;
}

/* @v, which has never had work, becomes a partition.  From now on it has the others' time. */
void gpurt_whole_add(struct gpurt_whole *whole, struct gpurt_vgpu *v)
{
	if (!list_empty(&whole->parts))
		v->now = part(whole->parts.next)->now;
	v->whole = whole;
	list_add_tail(&v->in_whole, &whole->parts);
}

/* @v, which no longer has work, stops being a partition. */
void gpurt_whole_remove(struct gpurt_vgpu *v)
{
	list_del_init(&v->in_whole);
	v->whole = NULL;
}

/* The factor that slows a memory-intensive kernel of @v down, in thousandths. */
u32 gpurt_whole_factor(const struct gpurt_whole *whole, const struct gpurt_vgpu *v)
{
	struct list_head *pos;

	if (whole->cross == GPURT_FACTOR_ONE)
		return GPURT_FACTOR_ONE;
	list_for_each(pos, &whole->parts)
		if (part(pos) != v && gpurt_vgpu_executes_memory(part(pos)))
			return whole->cross;
	return GPURT_FACTOR_ONE;
}

/* The partition with the next event, and when; NULL, U64_MAX: no event. */
static struct gpurt_vgpu *first(const struct gpurt_whole *whole, u64 *when)
{
	struct gpurt_vgpu *v = NULL;
	struct list_head *pos;
	u64 next;

	*when = U64_MAX;
	list_for_each(pos, &whole->parts) {
		next = gpurt_vgpu_next(part(pos));
		if (next < *when) {
			*when = next;
			v = part(pos);
		}
	}
	return v;
}

/* When a partition will next do something by itself; U64_MAX: never. */
u64 gpurt_whole_next(const struct gpurt_whole *whole)
{
	u64 when;

	first(whole, &when);
	return when;
}

/*
 * Lets time pass on all partitions.  A kernel is slowed down by work that executes on other partitions until then, and
 * passing time does not change which.
 */
static void pass(struct gpurt_whole *whole, u64 when)
{
	struct list_head *pos;

	list_for_each(pos, &whole->parts)
		if (when > part(pos)->now)
			gpurt_vgpu_pass(part(pos), when);
}

/* As gpurt_vgpu_catch_up(), for all partitions. */
bool gpurt_whole_catch_up(struct gpurt_whole *whole, u64 now, u32 most)
{
	struct gpurt_vgpu *v;
	u64 next;

	while ((v = first(whole, &next)) && next <= now) {
		if (!most--)
			return false;
		pass(whole, next);
		gpurt_vgpu_happen(v);
	}
	pass(whole, now);
	return true;
}

/* As gpurt_vgpu_stand_still(), for all partitions. */
void gpurt_whole_stand_still(struct gpurt_whole *whole, u64 now)
{
	struct list_head *pos;

	list_for_each(pos, &whole->parts)
		gpurt_vgpu_stand_still_alone(part(pos), now);
}

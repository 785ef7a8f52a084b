/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Turns of TSGs of three interleave levels, as the runlist of Tegra's driver (nvgpu) orders them.
 *
 * In the driver's runlist all TSGs of level high come before each TSG of level medium or low.  All TSGs of level
 * medium, each with the TSGs of level high before it, come before each of level low.  If no TSG has level low, level
 * medium takes its place; if none has medium either, level high does.  A TSG without work is skipped.
 *
 * Here a level has passes.  In a pass each of its TSGs has at most one turn.  A turn of level medium begins a new pass
 * of level high; a turn of level low begins new passes of both.  So between two turns of a TSG other TSGs have at most
 * as many turns as in the runlist.  The same holds before its first turn (docs/readings/own.md, "Time partitions").
 */
#ifndef GPURT_CORE_INTERLEAVE_H
#define GPURT_CORE_INTERLEAVE_H

#include "env.h"
#include "../uapi/gpurt.h"

/* The place of a TSG.  gpurt_place_init() initialises it.  It is in no ring while the TSG has no work. */
struct gpurt_place {
	struct list_head node;
	u32 level;			/* enum gpurt_interleave_level */
	u64 pass;			/* the pass of its level with its last turn */
};

struct gpurt_interleave {
	/* TSGs with work, the longest waiting first: due ones of pass n are in [n % 2], the others in the other list */
	struct list_head ring[GPURT_INTERLEAVE_COUNT][2];
	u64 pass[GPURT_INTERLEAVE_COUNT];	/* of level low: always the same */
};

void gpurt_interleave_init(struct gpurt_interleave *i);
void gpurt_place_init(struct gpurt_place *p, u32 level);
void gpurt_interleave_join(struct gpurt_interleave *i, struct gpurt_place *p);
void gpurt_interleave_leave(struct gpurt_place *p);
void gpurt_interleave_over(struct gpurt_interleave *i, struct gpurt_place *p);
struct gpurt_place *gpurt_interleave_first(const struct gpurt_interleave *i);
struct gpurt_place *gpurt_interleave_take(struct gpurt_interleave *i);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Turns of TSGs of three interleave levels, as the runlist of Tegra's driver (nvgpu) orders them.
 *
 * In the driver's runlist all TSGs of level high stand before each TSG of level medium or low.  All
 * TSGs of level medium, each with those of level high before it, stand before each of level low.
 * Without level low, level medium takes its place, and without that level high.  A TSG without work
 * is passed over.
 *
 * Here a level has passes.  In a pass each of its TSGs has at most one turn.  A TSG of level medium begins a new pass
 * of level high when it is taken; one of level low begins one of both.  Others then have at most as
 * many turns between two turns of a TSG as in the runlist.  The same holds between a TSG's arrival
 * and its first turn (docs/readings/own.md, "Time partitions").
 */
#ifndef GPURT_CORE_INTERLEAVE_H
#define GPURT_CORE_INTERLEAVE_H

#include "env.h"
#include "../uapi/gpurt.h"

/* The place of a TSG.  To be initialised by gpurt_place_init(); in no ring while the TSG has no work. */
struct gpurt_place {
	struct list_head node;
	u32 level;			/* enum gpurt_interleave_level */
	u64 pass;			/* of its level, in which its last turn was */
};

struct gpurt_interleave {
	/* TSGs with work, the longest waiting first: those due in pass n are in [n % 2], the others in the other */
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

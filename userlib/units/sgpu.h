/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A spatial virtual GPU: jobs hold disjoint sets of its units.
 *
 * A job holds its units and a slot from dispatch until its host frees them, at the end of its kernel or after its copy
 * out.  Its kernel executes over [start, end).  At each time that gpurt_sgpu_next() names, the host calls
 * gpurt_sgpu_advance(), which counts how long some kernel executed.  Time must not run backwards.
 *
 * With two slots the first job takes units from the bottom and the other one from the top.  So sets are disjoint iff
 * their sizes fit, and few different sets exist, as green contexts and CU masks need it.
 */
#ifndef GPURT_CORE_SGPU_H
#define GPURT_CORE_SGPU_H

#include "../../kmod/core/env.h"

#define GPURT_SGPU_SLOTS 8

struct gpurt_sgpu_job {
	u32 task;
	u32 units;
	u32 first;		/* unit */
	u64 start;		/* of the kernel, ns */
	u64 planned_end;	/* of the kernel in the worst case */
	u64 planned_free;	/* of units and slot in the worst case */
	u64 end;		/* of the kernel */
	u64 free;		/* of units and slot */
};

/* @count jobs hold a slot, in order of dispatch. */
struct gpurt_sgpu {
	u32 whole;		/* units that jobs may hold, a multiple of @granularity */
	u32 granularity;
	u32 slots;
	u32 held;		/* units */
	u32 count;
	struct gpurt_sgpu_job jobs[GPURT_SGPU_SLOTS];
	u64 counted;		/* @busy counts until this time, ns */
	u64 busy;		/* how long at least one kernel executed, ns */
};

void gpurt_sgpu_init(struct gpurt_sgpu *g, u32 whole, u32 granularity, u32 slots);
u32 gpurt_sgpu_free_units(const struct gpurt_sgpu *g);
bool gpurt_sgpu_full(const struct gpurt_sgpu *g);
struct gpurt_sgpu_job *gpurt_sgpu_place(struct gpurt_sgpu *g, const struct gpurt_sgpu_job *job, u64 now);
u64 gpurt_sgpu_next(const struct gpurt_sgpu *g);
u32 gpurt_sgpu_advance(struct gpurt_sgpu *g, u64 now);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A GPU that is divided into partitions, each of which is a virtual GPU with its own runlist.
 *
 * Partitions execute at once.  A memory-intensive kernel is slowed down by a factor while another partition also
 * executes one.  So each start and end of such a kernel changes the pace of kernels on the other partitions.  Hence all
 * partitions advance together, and their events happen in order.
 *
 * The caller serialises calls for all partitions.  An operation on one of them (vgpu.h) may report what happened on
 * others before.  gpurt_whole_next() says when something will happen on any.
 */
#ifndef GPURT_CORE_WHOLE_H
#define GPURT_CORE_WHOLE_H

#include "vgpu.h"

struct gpurt_whole {
	struct list_head parts;		/* gpurt_vgpu.in_whole; all are at the same time */
	u32 cross;			/* the factor, GPURT_FACTOR_ONE to GPURT_FACTOR_MAX */
};

void gpurt_whole_init(struct gpurt_whole *whole, u32 cross);
void gpurt_whole_add(struct gpurt_whole *whole, struct gpurt_vgpu *v);
void gpurt_whole_remove(struct gpurt_vgpu *v);
u32 gpurt_whole_factor(const struct gpurt_whole *whole, const struct gpurt_vgpu *v);
u64 gpurt_whole_next(const struct gpurt_whole *whole);
bool gpurt_whole_catch_up(struct gpurt_whole *whole, u64 now, u32 most);
void gpurt_whole_stand_still(struct gpurt_whole *whole, u64 now);

#endif

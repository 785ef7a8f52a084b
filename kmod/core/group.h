/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Groups: clients that need one another own the GPU together, on one GPU or several.
 *
 * On each GPU one entry stands in the scheduler's queues for all members of a group.  While it owns the GPU, the TSGs
 * of all members are on the runlist, also of members in no segment.  A tenure of the group lasts from the first begin
 * of a member on any GPU to the last end.  Meanwhile the group has a key: its level, and a stamp that the tenure got
 * when it began.  All GPUs order groups by that key alike, so two groups never wait for each other
 * (docs/readings/groups.md).  The key of a group does not change while it is in a queue, except by operations on the
 * whole group.  The scheduler that begins such an operation calls gpurt_sched_ops.regroup, and the host has every other
 * GPU follow, one at a time.
 *
 * Under the lock policies a tenure stays on one GPU.  Policy `job` orders groups on each GPU by itself.
 *
 * The caller serialises all calls for all GPUs of a group.
 */
#ifndef GPURT_CORE_GROUP_H
#define GPURT_CORE_GROUP_H

#include "env.h"
#include "../uapi/gpurt.h"
#include "queue.h"

struct gpurt_sched;
struct gpurt_sched_client;
struct gpurt_group_gpu;

struct gpurt_group {
	u64 *stamps;			/* the host's counter of tenures, one for all groups */
	u32 open;			/* segments of all members on all GPUs; the tenure lasts until 0 */
	u8 set;				/* by the control plane; GPURT_PRIORITY_OWN: none */
	u8 level;			/* of the tenure */
	bool demoted;			/* until the tenure ends */
	bool all;			/* fixed: policy `boosted` raises members' threads in and out of segments */
	u64 stamp;			/* of the tenure */
	struct gpurt_queue members;	/* by their threads' own priority, as far as it is known */
	struct list_head gpus;		/* struct gpurt_group_gpu */
};

void gpurt_group_init(struct gpurt_group *g, u64 *stamps);
u8 gpurt_group_level(const struct gpurt_group *g);
void gpurt_group_opened(struct gpurt_group *g);
void gpurt_group_closed(struct gpurt_group *g, u32 segments);
bool gpurt_group_elsewhere(const struct gpurt_group_gpu *here, bool lock);
bool gpurt_group_holds(const struct gpurt_group_gpu *g);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Responses of one task among those above and below it, whose states are prepared. */
#ifndef GPURT_RTGPU_RESPONSE_H
#define GPURT_RTGPU_RESPONSE_H

#include "rtgpu_state.h"

/* The most that one lower copy, or merged request, keeps a task waiting for. */
int64_t rtgpu_blocking(const struct run *r, u32 index);

/* Collects the loads of the tasks above. */
void rtgpu_gather(struct run *r, u32 index);

/* The same, and what the responses of a task need that does not depend on its own units. */
void rtgpu_settle(struct run *r, u32 index);

/* R1 to R4 of a task on the units that it has; beyond the deadline if none holds.  @all: their least, else any. */
int64_t rtgpu_suspended(struct run *r, u32 index, int all);

/* The response of a task that waits busily (analysis/rtgpu/stgm.py). */
int64_t rtgpu_busy(struct run *r, u32 index);

#endif

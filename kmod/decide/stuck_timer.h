/* SPDX-License-Identifier: GPL-2.0 */
/* When the next look of stuck.c is due. */
#ifndef GPURT_STUCK_TIMER_H
#define GPURT_STUCK_TIMER_H

#include <linux/types.h>

struct gpurt_gpu;

u64 gpurt_stuck_limit(const struct gpurt_gpu *gpu);
void gpurt_stuck_arm(struct gpurt_gpu *gpu);

#endif

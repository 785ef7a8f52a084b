/* SPDX-License-Identifier: GPL-2.0 */
#ifndef GPURT_EVENTS_H
#define GPURT_EVENTS_H

#include <linux/types.h>

#include "uapi/gpurt.h"

/* One event, complete: what it is about may be gone when it is read. */
struct gpurt_record {
	u64 time;
	u64 client;			/* 0: everyone */
	u64 latency;			/* of commits and work; of LOST, how many */
	u32 event;
	u32 gpu;
	u32 cause;
	u32 priority;
	s32 pid;			/* as the initial namespace sees it */
	char comm[GPURT_COMM_LEN];
};

#endif

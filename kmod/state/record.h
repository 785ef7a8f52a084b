/* SPDX-License-Identifier: GPL-2.0 */
/* The facts of an event that readers get. */
#ifndef GPURT_RECORD_H
#define GPURT_RECORD_H

#include <linux/types.h>

#include "uapi/gpurt.h"

/* A complete event: its client may be gone when the record is read. */
struct gpurt_record {
	u64 time;
	u64 client;			/* its id; 0: the event is about everyone */
	u64 latency;			/* of commits and work, ns; of GPURT_EVENT_LOST, the number of lost events */
	u32 event;
	u32 gpu;
	u32 cause;
	u32 priority;
	s32 pid;			/* in the initial namespace */
	char comm[GPURT_COMM_LEN];
	char group[GPURT_NAME_LEN];	/* the client's group; empty: none */
	/* For marks of jobs; empty in other events. */
	u64 job;
	u64 cpu;
	u32 lost;			/* earlier marks that readers missed; also in GPURT_EVENT_GONE */
	char task[GPURT_TASK_LEN];
};

#endif

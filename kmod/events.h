/* SPDX-License-Identifier: GPL-2.0 */
/* Events, for tracers and for readers of the multicast group. */
#ifndef GPURT_EVENTS_H
#define GPURT_EVENTS_H

#include <linux/types.h>

#include "uapi/gpurt.h"

struct gpurt_client;
struct gpurt_gpu;

/* A complete event: the client that it is about may be gone when the record is read. */
struct gpurt_record {
	u64 time;
	u64 client;			/* its id; 0: the event is about everyone */
	u64 latency;			/* of commits and work, ns; of GPURT_EVENT_LOST, how many were lost */
	u32 event;
	u32 gpu;
	u32 cause;
	u32 priority;
	s32 pid;			/* in the initial namespace */
	char comm[GPURT_COMM_LEN];
	/* Of marks of jobs; empty in other events. */
	u64 job;
	u64 cpu;
	u32 lost;			/* marks of the client's before; also in GPURT_EVENT_GONE */
	char task[GPURT_TASK_LEN];
};

bool gpurt_events_wanted(void);
void gpurt_event(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 time, u32 cause, u64 latency);
int gpurt_event_job(struct gpurt_client *client, const struct gpurt_job_mark *mark);

int gpurt_events_start(void);
void gpurt_events_stop(void);

#endif

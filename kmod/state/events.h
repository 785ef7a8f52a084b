/* SPDX-License-Identifier: GPL-2.0 */
/* Events, for readers of the multicast group. */
#ifndef GPURT_EVENTS_H
#define GPURT_EVENTS_H

#include <linux/types.h>

#include "state/record.h"

struct gpurt_client;
struct gpurt_gpu;

void gpurt_event(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 time, u32 cause, u64 latency);
int gpurt_event_job(struct gpurt_client *client, const struct gpurt_job_mark *mark);

int gpurt_events_start(void);
void gpurt_events_stop(void);

#endif

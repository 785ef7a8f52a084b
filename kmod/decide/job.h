/* SPDX-License-Identifier: GPL-2.0 */
/* How policy `job` notices that the state of a task has changed. */
#ifndef GPURT_JOB_H
#define GPURT_JOB_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_gpu;
struct pid;

void gpurt_job_find_tracepoints(void);
bool gpurt_job_can_notify(void);

void gpurt_job_init(struct gpurt_gpu *gpu);
void gpurt_job_start(struct gpurt_gpu *gpu, const char **why);
void gpurt_job_stop(struct gpurt_gpu *gpu);

void gpurt_job_watch(struct gpurt_gpu *gpu, struct pid *tgid, int change);
void gpurt_job_join(struct gpurt_client *client);
void gpurt_job_leave(struct gpurt_client *client);
void gpurt_job_tsg_opened(struct gpurt_gpu *gpu);

#endif

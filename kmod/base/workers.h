/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's own work queues.  The whole kernel shares the system's workqueues: blocked work items of others can fill
 * them, and they stop when there is no memory for another worker.
 *
 *   gpurt_orders	wakes agents.  Each user's number is limited, so its workers come before ordinary tasks
 *   gpurt_updates	the work after an update of a GPU.  One item a GPU, so the queue is never full
 *   gpurt_workers	everything else.  Users choose how many items there are
 */
#ifndef GPURT_WORKERS_H
#define GPURT_WORKERS_H

#include <linux/workqueue.h>

extern struct workqueue_struct *gpurt_orders, *gpurt_updates, *gpurt_workers;

int gpurt_workers_start(void);
void gpurt_workers_stop(void);

#endif

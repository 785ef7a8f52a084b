/* SPDX-License-Identifier: GPL-2.0 */
/* The processes that have clients of a GPU. */
#ifndef GPURT_PROCESS_H
#define GPURT_PROCESS_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/types.h>

#include "base/processes.h"

struct gpurt_client;
struct gpurt_gpu;
struct pid;

/* A process that has clients of a GPU. */
struct gpurt_process {
	struct gpurt_by_process by;	/* of gpurt_gpu.processes, while the process has clients */
	struct kref ref;		/* its clients', until they are freed */
	struct list_head clients;	/* of gpurt_client.by_process; changed with gpurt_gpu.clients_lock held */
	atomic_t exempt;		/* how many of these clients are exempt */
};

struct gpurt_process *gpurt_process_make(struct pid *tgid);
void gpurt_process_put(struct gpurt_process *process);
struct gpurt_process *gpurt_process_find(struct gpurt_gpu *gpu, const struct pid *tgid);
void gpurt_process_enter(struct gpurt_client *client);
void gpurt_process_leave(struct gpurt_client *client);

#endif

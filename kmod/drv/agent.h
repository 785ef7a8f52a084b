/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the agents' driver share: one agent_gpu a GPU, one agent_process a process with clients of it,
 * one agent_ctx a client of it: the context that the module passes back.
 *
 * agent_gpu.lock is innermost but for those of wait queues, of works and of events.
 * A process lives as long as it has clients, a client from client_open() to client_close().  The lock is not held
 * while commit() waits: who ends meanwhile, registers or answers is seen when it looks again.
 */
#ifndef GPURT_DRV_AGENT_H
#define GPURT_DRV_AGENT_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "drv.h"

struct agent_gpu {
	struct gpurt_gpu *gpu;
	spinlock_t lock;		/* all of this, its processes and its clients */
	struct list_head processes;
	struct agent_ctx *only;		/* whose the runlist is to be; NULL: everyone's */
	bool open;			/* all others are off: those who may run have been told */
	wait_queue_head_t answers;	/* commit() looks whether it has all that it waits for */
	struct delayed_work watch;	/* who is late, and which order must be given again */
};

struct agent_process {
	struct list_head node;
	struct list_head contexts;	/* of its clients */
	struct pid *tgid;		/* each client holds a reference */
	struct agent_ctx *agent;	/* that of them; NULL: none, and what follows means nothing */
	bool on;			/* as ordered last */
	bool late;
	u64 since;			/* when it was */
	u64 sequence, answered;		/* the last order's; the last one that was carried out */
	u64 again;			/* when the order is given once more; U64_MAX: it need not be */
};

struct agent_ctx {
	struct list_head node;
	struct agent_process *process;
	struct gpurt_client *client;
	bool exempt;
};

/* agent.c */
int gpurt_agents_start(void);
void gpurt_agents_stop(void);

/* agent.c; under the lock */
u64 gpurt_agent_bound(void);
bool gpurt_agent_wanted(const struct agent_gpu *dev, const struct agent_process *p);
void gpurt_agent_order(struct agent_process *p, bool on);
void gpurt_agent_arm(struct agent_gpu *dev);

/* agent_calls.c; drv.h describes them */
int gpurt_agent_client_open(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx);
void gpurt_agent_client_ends(void *driver, void *ctx, bool process);
void gpurt_agent_client_close(void *driver, void *ctx);
void gpurt_agent_exempt(void *driver, void *ctx, bool exempt);
extern const struct gpurt_agent_ops gpurt_agent_calls;

#endif

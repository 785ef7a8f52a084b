/* SPDX-License-Identifier: GPL-2.0 */
/* The processes of a GPU that agents switch. */
#ifndef GPURT_DRV_AGENT_PROCESSES_H
#define GPURT_DRV_AGENT_PROCESSES_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "../core/agents.h"

struct gpurt_client;
struct pid;

/* With the driver's lock held. */
struct agent_processes {
	struct rb_root tree;		/* of agent_process.node, by thread group; users choose how many */
	struct list_head lapsed;	/* of agent_process.ordered: processes without clients */
};

#define NO_SET U64_MAX

/* Channels of a process that another process's agent can switch, in their state number @set. */
struct agent_channels {
	u64 set;			/* NO_SET: no agent has reported channels */
	bool calls;			/* the agent can switch other processes' channels */
	struct gpurt_channels list;
};

/* A process with clients of the GPU; or without, if it was late at the end: it must not be trusted anew. */
struct agent_process {
	struct gpurt_agent_process core;
	struct rb_node node;
	struct pid *tgid;
	u32 clients;
	u32 members;			/* clients that are in a group: all in the same one */
	struct gpurt_client *agent;	/* the client that is the agent; NULL: none */
	const void *program;		/* the agent's program: agent_ctx.program */
	bool real_time;			/* the thread that waits for the agent's orders is real-time */
	struct agent_channels told;	/* reported by its agent */
	struct agent_channels taken;	/* @told when it last got an order that another agent carries out */
	struct list_head ordered;	/* on a list while the agent is to be woken, or the process has lapsed */
};

struct agent_process *gpurt_agent_process_make(struct pid *tgid);
void gpurt_agent_process_free(struct agent_process *p);
void gpurt_agent_processes_free(struct list_head *gone);

struct agent_process *gpurt_agent_process_enter(struct agent_processes *all, struct agent_process *fresh);
void gpurt_agent_process_lapse(struct agent_processes *all, struct agent_process *p);
void gpurt_agent_process_remove(struct agent_processes *all, struct agent_process *p);
void gpurt_agent_processes_prune(struct agent_processes *all, struct list_head *gone);
u64 gpurt_agent_user(void);

#endif

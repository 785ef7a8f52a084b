/* SPDX-License-Identifier: GPL-2.0 */
/* The bus between memory and a GPU: which client may copy now.  The decisions are core/bus.c's. */
#ifndef GPURT_BUS_H
#define GPURT_BUS_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "core/bus.h"
#include "raised.h"

struct gpurt_client;
struct gpurt_gpu;
struct task_struct;

struct gpurt_gpu_bus {
	raw_spinlock_t lock;		/* inside of all locks except those of owner.c and events.c */
	struct gpurt_bus core;
	struct hrtimer timer;		/* best effort has kept the bus for too long */
};

/* A client's part. */
struct gpurt_copier {
	/* With the lock of its GPU's bus held, down to the blank line. */
	struct gpurt_bus_node node;
	struct task_struct *task;	/* waits for the bus */
	u32 own;			/* the priority of the thread that asked last, */
	u32 hint;			/* and what it asked for */
	bool asking;			/* a call is under way: no other thread may begin, or go on */
	u32 request;			/* the number of its last BEGIN or NEXT */
	bool gone;

	/* With client->boost.lock held: policy `boosted` raises the thread that copies. */
	struct gpurt_raised raised;
	bool raises;			/* from before it asks for the bus until it has given it back */
};

struct gpurt_client *gpurt_bus_holder(const struct gpurt_gpu *gpu);
bool gpurt_bus_copies(struct gpurt_client *client);
int gpurt_bus_begin(struct gpurt_client *client, u32 own, struct gpurt_copy *copy);
int gpurt_bus_go_on(struct gpurt_client *client, struct gpurt_copy *copy);
int gpurt_bus_end(struct gpurt_client *client, const struct gpurt_copy *copy);
void gpurt_bus_relevel(struct gpurt_client *client);
void gpurt_bus_take_off(struct gpurt_client *client);
void gpurt_bus_leave(struct gpurt_client *client);

void gpurt_bus_start(struct gpurt_gpu *gpu);
void gpurt_bus_stop(struct gpurt_gpu *gpu);

#endif

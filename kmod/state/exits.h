/* SPDX-License-Identifier: GPL-2.0 */
/* The processes that opened descriptors, and how the module learns that one ends. */
#ifndef GPURT_EXITS_H
#define GPURT_EXITS_H

#include <linux/list.h>
#include <linux/types.h>

#include "state/client.h"

struct gpurt_file;

/*
 * Operations for a process that ends.  take_off() takes an urgent client off the GPU, in the thread gpurt-end.
 */
struct gpurt_exits_ops {
	void (*take_off)(struct gpurt_client *client);
	void (*gone)(struct gpurt_file *file, bool process);	/* ends all clients of a descriptor */
};

int gpurt_exits_watch(struct gpurt_file *file);
bool gpurt_exits_ends(const struct gpurt_file *file);
void gpurt_exits_urgent(struct gpurt_client *client);
void gpurt_exits_holds(struct gpurt_client *client);
void gpurt_exits_calm(struct gpurt_client *client);
void gpurt_exits_let_go(struct gpurt_client *client);
void gpurt_exits_over(struct gpurt_file *file);
void gpurt_exits_forget(struct gpurt_file *file);

int gpurt_exits_start(const struct gpurt_exits_ops *ops);
void gpurt_exits_stop(void);

#endif

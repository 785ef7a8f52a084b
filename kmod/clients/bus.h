/* SPDX-License-Identifier: GPL-2.0 */
/* The bus between memory and a GPU: which client may copy now.  The decisions are core/bus.c's. */
#ifndef GPURT_BUS_H
#define GPURT_BUS_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_copy;
struct gpurt_gpu;

int gpurt_bus_begin(struct gpurt_client *client, u32 own, struct gpurt_copy *copy);
int gpurt_bus_go_on(struct gpurt_client *client, struct gpurt_copy *copy);
int gpurt_bus_end(struct gpurt_client *client, const struct gpurt_copy *copy);
void gpurt_bus_relevel(struct gpurt_client *client);
void gpurt_bus_take_off(struct gpurt_client *client);
void gpurt_bus_leave(struct gpurt_client *client);

void gpurt_bus_start(struct gpurt_gpu *gpu);
void gpurt_bus_stop(struct gpurt_gpu *gpu);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Clients that have been told that they have the GPU. */
#ifndef GPURT_GRANTS_H
#define GPURT_GRANTS_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_gpu;

void gpurt_tell(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now);
void gpurt_grants_change(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now);
void gpurt_grants_settle(struct gpurt_gpu *gpu, struct gpurt_client *client, u64 now);

#endif

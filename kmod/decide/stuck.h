/* SPDX-License-Identifier: GPL-2.0 */
/* Notices that the owner of a GPU waits for a program that waits for the GPU. */
#ifndef GPURT_STUCK_H
#define GPURT_STUCK_H

struct gpurt_client;
struct gpurt_gpu;

void gpurt_stuck_init(struct gpurt_gpu *gpu);
void gpurt_stuck_stop(struct gpurt_gpu *gpu);
void gpurt_stuck_died(struct gpurt_client *client);

#endif

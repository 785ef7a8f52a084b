/* SPDX-License-Identifier: GPL-2.0 */
/* The GPUs that drivers have registered, by number. */
#ifndef GPURT_GPUS_H
#define GPURT_GPUS_H

#include <linux/types.h>

struct gpurt_gpu;

struct gpurt_gpu *gpurt_gpu_get(u32 index);
u32 gpurt_gpu_count(void);

int gpurt_gpus_publish(struct gpurt_gpu *gpu);
void gpurt_gpus_withdraw(struct gpurt_gpu *gpu);
void gpurt_gpus_free_number(u32 index);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* A GPU: its driver's operations, its thread, and its lifetime. */
#ifndef GPURT_GPU_H
#define GPURT_GPU_H

#include "state/gpu.h"

struct gpurt_agents_facts;

struct gpurt_gpu *gpurt_gpu_make(const struct gpurt_driver_ops *ops, void *driver);
void gpurt_gpu_put(struct gpurt_gpu *gpu);

bool gpurt_gpu_hold(struct gpurt_gpu *gpu, int *token);
void gpurt_gpu_release(struct gpurt_gpu *gpu, int token);
void gpurt_gpu_dies(struct gpurt_gpu *gpu);
void gpurt_gpu_end_thread(struct gpurt_gpu *gpu);
void gpurt_gpu_describe(struct gpurt_gpu *gpu, struct gpurt_agents_facts *facts);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The CPU of the GPUs' threads. */
#ifndef GPURT_CPU_H
#define GPURT_CPU_H

struct gpurt_gpu;

int gpurt_cpu_start(void);
void gpurt_cpu_stop(void);
void gpurt_cpu_bind(struct gpurt_gpu *gpu);

#endif

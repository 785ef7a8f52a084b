/* SPDX-License-Identifier: GPL-2.0 */
/* The CPU of the GPUs' threads. */
#ifndef GPURT_CPU_H
#define GPURT_CPU_H

struct gpurt_gpu;

extern int gpurt_thread_cpu;	/* -1: any */

int gpurt_cpu_start(void);
void gpurt_cpu_stop(void);
int gpurt_cpu_came(unsigned int cpu);
void gpurt_cpu_bind(struct gpurt_gpu *gpu);

#endif

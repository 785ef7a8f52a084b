// SPDX-License-Identifier: GPL-2.0
// Kernels of gpurt_sm.h that sm-check has to tell apart: `keeps_*` work only where they may, `strays_*` do not.
#include "gpurt_sm.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(512)
#define IN struct gpurt_sm_range range, struct gpurt_sm_control *control, unsigned int *data
#define MINE data[block * 512 + threadIdx.x]

KERNEL keeps_tile(IN)
{
	__shared__ unsigned int tile[512];

	tile[threadIdx.x] = 3;
	gpurt_sm_run(range, control, [=](unsigned int block) {
		tile[threadIdx.x] += MINE;
		__syncthreads();
		if (block & 1)
			MINE = tile[(threadIdx.x + 1) & 511];
		else
			atomicAdd(&data[block], tile[0]);
	});
}

KERNEL keeps_loop(IN, unsigned long long *sums)
{
	gpurt_sm_run(range, control, [=](unsigned int block) {
		for (unsigned int i = 0; i < data[block] && data[i] != 7; i++) {
			atomicAdd(sums + i, 1ULL);
			data[i] = block;
		}
		__syncthreads();
		if (threadIdx.x < 3)
			data[block] = 0;
	});
}

KERNEL strays_twice(IN)
{
	for (int i = 0; i < 2; i++)
		gpurt_sm_run(range, control, [=](unsigned int block) { MINE *= 3; });
}

KERNEL strays_beside(IN, bool anywhere)
{
	if (anywhere)
		data[blockIdx.x * 512 + threadIdx.x] = 1;
	else
		gpurt_sm_run(range, control, [=](unsigned int block) { MINE *= 3; });
}

KERNEL strays_before(IN)
{
	__shared__ unsigned int tile[512];

	tile[threadIdx.x] = data[threadIdx.x];
	__syncthreads();
	data[blockIdx.x * 512 + threadIdx.x] = tile[511 - threadIdx.x];
	gpurt_sm_run(range, control, [=](unsigned int block) { MINE *= 3; });
}

KERNEL strays_after(IN)
{
	__shared__ unsigned int tile[512];

	gpurt_sm_run(range, control, [=](unsigned int block) { MINE *= 3; });
	tile[threadIdx.x] = data[threadIdx.x];
	data[blockIdx.x] = 7;
	__syncthreads();
	atomicAdd(&data[blockIdx.x + 1], tile[511 - threadIdx.x]);
}

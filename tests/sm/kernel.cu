// SPDX-License-Identifier: GPL-2.0
// A kernel on given SMs, as a program has it.  THREADS: half of what an SM holds.
#if defined(__clang__) && !defined(__CUDACC__) && !defined(HEADERS)
#include "device_words.h"
#endif
#include "gpurt_sm.h"

extern "C" __global__ void __launch_bounds__(THREADS)
scale(struct gpurt_sm_range range, struct gpurt_sm_control *control, float *data)
{
	gpurt_sm_run(range, control, [=](unsigned int block) {
		data[block * THREADS + threadIdx.x] *= 2;
	});
}

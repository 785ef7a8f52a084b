// SPDX-License-Identifier: GPL-2.0 OR MIT
// Two kernels to be measured by `gpurt measure`: one that computes, and one that copies memory.  Replace them.
//
//	nvcc -I../include gpurt_measure.cu -lcuda -o kernels
//	hipcc -x hip -I../include gpurt_measure.cu -o kernels
//
// An H200 has executed it (docs/hardware).  With HIP it was compiled, but no GPU has executed it.
#include <gpurt_measure.h>

#ifdef __HIP__
#define CHECK_MALLOC(pointer, bytes) hipMalloc(pointer, bytes)
#else
#define CHECK_MALLOC(pointer, bytes) cudaMalloc(pointer, bytes)
#endif

static const unsigned int THREADS = 256, BLOCKS = 4096, STEPS = 4096;
static float *from, *to;

__global__ void compute(float *numbers)
{
	float value = (float)threadIdx.x;

	for (unsigned int i = 0; i < STEPS; i++)
		value = value * 1.0001f + 0.5f;
	numbers[blockIdx.x * THREADS + threadIdx.x] = value;
}

__global__ void copy(const float *source, float *target)
{
	for (unsigned int part = 0; part < 64; part++) {
		unsigned int at = (part * BLOCKS + blockIdx.x) * THREADS + threadIdx.x;

		target[at] = source[at];
	}
}

static void launch_compute(gpurt_measure_stream stream)
{
	compute<<<BLOCKS, THREADS, 0, stream>>>(to);
}

static void launch_copy(gpurt_measure_stream stream)
{
	copy<<<BLOCKS, THREADS, 0, stream>>>(from, to);
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)64 * BLOCKS * THREADS * sizeof(float);

	if (CHECK_MALLOC(&from, bytes) || CHECK_MALLOC(&to, bytes)) {
		fprintf(stderr, "%s: no GPU, or no memory on it\n", argv[0]);
		return 5;
	}
	return gpurt_measure_main(argc, argv, { { "compute", launch_compute }, { "copy", launch_copy } });
}

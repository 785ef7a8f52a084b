// SPDX-License-Identifier: GPL-2.0
/* Kernels of the fake driver, to be measured: one that uses all SMs, and one that 40 SMs saturate. */
#include <gpurt_measure.h>

extern "C" void fake_kernel(CUstream stream, double work, double floor, unsigned int memory);

static void compute(gpurt_measure_stream stream)
{
	fake_kernel(stream, 132e6, 0, 0);
}

static void copy(gpurt_measure_stream stream)
{
	fake_kernel(stream, 80e6, 2e6, 1);
}

int main(int argc, char **argv)
{
	return gpurt_measure_main(argc, argv, { { "compute", compute }, { "copy", copy } });
}

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The kernel of detector.c: nvcc -ptx detect.cu.  detect.ptx beside it is the same by hand, for drivers since 2017. */
extern "C" __global__ void detect(void)
{
	long long begin = clock64();

	while (clock64() - begin < 100000)	/* in place of work */
		;
}

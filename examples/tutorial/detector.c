/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The detector of docs/manual/tutorial.md, which knows nothing of gpurt: cc detector.c -lcuda -o detector */
#include <stdio.h>

#include <cuda.h>

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction detect;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context) ||
	    cuModuleLoad(&module, "detect.ptx") || cuModuleGetFunction(&detect, module, "detect")) {
		fputs("detector: no CUDA device, or no detect.ptx in this folder\n", stderr);
		return 1;
	}
	for (int frame = 0; frame < 20; frame++) {
		if (cuLaunchKernel(detect, 4000, 1, 1, 256, 1, 1, 0, 0, 0, 0) || cuCtxSynchronize())
			return 1;
	}
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 */
/* The part of CUDA's header that examples/tutorial/detector.c needs. */
#include <stddef.h>
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef void *CUmodule, *CUfunction;
typedef int CUresult, CUdevice;
CUresult cuInit(unsigned int flags);
CUresult cuDeviceGet(CUdevice *device, int number);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoad(CUmodule *module, const char *file);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads_x,
			unsigned int threads_y, unsigned int threads_z, unsigned int shared, CUstream stream, void **arguments,
			void **extra);

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The functions of the CUDA driver API that the probe needs.  It finds them in libcuda.so.1 at run time, so that it
 * builds without the CUDA toolkit.  The header cuda.h maps plain names to the symbols that end in _v2.
 */
#ifndef PROBE_CUDA_DRIVER_H
#define PROBE_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_pointer;
/* Contexts, modules, functions, streams. */
typedef void *cu_object;

#define CU_NOT_READY 600
#define CU_STREAM_NON_BLOCKING 1u
/* Mapped into the GPU's address space, and portable: every context may use it. */
#define CU_HOST_MAPPED 3u
#define CU_MANAGED_GLOBAL 1u
#define CU_ATTRIBUTE_SM_COUNT 16
#define CU_ATTRIBUTE_CC_MAJOR 75
#define CU_ATTRIBUTE_CC_MINOR 76
#define CU_ATTRIBUTE_PREEMPTION 90

/* The functions that the probe cannot do without: X(name in struct cuda, symbol, arguments). */
#define CUDA_NEEDED(X) \
	X(init, "cuInit", (unsigned int)) \
	X(driver_version, "cuDriverGetVersion", (int *)) \
	X(device_count, "cuDeviceGetCount", (int *)) \
	X(device_get, "cuDeviceGet", (cu_device *, int)) \
	X(device_name, "cuDeviceGetName", (char *, int, cu_device)) \
	X(device_attribute, "cuDeviceGetAttribute", (int *, int, cu_device)) \
	X(context_retain, "cuDevicePrimaryCtxRetain", (cu_object *, cu_device)) \
	X(context_set, "cuCtxSetCurrent", (cu_object)) \
	X(synchronize, "cuCtxSynchronize", (void)) \
	X(module_load, "cuModuleLoadData", (cu_object *, const void *)) \
	X(module_function, "cuModuleGetFunction", (cu_object *, cu_object, const char *)) \
	X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int *, cu_object, int, size_t)) \
	X(launch, "cuLaunchKernel", (cu_object, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
				     unsigned int, unsigned int, cu_object, void **, void **)) \
	X(stream_create, "cuStreamCreateWithPriority", (cu_object *, unsigned int, int)) \
	X(stream_synchronize, "cuStreamSynchronize", (cu_object)) \
	X(stream_query, "cuStreamQuery", (cu_object)) \
	X(memory_alloc, "cuMemAlloc_v2", (cu_pointer *, size_t)) \
	X(host_alloc, "cuMemHostAlloc", (void **, size_t, unsigned int)) \
	X(host_pointer, "cuMemHostGetDevicePointer_v2", (cu_pointer *, void *, unsigned int)) \
	X(set_words, "cuMemsetD32_v2", (cu_pointer, unsigned int, size_t)) \
	X(copy_out, "cuMemcpyDtoH_v2", (void *, cu_pointer, size_t)) \
	X(copy_out_async, "cuMemcpyDtoHAsync_v2", (void *, cu_pointer, size_t, cu_object)) \
	X(error_name, "cuGetErrorName", (cu_result, const char **))

/* NULL if the driver lacks them. */
#define CUDA_OPTIONAL(X) \
	X(managed_alloc, "cuMemAllocManaged", (cu_pointer *, size_t, unsigned int)) \
	X(context_create, "cuCtxCreate_v2", (cu_object *, unsigned int, cu_device)) \
	X(context_destroy, "cuCtxDestroy_v2", (cu_object))

#define CUDA_MEMBER(name, symbol, arguments) cu_result (*name) arguments;
struct cuda {
	CUDA_NEEDED(CUDA_MEMBER)
	CUDA_OPTIONAL(CUDA_MEMBER)
	cu_device device;
	cu_object context;
	int sm_count;
};

/* Filled by cuda_find(). */
extern struct cuda cu;

/* Finds the library and initialises it.  Returns NULL, or why no GPU can be used. */
const char *cuda_find(void);
/* Makes the first device's context current.  If that fails, writes an error record and ends the process. */
void cuda_open(void);
/* If @result is an error, writes an error record and ends the process. */
void cuda_need(cu_result result, const char *what);
const char *cuda_error(cu_result result);

cu_object cuda_stream(void);
/* Zeroed host memory that the GPU sees at *@device. */
void *cuda_mapped(size_t bytes, cu_pointer *device);

#endif

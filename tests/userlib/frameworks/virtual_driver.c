// SPDX-License-Identifier: GPL-2.0
/*
 * A libcuda.so.1 for Numba and PyCUDA: the functions that the programs of docs/frameworks.md need.  It compiles and loads
 * nothing.  Streams and launches are passed on to virtual_driver.py, which has them on the virtual GPU.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define INVALID_VALUE 1
#define INVALID_IMAGE 200
#define INVALID_CONTEXT 201
#define MAJOR 75			/* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, and _MINOR */
#define MINOR 76
#define MEMORY ((size_t)1 << 30)
#define UNUSED __attribute__((unused))

typedef unsigned long long pointer;
struct stream { uint32_t tsg; uint64_t last; };
struct gpu {
	uint32_t (*open)(void);
	uint64_t (*submit)(uint32_t tsg);
	void (*wait)(uint32_t tsg, uint64_t work);
};

static struct gpu gpu;
static int it;				/* the one context, module and function */
static _Thread_local void *current;

void virtual_gpu(const struct gpu *given) { gpu = *given; }

int cuInit(UNUSED unsigned int flags) { return OK; }
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuGetErrorName(UNUSED int error, const char **name) { *name = "an error"; return OK; }
int cuGetErrorString(UNUSED int error, const char **name) { *name = "an error"; return OK; }

int cuDeviceGetCount(int *n) { *n = 1; return OK; }
int cuDeviceGet(int *device, int number) { *device = number; return OK; }
int cuDeviceGetName(char *name, int size, UNUSED int device) { snprintf(name, (size_t)size, "virtual"); return OK; }
int cuDeviceGetUuid(char *uuid, UNUSED int device) { memset(uuid, 1, 16); return OK; }
int cuDeviceTotalMem_v2(size_t *size, UNUSED int device) { *size = MEMORY; return OK; }

int cuDeviceGetAttribute(int *value, int attribute, UNUSED int device)
{
	*value = attribute == MAJOR ? 8 : attribute == MINOR ? 0 : 1;
	return OK;
}

int cuDeviceComputeCapability(int *major, int *minor, UNUSED int device) { *major = 8; *minor = 0; return OK; }

int cuCtxCreate_v2(void **c, UNUSED unsigned int flags, UNUSED int device) { *c = current = &it; return OK; }
int cuCtxCreate_v4(void **c, UNUSED void *how, UNUSED unsigned int flags, UNUSED int device) { *c = current = &it; return OK; }
int cuCtxDestroy_v2(UNUSED void *c) { current = NULL; return OK; }
int cuCtxDetach(UNUSED void *c) { current = NULL; return OK; }
int cuCtxPushCurrent_v2(void *c) { current = c; return OK; }
int cuCtxPopCurrent_v2(void **c) { if (c) *c = current; current = NULL; return OK; }
int cuCtxGetCurrent(void **c) { *c = current; return OK; }
int cuCtxGetDevice(int *device) { *device = 0; return current ? OK : INVALID_CONTEXT; }
int cuDevicePrimaryCtxRetain(void **c, UNUSED int device) { *c = &it; return OK; }
int cuDevicePrimaryCtxRelease_v2(UNUSED int device) { return OK; }

int cuMemGetInfo_v2(size_t *unused, size_t *total) { *unused = *total = MEMORY; return OK; }
int cuMemAlloc_v2(pointer *at, size_t size) { *at = (uintptr_t)calloc(1, size); return OK; }
int cuMemFree_v2(pointer at) { free((void *)(uintptr_t)at); return OK; }

int cuIpcOpenMemHandle(void) { return INVALID_VALUE; }	/* Numba looks it up when it begins */

int cuMemcpyHtoDAsync_v2(pointer to, const void *from, size_t size, UNUSED struct stream *s)
{
	memcpy((void *)(uintptr_t)to, from, size);
	return OK;
}

/* Numba has what it compiled linked; PyCUDA loads what nvcc made of it. */
int cuLinkCreate_v2(UNUSED unsigned int n, UNUSED int *options, UNUSED void **values, void **link) { *link = &it; return OK; }

int cuLinkAddData_v2(UNUSED void *link, UNUSED int type, UNUSED void *data, UNUSED size_t size, UNUSED const char *name,
		     UNUSED unsigned int n, UNUSED int *options, UNUSED void **values)
{
	return OK;
}

int cuLinkComplete(UNUSED void *link, const void **image, size_t *size) { *image = "\177ELF"; *size = 4; return OK; }
int cuLinkDestroy(UNUSED void *link) { return OK; }

int cuModuleLoadDataEx(void **module, const void *image, UNUSED unsigned int n, UNUSED int *options, UNUSED void **values)
{
	*module = &it;
	return memcmp(image, "\177ELF", 4) ? INVALID_IMAGE : OK;
}

int cuModuleUnload(UNUSED void *module) { return OK; }
int cuModuleGetFunction(void **f, UNUSED void *module, UNUSED const char *name) { *f = &it; return OK; }
int cuFuncGetAttribute(int *value, UNUSED int attribute, UNUSED void *f) { *value = 0; return OK; }
int cuFuncSetBlockShape(UNUSED void *f, UNUSED int x, UNUSED int y, UNUSED int z) { return OK; }
int cuFuncSetSharedSize(UNUSED void *f, UNUSED unsigned int size) { return OK; }

int cuStreamCreate(struct stream **made, UNUSED unsigned int flags)
{
	*made = calloc(1, sizeof(**made));
	(*made)->tsg = gpu.open();
	return current ? OK : INVALID_CONTEXT;
}

int cuStreamDestroy_v2(struct stream *s) { free(s); return OK; }

int cuStreamSynchronize(struct stream *s)
{
	if (s->last)
		gpu.wait(s->tsg, s->last);
	return OK;
}

int cuLaunchKernel(UNUSED void *f, UNUSED unsigned int gx, UNUSED unsigned int gy, UNUSED unsigned int gz, unsigned int bx,
		   UNUSED unsigned int by, UNUSED unsigned int bz, UNUSED unsigned int shared, struct stream *s,
		   UNUSED void **parameters, UNUSED void **extra)
{
	s->last = gpu.submit(s->tsg);
	return bx == 64 ? OK : INVALID_VALUE;
}

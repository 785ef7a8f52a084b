// SPDX-License-Identifier: GPL-2.0
/*
 * A libdrm_amdgpu.so.1 that asks no driver: what libhsakmt of ROCm 6 and ROCr call of it before a queue is made.  The real one
 * asks /dev/dri for what the fake has not.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct device { int fd; };

/* As the real one: the caller may close its descriptor. */
EXPORT int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, struct device **made)
{
	*made = calloc(1, sizeof(**made));
	(*made)->fd = dup(fd);
	*major = 3;
	*minor = 54;
	return (*made)->fd < 0 ? -errno : 0;
}

EXPORT int amdgpu_device_deinitialize(struct device *device)
{
	close(device->fd);
	free(device);
	return 0;
}

EXPORT int amdgpu_device_get_fd(struct device *device) { return device->fd; }
EXPORT const char *amdgpu_get_marketing_name(struct device *device) { (void)device; return "fake"; }

/* The first members of struct amdgpu_gpu_info, for HIP: the topology's GPUs are of Vega 20. */
EXPORT int amdgpu_query_gpu_info(struct device *device, void *info)
{
	static const struct { uint32_t asic, revision, external_revision, family; } vega20 = { 0x66a1, 0, 0x28, 141 };

	(void)device;
	memcpy(info, &vega20, sizeof(vega20));
	return 0;
}

#define LACKING(name) EXPORT int name(void) { return -ENOSYS; }
LACKING(amdgpu_bo_cpu_map)
LACKING(amdgpu_bo_export)
LACKING(amdgpu_bo_free)
LACKING(amdgpu_bo_import)
LACKING(amdgpu_bo_query_info)
LACKING(amdgpu_bo_set_metadata)
LACKING(amdgpu_bo_va_op)

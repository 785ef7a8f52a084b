/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A libcuda.so.1 for tests of what a GPU offers.  As the driver's, it answers nothing before cuInit() and checks devices;
 * it knows a few attributes only.  A context must not be created: it has no function for that.
 *
 * Calls of fake_gpu() configure it: one GPU, number 0.  Calls of fake_clusters() say of what parts its SMs are.  A
 * group is in one of the parts, as on an H200 (132 SMs, 15 groups of 8); without such a call all SMs are one part.
 */
#include <stdio.h>

enum { SUCCESS, INVALID_VALUE, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };
enum { COUNT = 16, MAJOR = 75, MINOR = 76 };
enum { HANDLE = 7 }; /* what stands for device 0 */

static int units, major, minor, there, ready;

/* Without a GPU, cuInit() says so. */
void fake_gpu(int count, int capability_major, int capability_minor, int has_gpu)
{
	units = count;
	major = capability_major;
	minor = capability_minor;
	there = has_gpu;
	ready = 0;
}

static const int *clusters;
static int cluster_count;

void fake_clusters(const int *sizes, int count)
{
	clusters = sizes;
	cluster_count = count;
}

struct resource { int type; unsigned char padding[92]; unsigned int units; };

int cuDeviceGetDevResource(int device, struct resource *out, int type)
{
	if (!ready)
		return NOT_INITIALIZED;
	if (device != HANDLE || type != 1)
		return INVALID_VALUE;
	out->type = type;
	out->units = (unsigned int)units;
	return SUCCESS;
}

int cuDevSmResourceSplitByCount(struct resource *out, unsigned int *count, const struct resource *in, struct resource *rest,
				unsigned int flags, unsigned int size)
{
	int i;

	if (out || rest || flags || in->type != 1 || !size)
		return INVALID_VALUE;
	*count = cluster_count ? 0 : in->units / size;
	for (i = 0; i < cluster_count; i++)
		*count += (unsigned int)clusters[i] / size;
	return SUCCESS;
}

int cuInit(unsigned int flags)
{
	if (flags)
		return INVALID_VALUE;
	if (!there)
		return NO_DEVICE;
	ready = 1;
	return SUCCESS;
}

int cuDeviceGetCount(int *out)
{
	if (!ready)
		return NOT_INITIALIZED;
	*out = 1;
	return SUCCESS;
}

int cuDeviceGet(int *out, int number)
{
	if (!ready)
		return NOT_INITIALIZED;
	if (number)
		return INVALID_DEVICE;
	*out = HANDLE;
	return SUCCESS;
}

int cuDeviceGetName(char *out, int room, int device)
{
	if (!ready)
		return NOT_INITIALIZED;
	if (device != HANDLE)
		return INVALID_DEVICE;
	snprintf(out, (size_t)room, "Fake\033[31m GPU");
	return SUCCESS;
}

int cuDeviceGetAttribute(int *out, int which, int device)
{
	if (!ready)
		return NOT_INITIALIZED;
	if (device != HANDLE)
		return INVALID_DEVICE;
	if (which != COUNT && which != MAJOR && which != MINOR)
		return INVALID_VALUE;
	*out = which == COUNT ? units : which == MAJOR ? major : minor;
	return SUCCESS;
}

int cuGetErrorName(int code, const char **out)
{
	*out = code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : code == INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE" : NULL;
	return *out ? SUCCESS : INVALID_VALUE;
}

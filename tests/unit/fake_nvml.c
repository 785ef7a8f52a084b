/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A libnvidia-ml.so.1 for tests, as strict as NVML's documentation.  Nothing works before nvmlInit and after the last
 * nvmlShutdown, handles and pointers are checked, and buffers must be large enough.  fake_* configure it.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
/* MIG as a GPU has it; NO_PLACES: its user may not ask for placements; NO_SMS: a profile without SMs. */
enum mig { NO_MIG, MIG, NO_PLACES, NO_SMS };
struct profile_info {
	unsigned int id, p2p, slices, instances, sms, copy, decoders, encoders, jpeg, ofa;
	unsigned long long megabytes;
};
_Static_assert(sizeof(struct profile_info) == 48, "nvmlGpuInstanceProfileInfo_t");
struct placement {
	unsigned int start, size;
};
#define KINDS 10
/* The profiles of an A100 with 40 GB, by NVML's numbers of profiles, as NVIDIA's guide to MIG lists them. */
static const struct profile {
	struct profile_info info;
	unsigned int count;
	struct placement places[7];
} profiles[KINDS] = {
	[0] = {{19, 0, 1, 7, 14, 1, 0, 0, 0, 0, 4864}, 7, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}},
	[1] = {{14, 0, 2, 3, 28, 2, 1, 0, 0, 0, 9856}, 3, {{0, 2}, {2, 2}, {4, 2}}},
	[2] = {{9, 0, 3, 2, 42, 3, 2, 0, 0, 0, 19968}, 2, {{0, 4}, {4, 4}}},
	[3] = {{5, 0, 4, 1, 56, 4, 2, 0, 0, 0, 19968}, 1, {{0, 4}}},
	[4] = {{0, 0, 7, 1, 98, 7, 5, 0, 1, 1, 40192}, 1, {{0, 8}}},
	[7] = {{20, 0, 1, 1, 14, 1, 1, 0, 1, 1, 4864}, 7, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}},
	[9] = {{15, 0, 1, 4, 14, 1, 1, 0, 0, 0, 9856}, 4, {{0, 2}, {2, 2}, {4, 2}, {6, 2}}},
};

#define MOST 4
struct fake_gpu {
	int mig; /* an enum mig */
};
static struct fake_gpu gpus[MOST];
static unsigned int count;
static int loaded = 1, initialised;

void fake_reset(unsigned int gpu_count, int driver)
{
	memset(gpus, 0, sizeof(gpus));
	count = gpu_count;
	loaded = driver;
	initialised = 0;
}

__attribute__((constructor)) static void begin(void)
{
	fake_reset(1, 1);
}

void fake_mig(unsigned int gpu, int mig)
{
	gpus[gpu].mig = mig;
}

static struct fake_gpu *of(void *handle)
{
	for (unsigned int i = 0; i < count; i++)
		if (handle == &gpus[i])
			return &gpus[i];
	return NULL;
}

static int checked(void *handle, const void *out)
{
	if (!initialised)
		return UNINITIALIZED;
	return of(handle) && out ? SUCCESS : INVALID_ARGUMENT;
}

const char *nvmlErrorString(int code)
{
	switch (code) {
	case SUCCESS: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case INVALID_ARGUMENT: return "Invalid Argument";
	case NOT_SUPPORTED: return "Not Supported";
	case NO_PERMISSION: return "Insufficient Permissions";
	case INSUFFICIENT_SIZE: return "Insufficient Size";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	}
	return "Unknown Error";
}

int nvmlInitWithFlags(unsigned int flags)
{
	if (flags & ~3u)
		return INVALID_ARGUMENT;
	if (!loaded)
		return DRIVER_NOT_LOADED;
	initialised++;
	return SUCCESS;
}

int nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
	if (!initialised)
		return UNINITIALIZED;
	initialised--;
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *out)
{
	if (!initialised)
		return UNINITIALIZED;
	if (!out)
		return INVALID_ARGUMENT;
	*out = count;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **out)
{
	if (!initialised)
		return UNINITIALIZED;
	if (!out || index >= count)
		return INVALID_ARGUMENT;
	*out = &gpus[index];
	return SUCCESS;
}

static int text(void *handle, char *out, unsigned int length, unsigned int least, const char *form)
{
	int result = checked(handle, out);

	if (result)
		return result;
	if (length < least)
		return INSUFFICIENT_SIZE;
	snprintf(out, length, form, (unsigned int)(of(handle) - gpus));
	return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *out, unsigned int length)
{
	return text(handle, out, length, 64, "Fake %u");
}

int nvmlDeviceGetGpuInstanceProfileInfo(void *handle, unsigned int kind, struct profile_info *info)
{
	int result = checked(handle, info);

	if (result)
		return result;
	if (kind >= KINDS)
		return INVALID_ARGUMENT; /* a driver that is older than the profile */
	if (!of(handle)->mig || !profiles[kind].count)
		return NOT_SUPPORTED;
	*info = profiles[kind].info;
	if (of(handle)->mig == NO_SMS)
		info->sms = 0;
	return SUCCESS;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *handle, unsigned int id, struct placement *out,
						  unsigned int *room)
{
	int result = checked(handle, room);

	if (result)
		return result;
	if (of(handle)->mig == NO_PLACES)
		return NO_PERMISSION;
	for (unsigned int kind = 0; kind < KINDS; kind++) {
		const struct profile *one = &profiles[kind];

		if (!one->count || one->info.id != id)
			continue;
		if (out && *room < one->count)
			return INSUFFICIENT_SIZE;
		*room = one->count;
		if (out)
			memcpy(out, one->places, one->count * sizeof(*out));
		return SUCCESS;
	}
	return INVALID_ARGUMENT;
}

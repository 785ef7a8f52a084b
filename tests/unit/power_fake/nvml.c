/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A libnvidia-ml.so.1 for tests, as strict as NVML's documentation.  Nothing works before nvmlInit and after the last
 * nvmlShutdown, handles and pointers are checked, and buffers must be large enough.  Parts without an energy counter
 * say "not supported".  A field has a result of its own, without which its value means nothing.
 *
 * fake_* configure it.  Its counter grows with CLOCK_MONOTONIC, in steps.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
       GPU_IS_LOST = 15 };
enum { TYPE_UNSIGNED_INT = 1 };
enum { POWER_AVERAGE = 185, POWER_INSTANT = 186 };

struct field_value {
	unsigned int id, scope;
	long long timestamp, latency;
	int type, result;
	union { double d; unsigned int ui; unsigned long long ull; } value;
};
_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

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
	int energy, power, fields; /* whether it has them */
	unsigned int milliwatts;
	long long step_ns, stop_ns; /* the counter's; stop_ns: it stands still from then on, 0: never */
	long reads_left; /* then the GPU is lost; -1: never */
	int mig; /* an enum mig */
};
static struct fake_gpu gpus[MOST];
static unsigned int count;
static int loaded = 1, initialised;
static long long epoch;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void fake_reset(unsigned int gpu_count, int driver)
{
	memset(gpus, 0, sizeof(gpus));
	count = gpu_count;
	loaded = driver;
	initialised = 0;
	epoch = now_ns();
	for (unsigned int i = 0; i < MOST; i++)
		gpus[i] = (struct fake_gpu){1, 1, 1, 100000 * (i + 1), 2000000, 0, -1, 0};
}

__attribute__((constructor)) static void begin(void)
{
	fake_reset(1, 1);
}

void fake_has(unsigned int gpu, int energy, int power, int fields)
{
	gpus[gpu].energy = energy;
	gpus[gpu].power = power;
	gpus[gpu].fields = fields;
}

void fake_counter(unsigned int gpu, long long step_ns, long long stop_after_ns)
{
	gpus[gpu].step_ns = step_ns;
	gpus[gpu].stop_ns = stop_after_ns ? now_ns() + stop_after_ns : 0;
}

void fake_lose_after(unsigned int gpu, long reads)
{
	gpus[gpu].reads_left = reads;
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

static int a_read(struct fake_gpu *gpu)
{
	if (!gpu->reads_left)
		return GPU_IS_LOST;
	if (gpu->reads_left > 0)
		gpu->reads_left--;
	return SUCCESS;
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
	case GPU_IS_LOST: return "GPU is lost";
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

int nvmlDeviceGetUUID(void *handle, char *out, unsigned int length)
{
	return text(handle, out, length, 80, "GPU-00000000-0000-0000-0000-%012u");
}

int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *out)
{
	int result = checked(handle, out);
	long long now = now_ns();
	struct fake_gpu *gpu;

	if (result)
		return result;
	gpu = of(handle);
	if (!gpu->energy)
		return NOT_SUPPORTED;
	result = a_read(gpu);
	if (result)
		return result;
	if (gpu->stop_ns && now > gpu->stop_ns)
		now = gpu->stop_ns;
	*out = (unsigned long long)((now - epoch) / gpu->step_ns * gpu->step_ns / 1000000 * gpu->milliwatts / 1000);
	return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned int *out)
{
	int result = checked(handle, out);

	if (result)
		return result;
	if (!of(handle)->power)
		return NOT_SUPPORTED;
	result = a_read(of(handle));
	if (!result)
		*out = of(handle)->milliwatts;
	return result;
}

int nvmlDeviceGetFieldValues(void *handle, int values_count, struct field_value *values)
{
	int result = checked(handle, values);

	if (result)
		return result;
	if (values_count < 1)
		return INVALID_ARGUMENT;
	for (int i = 0; i < values_count; i++) {
		struct field_value *one = &values[i];

		one->value.ull = 0xdeadbeefULL; /* undefined, unless it says success */
		one->type = 0;
		if (one->id != POWER_AVERAGE && one->id != POWER_INSTANT)
			one->result = INVALID_ARGUMENT;
		else if (!of(handle)->fields || one->scope)
			one->result = NOT_SUPPORTED;
		else
			one->result = a_read(of(handle));
		if (one->result)
			continue;
		one->type = TYPE_UNSIGNED_INT;
		one->value.ui = of(handle)->milliwatts + (one->id == POWER_INSTANT ? now_ns() / 1000 % 1000 : 0);
	}
	return SUCCESS;
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

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A libnvidia-ml.so.1 for tests, as strict as NVML's documentation: nothing works before nvmlInit and after the last
 * nvmlShutdown, handles and pointers are checked, buffers must be large enough, parts without an energy counter say
 * "not supported", and a field has a result of its own, without which its value means nothing.
 *
 * fake_* configure it.  Its counter grows with CLOCK_MONOTONIC, in steps.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
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

#define MOST 4
struct fake_gpu {
	int energy, power, fields; /* whether it has them */
	unsigned int milliwatts;
	long long step_ns, stop_ns; /* the counter's; stop_ns: it stands still from then on, 0: never */
	long reads_left; /* then the GPU is lost; -1: never */
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
		gpus[i] = (struct fake_gpu){1, 1, 1, 100000 * (i + 1), 2000000, 0, -1};
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

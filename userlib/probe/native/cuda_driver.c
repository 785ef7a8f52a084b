// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "emit.h"

struct cuda cu;

struct wanted {
	const char *symbol;
	size_t offset;
	bool needed;
};

#define WANT_NEEDED(name, symbol, arguments) { symbol, offsetof(struct cuda, name), true },
#define WANT_OPTIONAL(name, symbol, arguments) { symbol, offsetof(struct cuda, name), false },
static const struct wanted wanted[] = {
	CUDA_NEEDED(WANT_NEEDED)
	CUDA_OPTIONAL(WANT_OPTIONAL)
};

static const char *missing_symbol(void *library)
{
	size_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *found = dlsym(library, wanted[i].symbol);

		if (!found && wanted[i].needed)
			return wanted[i].symbol;
		memcpy((char *)&cu + wanted[i].offset, &found, sizeof(found));
	}
	return NULL;
}

const char *cuda_find(void)
{
	static char why[160];
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	const char *missing;
	cu_result result;
	int count = 0;

	if (!library)
		return "libcuda.so.1 cannot be loaded";
	missing = missing_symbol(library);
	if (missing) {
		snprintf(why, sizeof(why), "libcuda.so.1 has no %s", missing);
		return why;
	}
	result = cu.init(0);
	if (!result)
		result = cu.device_count(&count);
	if (!result && count)
		return NULL;
	snprintf(why, sizeof(why), "the CUDA driver finds no GPU: %s", cuda_error(result));
	return why;
}

const char *cuda_error(cu_result result)
{
	const char *name = NULL;

	if (!cu.error_name || cu.error_name(result, &name) || !name)
		return "unknown error";
	return name;
}

void cuda_need(cu_result result, const char *what)
{
	if (!result)
		return;
	emit_error(what, cuda_error(result));
	exit(1);
}

void cuda_open(void)
{
	const char *why = cuda_find();

	if (why) {
		emit_error("CUDA", why);
		exit(1);
	}
	cuda_need(cu.device_get(&cu.device, 0), "cuDeviceGet");
	cuda_need(cu.context_retain(&cu.context, cu.device), "cuDevicePrimaryCtxRetain");
	cuda_need(cu.context_set(cu.context), "cuCtxSetCurrent");
	cuda_need(cu.device_attribute(&cu.sm_count, CU_ATTRIBUTE_SM_COUNT, cu.device), "cuDeviceGetAttribute");
}

cu_object cuda_stream(void)
{
	cu_object stream;

	cuda_need(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING, 0), "cuStreamCreateWithPriority");
	return stream;
}

void *cuda_mapped(size_t bytes, cu_pointer *device)
{
	void *host;

	cuda_need(cu.host_alloc(&host, bytes, CU_HOST_MAPPED), "cuMemHostAlloc");
	memset(host, 0, bytes);
	cuda_need(cu.host_pointer(device, host, 0), "cuMemHostGetDevicePointer");
	return host;
}

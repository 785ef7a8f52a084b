// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The GPU, and the RM objects that a CUDA process allocates on it. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_driver.h"
#include "emit.h"
#include "kernels.h"
#include "parts.h"
#include "rm_control.h"

#define MANY 4096

static int attribute(int which)
{
	int value = -1;

	cu.device_attribute(&value, which, cu.device);
	return value;
}

int part_info(const struct options *options)
{
	const char *why = cuda_find();
	char name[128] = "";
	int version = 0;

	(void)options;
	if (why) {
		emit_error("GPU", why);
		return 4;
	}
	cuda_need(cu.device_get(&cu.device, 0), "cuDeviceGet");
	cuda_need(cu.device_name(name, sizeof(name), cu.device), "cuDeviceGetName");
	cu.driver_version(&version);
	emit_open("gpu");
	emit_text("name", name);
	emit_number("cuda", version);
	emit_number("sm_count", attribute(CU_ATTRIBUTE_SM_COUNT));
	emit_number("cc_major", attribute(CU_ATTRIBUTE_CC_MAJOR));
	emit_number("cc_minor", attribute(CU_ATTRIBUTE_CC_MINOR));
	emit_number("compute_preemption", attribute(CU_ATTRIBUTE_PREEMPTION));
	emit_close();
	return 0;
}

static void tell_object(const struct rm_object *object)
{
	emit_open("object");
	emit_handle("client", object->client);
	emit_handle("parent", object->parent);
	emit_handle("handle", object->handle);
	emit_handle("class", object->class);
	emit_number("params_size", object->size);
	emit_number("engine", object->engine);
	emit_number("id", object->id);
	emit_number("live", object->live);
	emit_number("fd", object->fd);
	emit_close();
}

static void tell_group(struct rm_tsg *tsg)
{
	uint64_t channels[RM_CHANNELS_MAX], slice_us = 0;
	uint32_t i, id = 0, level = 0;

	for (i = 0; i < tsg->channel_count; i++)
		channels[i] = tsg->channels[i];
	emit_open("group");
	emit_handle("handle", tsg->handle);
	emit_number("params_size", tsg->size);
	emit_number("engine", tsg->engine);
	emit_number("compute", tsg->compute);
	emit_handle("subdevice", tsg->subdevice);
	emit_number("gpu_instance", tsg->gpu_instance);
	emit_numbers("channels", channels, tsg->channel_count);
	emit_number("get_info_status", rm_get_info(tsg, &id));
	emit_number("id", id);
	emit_number("get_timeslice_status", rm_get_timeslice(tsg, &slice_us));
	emit_number("timeslice_us", (long long)slice_us);
	emit_number("get_interleave_status", rm_get_interleave(tsg, &level));
	emit_number("interleave", level);
	emit_close();
}

static void tell_controls(void)
{
	static struct rm_seen seen[512];
	size_t i, count = rm_controls_seen(seen, 512);

	for (i = 0; i < count; i++) {
		emit_open("control_seen");
		emit_handle("cmd", seen[i].cmd);
		emit_number("size", seen[i].size);
		emit_handle("status", seen[i].status);
		emit_number("count", seen[i].count);
		emit_close();
	}
}

/* First makes a stream of each kind and launches into it, because libcuda allocates some objects only then. */
int part_objects(const struct options *options)
{
	struct rm_object *objects = calloc(MANY, sizeof(*objects));
	struct rm_tsg tsgs[32];
	struct kernels kernels;
	size_t i, count;

	(void)options;
	cuda_open();
	kernels_load(&kernels);
	launch_clock(&kernels, cuda_stream(0), 1, beat_new(), 1000000, 10000);
	launch_clock(&kernels, cuda_stream(-1), 1, beat_new(), 1000000, 10000);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	count = objects ? rm_objects(objects, MANY) : 0;
	for (i = 0; i < count; i++)
		tell_object(&objects[i]);
	count = rm_tsgs(tsgs, 32);
	for (i = 0; i < count; i++)
		tell_group(&tsgs[i]);
	tell_controls();
	free(objects);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Green contexts: the cost of making one and of switching between two, and how well they isolate work. */
#include "busy.h"
#include "critical.h"
#include "emit.h"
#include "parts.h"

#define MAKES 50
#define SWITCHES 1000
#define SMALL_SMS 8

struct green {
	cu_object green, context, stream;
	/* Loaded in this context, because not every driver accepts functions of another context. */
	struct kernels kernels;
	unsigned int sm_count;
};

struct halves {
	struct cu_resource small, rest;
};

static cu_result split(struct halves *halves)
{
	struct cu_resource whole = { 0 };
	unsigned int groups = 1;
	cu_result result = cu.device_resource(cu.device, &whole, CU_RESOURCE_SM);

	if (result)
		return result;
	return cu.resource_split(&halves->small, &groups, &whole, &halves->rest, 0, SMALL_SMS);
}

static cu_result make(struct green *green, struct cu_resource *resource)
{
	cu_object description;
	cu_result result = cu.resource_describe(&description, resource, 1);

	green->sm_count = resource->sm_count;
	if (!result)
		result = cu.green_create(&green->green, description, cu.device, CU_GREEN_DEFAULT_STREAM);
	if (!result)
		result = cu.green_context(&green->context, green->green);
	if (!result)
		result = cu.green_stream(&green->stream, green->green, CU_STREAM_NON_BLOCKING, 0);
	return result;
}

static void tell_making(struct halves *halves)
{
	uint64_t create[MAKES], destroy[MAKES], begun;
	struct green green;
	cu_result result = 0;
	int i;

	for (i = 0; i < MAKES && !result; i++) {
		begun = now_ns();
		result = make(&green, &halves->small);
		create[i] = now_ns() - begun;
		begun = now_ns();
		if (!result)
			result = cu.green_destroy(green.green);
		destroy[i] = now_ns() - begun;
	}
	emit_open("green");
	emit_text("what", "create and destroy");
	emit_text("result", result ? cuda_error(result) : "ok");
	emit_number("sm_count", halves->small.sm_count);
	emit_number("rest_sm_count", halves->rest.sm_count);
	emit_numbers("create_ns", create, (size_t)i);
	emit_numbers("destroy_ns", destroy, (size_t)i);
	emit_close();
}

/* Runs short kernels in @first and @second by turns.  If both are the same, this is the cost without a switch. */
static void tell_switching(const struct green *first, const struct green *second, const char *what)
{
	static uint64_t set[SWITCHES], all[SWITCHES];
	struct mapped_beat beat = beat_new();
	const struct green *green;
	uint64_t begun;
	int i;

	for (i = 0; i < SWITCHES; i++) {
		green = i & 1 ? second : first;
		begun = now_ns();
		cuda_need(cu.context_set(green->context), "cuCtxSetCurrent");
		set[i] = now_ns() - begun;
		launch_clock(&green->kernels, green->stream, 1, beat, 1000, 20000);
		cuda_need(cu.stream_synchronize(green->stream), "cuStreamSynchronize");
		all[i] = now_ns() - begun;
	}
	cuda_need(cu.context_set(cu.context), "cuCtxSetCurrent");
	emit_open("green");
	emit_text("what", what);
	emit_numbers("set_ns", set, SWITCHES);
	emit_numbers("launch_ns", all, SWITCHES);
	emit_close();
}

static void tell_isolation(const struct green *small, const struct green *rest, const char *what)
{
	static struct crew_seat seat;
	struct busy busy;

	if (rest)
		busy_start_on(&busy, &rest->kernels, rest->kernels.clock_blocks * BUSY_LONG_WAVES, BUSY_LONG_NS,
			      rest->context, rest->stream, rest->stream);
	cuda_need(cu.context_set(small->context), "cuCtxSetCurrent");
	critical_run(&small->kernels, small->stream, &seat);
	cuda_need(cu.context_set(cu.context), "cuCtxSetCurrent");
	if (rest)
		busy_stop(&busy);
	emit_open("green");
	emit_text("what", what);
	emit_number("sm_count", small->sm_count);
	emit_numbers("ns", seat.values, seat.count);
	emit_close();
}

static void load_kernels(struct green *green)
{
	cuda_need(cu.context_set(green->context), "cuCtxSetCurrent");
	kernels_load(&green->kernels);
	cuda_need(cu.context_set(cu.context), "cuCtxSetCurrent");
}

static int with_both(struct halves *halves)
{
	struct green small, rest, whole = { .context = cu.context, .stream = cuda_stream(0),
					    .sm_count = (unsigned int)cu.sm_count };
	cu_result result = make(&small, &halves->small);

	if (!result)
		result = make(&rest, &halves->rest);
	if (result) {
		emit_error("green contexts, two at once", cuda_error(result));
		return 1;
	}
	load_kernels(&small);
	load_kernels(&rest);
	load_kernels(&whole);
	tell_switching(&small, &small, "launches in one");
	tell_switching(&small, &rest, "launches by turns in two");
	tell_isolation(&small, NULL, "critical kernel in one, the other empty");
	tell_isolation(&small, &rest, "critical kernel in one, the other full");
	tell_isolation(&small, &whole, "critical kernel in one, the whole GPU full");
	return 0;
}

int part_partition(const struct options *options)
{
	struct halves halves = { .small = { 0 } };
	cu_result result;

	(void)options;
	cuda_open();
	if (!cu.device_resource || !cu.resource_split || !cu.resource_describe || !cu.green_create ||
	    !cu.green_destroy || !cu.green_context || !cu.green_stream) {
		emit_error("green contexts", "this driver has none (they came with CUDA 12.4)");
		return 0;
	}
	result = split(&halves);
	if (result) {
		emit_error("green contexts", cuda_error(result));
		return 0;
	}
	tell_making(&halves);
	return with_both(&halves);
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Response times of a short periodic kernel: alone, against other processes, against a stream of its own process. */
#include "busy.h"
#include "critical.h"
#include "emit.h"
#include "parts.h"

#define LATENCY_LIMIT_S 25

struct scene {
	const char *name;
	int others;			/* processes with long kernels */
	bool own_stream;		/* long kernels in another stream of the measuring process */
	bool prioritised;		/* the short kernel in a high-priority stream */
};

static const struct scene scenes[] = {
	{ "alone", 0, false, false },
	{ "against 1 process", 1, false, false },
	{ "against 3 processes", 3, false, false },
	{ "against 1 process, high-priority stream", 1, false, true },
	{ "against a stream of its own", 0, true, false },
	{ "against a stream of its own, high-priority stream", 0, true, true },
};

static void measure(struct crew *crew, const struct scene *scene, const struct kernels *kernels)
{
	struct crew_seat *seat = &crew->seat[0];
	int least = 0, greatest = 0;
	struct busy busy;

	cuda_need(cu.priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
	if (scene->own_stream)
		busy_start_long(&busy, kernels, least);
	if (crew_meet(crew))
		critical_run(kernels, cuda_stream(scene->prioritised ? greatest : least), seat);
	crew->over = true;
	if (scene->own_stream)
		busy_stop(&busy);
}

static void run(struct crew *crew, int index, const void *argument)
{
	const struct scene *scene = argument;
	struct kernels kernels;

	cuda_open();
	kernels_load(&kernels);
	if (index)
		critical_rival(crew, &kernels);
	else
		measure(crew, scene, &kernels);
}

static void tell(const struct crew *crew, const void *argument)
{
	const struct scene *scene = argument;

	emit_open("latency");
	emit_text("scene", scene->name);
	emit_number("kernel_ns", CRITICAL_KERNEL_NS);
	emit_number("period_ns", CRITICAL_PERIOD_NS);
	emit_numbers("ns", crew->seat[0].values, crew->seat[0].count);
	emit_close();
}

int part_latency(const struct options *options)
{
	size_t i;

	(void)options;
	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		crew_run(1 + scenes[i].others, run, &scenes[i], LATENCY_LIMIT_S, tell);
	return 0;
}

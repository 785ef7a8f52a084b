// SPDX-License-Identifier: GPL-2.0 OR MIT
/* MPS percentages, if an MPS daemon runs already.  The probe starts and changes no daemon. */
#include <stdio.h>
#include <stdlib.h>

#include "critical.h"
#include "emit.h"
#include "parts.h"

#define MPS_LIMIT_S 20

struct scene {
	int others;	/* processes with long kernels, which have the rest of the GPU */
	int percent;	/* of the GPU, for the measuring process */
};

/* A process gets its share when it makes its context, so changing the share costs as much as a new context. */
static void run(struct crew *crew, int index, const void *argument)
{
	struct crew_seat *seat = &crew->seat[index];
	const struct scene *scene = argument;
	struct kernels kernels;
	char percent[12];
	uint64_t begun;

	snprintf(percent, sizeof(percent), "%d", index ? 100 - scene->percent : scene->percent);
	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, 1);
	begun = now_ns();
	cuda_open();
	seat->start = now_ns() - begun;
	seat->end = (uint64_t)cu.sm_count;
	kernels_load(&kernels);
	if (index) {
		critical_rival(crew, &kernels);
		return;
	}
	if (crew_meet(crew))
		critical_run(&kernels, cuda_stream(0), seat);
	crew->over = true;
}

static void tell(const struct crew *crew, const void *argument)
{
	const struct scene *scene = argument;

	emit_open("mps");
	emit_number("percent", scene->percent);
	emit_number("others", scene->others);
	emit_number("sm_count", (long long)crew->seat[0].end);
	emit_number("context_ns", (long long)crew->seat[0].start);
	emit_numbers("ns", crew->seat[0].values, crew->seat[0].count);
	emit_close();
}

int part_mps(const struct options *options)
{
	static const struct scene scenes[] = { { 0, 100 }, { 0, 25 }, { 1, 50 }, { 1, 25 } };
	size_t i;

	(void)options;
	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		crew_run(1 + scenes[i].others, run, &scenes[i], MPS_LIMIT_S, tell);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/* MPS percentages, where a daemon runs already: none is started or changed here. */
#include <stdio.h>
#include <stdlib.h>

#include "busy.h"
#include "critical.h"
#include "emit.h"
#include "parts.h"

#define LIMIT_S 20
#define LONG_NS 2000000u

struct scene {
	int others;
	int percent;
};

static void load_gpu(struct crew *crew, const struct kernels *kernels)
{
	struct busy busy;

	busy_start(&busy, kernels, kernels->clock_blocks * 8, LONG_NS, 0);
	if (crew_meet(crew))
		while (!crew->over)
			sleep_ns(1000000);
	busy_stop(&busy);
}

/* The share is fixed when a process makes its context: switching shares costs what making a context costs. */
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
		load_gpu(crew, &kernels);
		return;
	}
	if (crew_meet(crew))
		critical_run(&kernels, cuda_stream(0), seat);
	crew->over = true;
}

int part_mps(const struct options *options)
{
	static const struct scene scenes[] = { { 0, 100 }, { 0, 25 }, { 1, 50 }, { 1, 25 } };
	struct crew *crew;
	size_t i;

	(void)options;
	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		crew = crew_run(1 + scenes[i].others, run, &scenes[i], LIMIT_S);
		if (!crew)
			continue;
		emit_open("mps");
		emit_number("percent", scenes[i].percent);
		emit_number("others", scenes[i].others);
		emit_number("sm_count", (long long)crew->seat[0].end);
		emit_number("context_ns", (long long)crew->seat[0].start);
		emit_numbers("ns", crew->seat[0].values, crew->seat[0].count);
		emit_close();
		crew_free(crew);
	}
	return 0;
}

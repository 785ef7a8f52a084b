// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Two and four processes whose kernels never yield the GPU.  Measures how long the driver lets each process run, and
 * how long no process runs between two.  All kernels read the same clock, the GPU's.
 */
#include <string.h>

#include "crew.h"
#include "emit.h"
#include "kernels.h"
#include "parts.h"
#include "rm_control.h"

#define SLICE_RUN_NS 1500000000u
#define LEAST_SLICE_GAP_NS 10000u
#define SLICES_LIMIT_S 20

struct scene {
	bool full;
	uint64_t slice_us;	/* 0: the driver's default */
};

static void set_slices(struct crew_seat *seat, uint64_t slice_us)
{
	struct rm_tsg tsgs[32];
	size_t i, count = rm_targets(tsgs, 32, true);
	int status;

	for (i = 0; i < count; i++) {
		status = rm_set_timeslice(&tsgs[i], slice_us);
		if (status)
			seat->more[1] = (uint64_t)status;
	}
}

static void run(struct crew *crew, int index, const void *argument)
{
	struct crew_seat *seat = &crew->seat[index];
	const struct scene *scene = argument;
	struct mapped_beat beat;
	struct kernels kernels;
	cu_object stream;

	cuda_open();
	kernels_load(&kernels);
	beat = beat_new();
	stream = cuda_stream();
	launch_clock(&kernels, stream, 1, beat, 1000000, LEAST_SLICE_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	beat_clear(beat);
	if (scene->slice_us)
		set_slices(seat, scene->slice_us);
	if (!crew_meet(crew))
		return;
	launch_clock(&kernels, stream, scene->full ? kernels.clock_blocks : 1, beat, SLICE_RUN_NS, LEAST_SLICE_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	seat->start = beat.host->start;
	seat->end = beat.host->end;
	seat->more[0] = beat.host->resolution;
	seat->count = 2 * (uint64_t)beat.host->gaps;
	memcpy(seat->values, (void *)beat.host->gap, seat->count * sizeof(uint64_t));
}

static void tell(const struct crew *crew, const void *argument)
{
	const struct scene *scene = argument;
	const struct crew_seat *seat;
	int i;

	for (i = 0; i < crew->size; i++) {
		seat = &crew->seat[i];
		emit_open("slices");
		emit_number("processes", crew->size);
		emit_text("load", scene->full ? "full" : "one thread");
		emit_number("slice_us", (long long)scene->slice_us);
		emit_number("set_status", (long long)seat->more[1]);
		emit_number("process", i);
		emit_number("clock_resolution_ns", (long long)seat->more[0]);
		emit_number("start", (long long)seat->start);
		emit_number("end", (long long)seat->end);
		emit_numbers("gaps", seat->values, seat->count);
		emit_close();
	}
}

int part_slices(const struct options *options)
{
	static const struct scene scenes[] = { { false, 0 }, { true, 0 }, { true, 1000 }, { true, 500 } };
	int processes;
	size_t i;

	(void)options;
	for (processes = 2; processes <= 4; processes += 2)
		for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
			crew_run(processes, run, &scenes[i], SLICES_LIMIT_S, tell);
	return 0;
}

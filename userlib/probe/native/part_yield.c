// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The assumptions of yield.  A process whose slice is used up gives the GPU to the next one at once.  A process with a
 * long slice keeps the GPU for its burst.  One crew goes through all scenes.  Member 0 is the urgent process and
 * measures.  The scene says how many of the others take part, and with which slices.
 */
#include <stdlib.h>
#include <string.h>

#include "busy.h"
#include "crew.h"
#include "emit.h"
#include "methods.h"
#include "parts.h"

#define YIELD_LIMIT_S 200
#define WORK_ROUNDS 20000
#define WORK_SHARED 24576
#define MANAGED_BYTES (4u << 20)
#define PAGE 4096
#define YIELD_REPEATS 50
/* Without a beat for this long after the call, the kernel counts as stopped. */
#define YIELD_STILL_NS 2000000u
struct yielding;

/* What the urgent process measures, and what the others do. */
struct scene {
	const char *name;
	void (*measure)(struct yielding *y);	/* the urgent process */
	void (*act)(struct yielding *y);	/* each of the others, again and again meanwhile; NULL: nothing */
	int others;
	bool full;				/* the others fill the GPU with long kernels */
	uint64_t own_us, slice_us;		/* slices of the urgent process and of the others; 0: the driver's */
};

struct yielding {
	struct crew *crew;
	const struct scene *scene;
	int index, slice_status;
	unsigned int calls, full_blocks;
	struct kernels kernels;
	struct mapped_beat beat;
	cu_object streams[2];
	struct groups own, all;			/* its compute groups; these and those of copies */
	uint64_t usual_us;			/* the driver's slice */
	cu_pointer out, managed;
	size_t out_bytes;
	void *host;
};

/* The duration of a kernel that records its gaps. */
static uint64_t yield_run_ns(const struct yielding *y)
{
	return y->calls * 500000ull;
}

/* 0: the driver's slice. */
static void yield_set_slice(struct yielding *y, uint64_t slice_us)
{
	size_t i;
	int status;

	for (i = 0; i < y->own.count; i++) {
		status = rm_set_timeslice(&y->own.tsg[i], slice_us ? slice_us : y->usual_us);
		y->slice_status = status ? status : y->slice_status;
	}
}

static void yield_emit_open(const struct yielding *y, const char *record)
{
	emit_open(record);
	emit_text("scene", y->scene->name);
	emit_number("others", y->scene->others);
	emit_number("own_us", (long long)y->scene->own_us);
	emit_number("slice_us", (long long)y->scene->slice_us);
	emit_number("slice_status", y->slice_status);
	emit_number("calls", y->crew->calls);
}

/* Executed stretches between two gaps, and the gaps.  The stretches at both ends are cut short and left out. */
static void yield_tell_turns(const struct yielding *y)
{
	uint64_t *gap = calloc(2 * (GAPS_MAX + 1), sizeof(*gap)), *executed = gap + GAPS_MAX + 1;
	const struct beat *beat = y->beat.host;
	uint32_t i, count = beat->gaps;

	if (!gap)
		exit(1);
	for (i = 0; i < count; i++) {
		gap[i] = beat->gap[i][1] - beat->gap[i][0];
		if (i)
			executed[i - 1] = beat->gap[i][0] - beat->gap[i - 1][1];
	}
	yield_emit_open(y, "turns");
	emit_number("wall_ns", (long long)(beat->end - beat->start));
	emit_numbers("executed_ns", executed, count ? count - 1 : 0);
	emit_numbers("gap_ns", gap, count);
	emit_close();
	free(gap);
}

/* A kernel that fills the GPU, or has one thread, and records when it did not execute. */
static void turns(struct yielding *y)
{
	beat_clear(y->beat);
	launch_clock(&y->kernels, y->streams[0], y->kernels.clock_blocks, y->beat, yield_run_ns(y), LOAD_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	yield_tell_turns(y);
}

/* The same with a kernel in a second stream: each kernel takes half of the GPU. */
static void turns_of_two_streams(struct yielding *y)
{
	unsigned int half = y->kernels.clock_blocks / 2 ? y->kernels.clock_blocks / 2 : 1;

	launch_clock(&y->kernels, y->streams[1], half, beat_new(), yield_run_ns(y), LOAD_GAP_NS);
	beat_clear(y->beat);
	launch_clock(&y->kernels, y->streams[0], half, y->beat, yield_run_ns(y), LOAD_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	yield_tell_turns(y);
}

static uint64_t job_ns(struct yielding *y)
{
	uint64_t begun = now_ns();

	launch_load(&y->kernels, y->streams[0], 1, y->beat, CRITICAL_KERNEL_NS);
	cuda_need(cu.stream_synchronize(y->streams[0]), "cuStreamSynchronize");
	return now_ns() - begun;
}

/* Short jobs at random phases of the others' slices. */
static void delays(struct yielding *y)
{
	unsigned int i, jobs = 2 * y->calls;
	uint64_t *times = calloc(jobs, sizeof(*times));

	if (!times)
		exit(1);
	for (i = 0; i < jobs; i++) {
		sleep_ns(200000 + (uint64_t)(rand() % 1600) * 1000);
		times[i] = job_ns(y);
	}
	yield_emit_open(y, "delay");
	emit_numbers("ns", times, jobs);
	emit_close();
	free(times);
}

/* One burst of 200 kernels, and then kernels with gaps: a late one shows that another process had the GPU. */
static void bursts(struct yielding *y)
{
	static const unsigned int gaps_us[] = { 0, 1, 2, 5, 10, 20, 50, 100 };
	uint64_t times[200], begun;
	size_t i, j, count = y->calls < 200 ? y->calls : 200;

	turns(y);
	begun = now_ns();
	for (j = 0; j < count; j++)
		launch_load(&y->kernels, y->streams[0], 1, y->beat, CRITICAL_KERNEL_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	yield_emit_open(y, "burst");
	emit_number("kernels", (long long)count);
	emit_number("kernel_ns", CRITICAL_KERNEL_NS);
	emit_number("wall_ns", (long long)(now_ns() - begun));
	emit_close();
	for (i = 0; i < sizeof(gaps_us) / sizeof(gaps_us[0]); i++) {
		job_ns(y);
		for (j = 0; j < count; j++) {
			begun = now_ns();
			while (now_ns() - begun < gaps_us[i] * 1000ull)
				;
			times[j] = job_ns(y);
		}
		yield_emit_open(y, "pauses");
		emit_number("pause_us", gaps_us[i]);
		emit_numbers("ns", times, count);
		emit_close();
	}
}

/* What the others do besides, or instead of, their long kernels. */
static void work(struct yielding *y)
{
	launch_work(&y->kernels, y->streams[0], y->full_blocks, y->out, WORK_ROUNDS, WORK_SHARED, y->beat, LOAD_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
}

static void fault(struct yielding *y)
{
	size_t i;

	if (!y->managed && (!cu.managed_alloc || cu.managed_alloc(&y->managed, MANAGED_BYTES, CU_MANAGED_GLOBAL)))
		exit(1);
	for (i = 0; i < MANAGED_BYTES; i += PAGE)
		((volatile char *)(uintptr_t)y->managed)[i]++;
	cuda_need(cu.set_words(y->managed, 1, MANAGED_BYTES / 4), "cuMemsetD32");
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
}

static void copy(struct yielding *y)
{
	cuda_need(cu.copy_out_async(y->host, y->out, y->out_bytes, y->streams[1]), "cuMemcpyDtoHAsync");
	cuda_need(cu.stream_synchronize(y->streams[1]), "cuStreamSynchronize");
}

/* The scenes that switch groups, or change their slices, while something executes. */

static void yield_off_and_on(struct yielding *y)
{
	groups_off(&y->all, method_channels);
	groups_on(&y->all, method_channels);
}

static void yield_set_slices(struct yielding *y)
{
	yield_set_slice(y, y->scene->slice_us);
}

static void yield_make_context(struct yielding *y)
{
	cu_object made;

	(void)y;
	cuda_need(cu.context_create(&made, 0, cu.device), "cuCtxCreate");
	cuda_need(cu.context_destroy(made), "cuCtxDestroy");
	cuda_need(cu.context_set(cu.context), "cuCtxSetCurrent");
}

static void begin_kernel(struct yielding *y, cu_object stream)
{
	beat_clear(y->beat);
	launch_clock(&y->kernels, stream, y->kernels.clock_blocks, y->beat, yield_run_ns(y), LOAD_GAP_NS);
}

static void end_kernel(struct yielding *y)
{
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	yield_tell_turns(y);
}

static void yield_turns_after_off(struct yielding *y)
{
	yield_off_and_on(y);
	begin_kernel(y, y->streams[0]);
	end_kernel(y);
}

static void yield_turns_of_new_channel(struct yielding *y)
{
	begin_kernel(y, cuda_stream());
	end_kernel(y);
}

/* The others' new slice holds at once, so most turns are that long. */
static void yield_turns_changed(struct yielding *y)
{
	begin_kernel(y, y->streams[0]);
	wait_launched(y->beat, y->streams[0]);
	yield_set_slice(y, y->scene->slice_us);
	end_kernel(y);
}

/* Whether the kernel executes. */
static bool moves(const struct yielding *y)
{
	uint64_t before = y->beat.host->now;

	sleep_ns(YIELD_STILL_NS);
	return y->beat.host->now != before;
}

static void tell_calls(struct yielding *y, const char *what, const struct groups *groups, bool busy)
{
	uint64_t off[YIELD_REPEATS], on[YIELD_REPEATS], begun;
	unsigned int i, stopped = 0;
	int status = 0;

	if (busy)
		begin_kernel(y, y->streams[0]);
	for (i = 0; i < YIELD_REPEATS && i < y->calls && !status; i++) {
		begun = now_ns();
		status = groups_off(groups, method_channels);
		off[i] = now_ns() - begun;
		stopped += busy && !moves(y);
		begun = now_ns();
		groups_on(groups, method_channels);
		on[i] = now_ns() - begun;
	}
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	yield_emit_open(y, "own calls");
	emit_text("what", what);
	emit_number("busy", busy);
	emit_number("status", status);
	emit_number("tried", i);
	emit_number("stopped", stopped);
	emit_numbers("off_ns", off, i);
	emit_numbers("on_ns", on, i);
	emit_close();
}

/* Whether groups are off after a call.  @off_before: whether they were off before it. */
static void tell_kept(struct yielding *y, const char *what, int (*call)(const struct rm_tsg *tsg), bool off_before)
{
	int status = 0;
	bool moved;
	size_t i;

	begin_kernel(y, y->streams[0]);
	wait_launched(y->beat, y->streams[0]);
	if (off_before)
		groups_off(&y->own, method_channels);
	for (i = 0; i < y->own.count && !status; i++)
		status = call(&y->own.tsg[i]);
	sleep_ns(YIELD_STILL_NS);
	moved = moves(y);
	groups_on(&y->own, method_channels);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	yield_emit_open(y, "kept off");
	emit_text("what", what);
	emit_number("status", status);
	emit_number("moved", moved);
	emit_close();
}

static int scheduling_off(const struct rm_tsg *tsg)
{
	return rm_channels_hinted(tsg, false, true);
}

static void yield_own_calls(struct yielding *y)
{
	tell_calls(y, "all groups", &y->all, false);
	tell_calls(y, "compute groups", &y->own, false);
	tell_calls(y, "all groups", &y->all, true);
	tell_calls(y, "compute groups", &y->own, true);
	tell_kept(y, "PREEMPT after FIFO_DISABLE_CHANNELS", rm_preempt, true);
	tell_kept(y, "bOnlyDisableScheduling", scheduling_off, false);
}

#define SECOND_US 1000000
#define SMALL_US 2
#define HALF_MS_US 500

#define TURNS(us) { "turns", turns, NULL, 1, true, us, us }
#define DELAYS(others, us) { "delays", delays, NULL, others, true, SECOND_US, us }
static const struct scene scenes[] = {
	TURNS(1), TURNS(2), TURNS(5), TURNS(10), TURNS(20), TURNS(50), TURNS(100), TURNS(200),
	{ "alone, one stream", turns, NULL, 0, false, SMALL_US, 0 },
	{ "alone, two streams", turns_of_two_streams, NULL, 0, false, SMALL_US, 0 },
	{ "no others", delays, NULL, 0, false, SECOND_US, 0 },
	DELAYS(1, SMALL_US), DELAYS(2, SMALL_US), DELAYS(3, SMALL_US), DELAYS(4, SMALL_US),
	DELAYS(1, HALF_MS_US), DELAYS(2, HALF_MS_US), DELAYS(3, HALF_MS_US), DELAYS(4, HALF_MS_US),
	{ "registers and shared memory", delays, work, 1, false, SECOND_US, SMALL_US },
	{ "copies", delays, copy, 1, true, SECOND_US, SMALL_US },
	{ "bursts", bursts, NULL, 1, true, SECOND_US, SMALL_US },
	{ "others go off and on", turns, yield_off_and_on, 2, true, SECOND_US, SMALL_US },
	{ "others set slices", turns, yield_set_slices, 2, true, SECOND_US, SMALL_US },
	{ "others make contexts", turns, yield_make_context, 2, false, SECOND_US, SMALL_US },
	{ "slice after off and on", yield_turns_after_off, NULL, 1, true, 200, 200 },
	{ "slice of a new channel", yield_turns_of_new_channel, NULL, 1, true, 200, 200 },
	{ "slice changed while running", yield_turns_changed, NULL, 1, true, 500, 200 },
	{ "calls", yield_own_calls, NULL, 0, false, 0, 0 },
	{ "managed memory", delays, fault, 1, false, SECOND_US, SMALL_US },	/* last: without it the member ends */
};
#undef TURNS
#undef DELAYS

/* One scene of one member.  False if the crew is over. */
static bool take_part(struct yielding *y, int number)
{
	bool other = y->index && y->index <= y->scene->others, full = other && y->scene->full;
	struct busy busy;

	y->slice_status = 0;
	yield_set_slice(y, y->index ? y->scene->slice_us : y->scene->own_us);
	if (full)
		busy_start(&busy, &y->kernels, y->streams[0], y->streams[0]);
	y->crew->calls = 0;
	if (!crew_meet(y->crew))
		return false;
	if (!y->index) {
		y->scene->measure(y);
		y->crew->scene = number + 1;
	}
	while (y->crew->scene <= number && !y->crew->over) {
		if (other && y->scene->act) {
			y->scene->act(y);
			y->crew->calls++;
		} else {
			sleep_ns(1000000);
		}
	}
	if (full)
		busy_stop(&busy);
	return crew_meet(y->crew);
}

static void prepare(struct yielding *y)
{
	int i;

	cuda_open();
	kernels_load(&y->kernels);
	for (i = 0; i < 2; i++)
		y->streams[i] = cuda_stream();
	y->beat = beat_new();
	y->full_blocks = work_blocks_with(&y->kernels, WORK_SHARED);
	y->out_bytes = 4 * (WORK_SUMS + (size_t)y->full_blocks * WORK_THREADS);
	cuda_need(cu.memory_alloc(&y->out, y->out_bytes), "cuMemAlloc");
	y->host = cuda_mapped(y->out_bytes, &(cu_pointer){ 0 });
	launch_clock(&y->kernels, y->streams[0], 1, y->beat, 1000000, LOAD_GAP_NS);
	launch_clock(&y->kernels, y->streams[1], 1, y->beat, 1000000, LOAD_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	y->own.count = rm_targets(y->own.tsg, GROUPS_MAX, true);
	y->all.count = rm_targets(y->all.tsg, GROUPS_MAX, false);
	if (!y->own.count || rm_get_timeslice(&y->own.tsg[0], &y->usual_us))
		exit(1);
}

static void run(struct crew *crew, int index, const void *argument)
{
	const struct options *options = argument;
	struct yielding y = { .crew = crew, .index = index, .calls = options->calls };
	int i;

	prepare(&y);
	for (i = 0; i < (int)(sizeof(scenes) / sizeof(scenes[0])); i++) {
		y.scene = &scenes[i];
		if (!take_part(&y, i))
			return;
	}
}

static void tell(const struct crew *crew, const void *argument)
{
	(void)crew, (void)argument;	/* member 0 told of each scene when it was over */
}

int part_yield(const struct options *options)
{
	crew_run(CREW_MAX, run, options, YIELD_LIMIT_S, tell);
	strangers_run(1, true);
	strangers_run(2, true);
	strangers_run(4, true);
	return 0;
}

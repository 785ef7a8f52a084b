// SPDX-License-Identifier: GPL-2.0
/*
 * The sides of `scripts/bench gpu`: a periodic latency-critical process, and processes with long kernels.  They use
 * the probe's kernels.  They do not link its rm_watch.c, which would hide the driver's calls from the preload library.
 *
 *	gpu_sides critical|explicit|load|loads|endless SECONDS
 *
 *	explicit	marks its segments itself
 *	load		long kernels in one stream
 *	loads		long kernels in two streams, which overlap
 *	endless		one kernel for all of the time, which notes when it did not execute
 *
 * The critical one writes the record "ready", and begins after a line on standard input.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../userlib/probe/native/busy.h"
#include "../../userlib/probe/native/critical.h"
#include "../../userlib/probe/native/emit.h"

#define SECOND 1000000000ull
/* Far below the time of a switch, and far above the time between two readings of the GPU's clock. */
#define LEAST_GAP_NS 20000

typedef int (*segment_begin)(void *handle, unsigned int flags, unsigned int priority);
typedef int (*segment_end)(void *handle, unsigned int flags);

static void wait_for_word(void)
{
	int c;

	emit_open("ready");
	emit_close();
	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

static int critical(uint64_t seconds, bool marks)
{
	uint64_t begun, release, now, *times, *kernel, count = 0, most = seconds * (SECOND / CRITICAL_PERIOD_NS);
	segment_begin begin = NULL;
	segment_end end = NULL;
	struct mapped_beat beat;
	struct kernels kernels;
	cu_object stream;

	cuda_open();
	kernels_load(&kernels);
	beat = beat_new();
	stream = cuda_stream(0);
	times = calloc(3 * (most + 1), sizeof(*times));
	if (!times)
		return 1;
	kernel = times + most + 1;
	if (marks) {
		begin = (segment_begin)dlsym(RTLD_DEFAULT, "gpurt_segment_begin");
		end = (segment_end)dlsym(RTLD_DEFAULT, "gpurt_segment_end");
		if (!begin || !end)
			emit_error("explicit", "libgpurt is not loaded");
	}
	launch_clock(&kernels, stream, 1, beat, CRITICAL_KERNEL_NS, CRITICAL_KERNEL_NS);
	cuda_need(cu.stream_synchronize(stream), "cuStreamSynchronize");
	wait_for_word();
	begun = release = now = now_ns();
	while (count < most && now - begun < seconds * SECOND) {
		if (now < release)
			sleep_ns(release - now);
		now = now_ns();
		if (begin)
			begin(NULL, 0, 0);
		launch_clock(&kernels, stream, 1, beat, CRITICAL_KERNEL_NS, CRITICAL_KERNEL_NS);
		cuda_need(cu.stream_synchronize(stream), "cuStreamSynchronize");
		if (end)
			end(NULL, 0);
		times[count] = now_ns() - now;
		kernel[2 * count] = beat.host->start;
		kernel[2 * count++ + 1] = beat.host->end;
		release = now + CRITICAL_PERIOD_NS;
		now = now_ns();
	}
	emit_open("critical");
	emit_number("explicit", begin && end);
	emit_numbers("ns", times, count);
	emit_numbers("kernel", kernel, 2 * count);
	emit_close();
	free(times);
	return 0;
}

static int load(uint64_t seconds, bool overlap)
{
	struct kernels kernels;
	struct busy busy;
	cu_object stream;
	uint64_t begun;

	cuda_open();
	kernels_load(&kernels);
	stream = cuda_stream(0);
	busy_start_on(&busy, &kernels, kernels.clock_blocks * BUSY_LONG_WAVES, BUSY_LONG_NS, cu.context, stream,
		      overlap ? cuda_stream(0) : stream);
	begun = now_ns();
	busy.launches = 0;
	sleep_ns(seconds * SECOND);
	emit_open("load");
	emit_number("launches", busy.launches);
	emit_number("ns", (long long)(now_ns() - begun));
	emit_close();
	busy_stop(&busy);
	return 0;
}

static int endless(uint64_t seconds)
{
	struct mapped_beat beat;
	struct kernels kernels;
	cu_object stream;

	cuda_open();
	kernels_load(&kernels);
	beat = beat_new();
	stream = cuda_stream(0);
	launch_clock(&kernels, stream, kernels.clock_blocks, beat, seconds * SECOND, LEAST_GAP_NS);
	cuda_need(cu.stream_synchronize(stream), "cuStreamSynchronize");
	emit_open("endless");
	emit_number("start", (long long)beat.host->start);
	emit_number("end", (long long)beat.host->end);
	emit_numbers("gaps", (const uint64_t *)beat.host->gap, 2 * (size_t)beat.host->gaps);
	emit_close();
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seconds = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

	if (seconds && (!strcmp(argv[1], "critical") || !strcmp(argv[1], "explicit")))
		return critical(seconds, !strcmp(argv[1], "explicit"));
	if (seconds && (!strcmp(argv[1], "load") || !strcmp(argv[1], "loads")))
		return load(seconds, !strcmp(argv[1], "loads"));
	if (seconds && !strcmp(argv[1], "endless"))
		return endless(seconds);
	fprintf(stderr, "usage: gpu_sides critical|explicit|load|loads|endless SECONDS\n");
	return 2;
}

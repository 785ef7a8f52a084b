// SPDX-License-Identifier: GPL-2.0
/*
 * The two sides of `scripts/bench gpu`: a periodic latency-critical process, and a process with long kernels.  They use
 * the probe's kernels.  They do not link its rm_watch.c, which would hide the driver's calls from the preload library.
 *
 *	gpu_sides critical|explicit|load SECONDS	explicit: marks its segments itself
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../userlib/probe/native/busy.h"
#include "../../userlib/probe/native/critical.h"
#include "../../userlib/probe/native/emit.h"

#define SECOND 1000000000ull

typedef int (*segment_begin)(void *handle, unsigned int flags, unsigned int priority);
typedef int (*segment_end)(void *handle, unsigned int flags);

static int critical(uint64_t seconds, bool marks)
{
	uint64_t begun, release, now, *times, count = 0, most = seconds * (SECOND / CRITICAL_PERIOD_NS);
	segment_begin begin = NULL;
	segment_end end = NULL;
	struct mapped_beat beat;
	struct kernels kernels;
	cu_object stream;

	cuda_open();
	kernels_load(&kernels);
	beat = beat_new();
	stream = cuda_stream(0);
	times = calloc(most + 1, sizeof(*times));
	if (marks) {
		begin = (segment_begin)dlsym(RTLD_DEFAULT, "gpurt_segment_begin");
		end = (segment_end)dlsym(RTLD_DEFAULT, "gpurt_segment_end");
	}
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
		times[count++] = now_ns() - now;
		release = now + CRITICAL_PERIOD_NS;
		now = now_ns();
	}
	emit_open("critical");
	emit_number("explicit", begin && end);
	emit_numbers("ns", times, count);
	emit_close();
	free(times);
	return 0;
}

static int load(uint64_t seconds)
{
	struct kernels kernels;
	struct busy busy;
	uint64_t begun;

	cuda_open();
	kernels_load(&kernels);
	busy_start_long(&busy, &kernels, 0);
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

int main(int argc, char **argv)
{
	uint64_t seconds = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

	if (!seconds) {
		fprintf(stderr, "usage: gpu_sides critical|explicit|load SECONDS\n");
		return 2;
	}
	return !strcmp(argv[1], "load") ? load(seconds) : critical(seconds, !strcmp(argv[1], "explicit"));
}

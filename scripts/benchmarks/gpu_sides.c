// SPDX-License-Identifier: GPL-2.0
/*
 * The sides of `scripts/bench gpu`: a periodic latency-critical process, and processes with long kernels.  They use
 * the probe's kernels.  They do not link its rm_watch.c, which would hide the driver's calls from the preload library.
 *
 *	gpu_sides critical|explicit|endless SECONDS LAUNCHES
 *	gpu_sides load
 *
 *	explicit	marks its segments itself
 *	load		long kernels, until the second line
 *	endless		one kernel for the whole time, which records when it did not execute
 *
 * A further kernel of a segment begins 50 us after the end of the previous one.  The program sees that end in memory,
 * which the preload library does not notice.  Each side except endless writes the record "ready", and begins after a
 * line on standard input.  A second line ends load.
 */
#define _GNU_SOURCE	/* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../userlib/probe/native/busy.h"
#include "../../userlib/probe/native/emit.h"

#define SECOND 1000000000ull
#define CRITICAL_PERIOD_NS 5000000u
/* Between the kernels of a segment. */
#define PAUSE_NS 50000u

typedef int (*segment_begin)(void *handle, unsigned int flags, unsigned int priority);
typedef int (*segment_end)(void *handle, unsigned int flags);
/* Only in the fake libcuda, whose kernels write no memory: returns when the last kernel has ended. */
typedef int (*fake_ended)(void);
/* Only in the fake libcuda: how long the context's work has executed, us, or -1. */
typedef long (*fake_executed)(void);

static void *of_fake(const char *name)
{
	return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);
}

static void wait_for_line(void)
{
	int c;

	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

static void wait_for_word(void)
{
	emit_open("ready");
	emit_close();
	wait_for_line();
}

/* An urgent process, with the functions that mark its segments, or NULL. */
struct urgent {
	struct kernels kernels;
	struct mapped_beat beat;
	cu_object stream;
	segment_begin begin;
	segment_end end;
	fake_ended ended;
	unsigned int launches, scale;
};

static void spin(uint64_t ns)
{
	uint64_t begun = now_ns();

	while (now_ns() - begun < ns)
		;
}

/* Waits until the kernel has written to memory that it ends. */
static void wait_for_end(const struct urgent *u)
{
	if (u->ended)
		u->ended();
	else
		while (!u->beat.host->end)
			;
}

/* One segment; returns its time. */
static uint64_t job(const struct urgent *u)
{
	uint64_t begun = now_ns();
	unsigned int i;

	if (u->begin)
		u->begin(NULL, 0, 0);
	for (i = 0; i < u->launches; i++) {
		if (i) {
			wait_for_end(u);
			spin((uint64_t)PAUSE_NS * u->scale / 1000);
		}
		beat_clear(u->beat);
		launch_load(&u->kernels, u->stream, 1, u->beat, CRITICAL_KERNEL_NS);
	}
	cuda_need(cu.stream_synchronize(u->stream), "cuStreamSynchronize");
	if (u->end)
		u->end(NULL, 0);
	return now_ns() - begun;
}

static void prepare(struct urgent *u, bool marks)
{
	const char *scale = getenv("FAKE_SCALE");

	cuda_open();
	u->scale = scale ? (unsigned int)atoi(scale) : 1000;
	u->ended = (fake_ended)of_fake("fakeEnded");
	kernels_load(&u->kernels);
	u->beat = beat_new();
	u->stream = cuda_stream();
	if (marks) {
		u->begin = (segment_begin)dlsym(RTLD_DEFAULT, "gpurt_segment_begin");
		u->end = (segment_end)dlsym(RTLD_DEFAULT, "gpurt_segment_end");
		if (!u->begin || !u->end)
			emit_error("explicit", "libgpurt is not loaded");
	}
	launch_load(&u->kernels, u->stream, 1, u->beat, CRITICAL_KERNEL_NS);
	cuda_need(cu.stream_synchronize(u->stream), "cuStreamSynchronize");
}

static int critical(uint64_t seconds, unsigned int launches, bool marks)
{
	uint64_t begun, release, now, *times, *kernel, count = 0, most = seconds * (SECOND / CRITICAL_PERIOD_NS);	/* of a scale of at least 1 */
	struct urgent u = { .launches = launches };

	prepare(&u, marks);
	times = calloc(3 * (most + 1), sizeof(*times));
	if (!times)
		return 1;
	kernel = times + most + 1;
	wait_for_word();
	begun = release = now = now_ns();
	while (count < most && now - begun < seconds * SECOND) {
		if (now < release)
			sleep_ns(release - now);
		now = now_ns();
		times[count] = job(&u);
		kernel[2 * count] = u.beat.host->start;
		kernel[2 * count++ + 1] = u.beat.host->end;
		release = now + (uint64_t)CRITICAL_PERIOD_NS * u.scale / 1000;
		now = now_ns();
	}
	emit_open("critical");
	emit_number("explicit", u.begin && u.end);
	emit_numbers("ns", times, count);
	emit_numbers("kernel", kernel, 2 * count);
	emit_close();
	free(times);
	return 0;
}

/* How long this process's kernels have executed. */
static long long executed_us(const struct busy *busy)
{
	fake_executed executed = (fake_executed)of_fake("fakeExecuted");
	long us = executed ? executed() : -1;

	return us < 0 ? (long long)busy->launches * BUSY_LONG_WAVES * BUSY_LONG_NS / 1000 : us;
}

static int load(void)
{
	struct kernels kernels;
	struct busy busy;
	long long us;

	cuda_open();
	kernels_load(&kernels);
	busy_start(&busy, &kernels, cuda_stream(), cuda_stream());
	wait_for_word();
	us = executed_us(&busy);
	wait_for_line();
	us = executed_us(&busy) - us;
	emit_open("load");
	emit_number("us", us);
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
	stream = cuda_stream();
	launch_clock(&kernels, stream, kernels.clock_blocks, beat, seconds * SECOND, LOAD_GAP_NS);
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
	uint64_t seconds = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
	unsigned int launches = argc == 4 ? (unsigned int)strtoul(argv[3], NULL, 10) : 0;

	if (argc == 2 && !strcmp(argv[1], "load"))
		return load();
	if (seconds && launches && (!strcmp(argv[1], "critical") || !strcmp(argv[1], "explicit")))
		return critical(seconds, launches, !strcmp(argv[1], "explicit"));
	if (seconds && launches && !strcmp(argv[1], "endless"))
		return endless(seconds);
	fprintf(stderr, "usage: gpu_sides load | critical|explicit|endless SECONDS LAUNCHES\n");
	return 2;
}

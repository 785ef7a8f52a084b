// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Whether a running kernel stops, how long after the call, and when it resumes.  A thread watches the beat in host
 * memory.  The kernel itself records when its clock jumped.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "busy.h"
#include "emit.h"
#include "methods.h"
#include "parts.h"

#define STOP_REPEATS 100
/* Without a beat for this long the kernel counts as stopped.  A beat is due every half microsecond. */
#define STOP_STILL_NS 2000000u
#define GIVE_UP_NS 30000000u
#define KERNEL_NS 2000000000u
#define STOP_METHOD_NS 1500000000u
#define LEAST_GAP_NS 20000u

struct watcher {
	volatile struct beat *beat;
	_Atomic uint64_t changed_ns;
	atomic_bool stop;
	pthread_t thread;
};

struct seen {
	uint64_t call[STOP_REPEATS], stop[STOP_REPEATS], back[STOP_REPEATS], resume[STOP_REPEATS];
	unsigned int count, stopped, off_status, on_status, lost;
};

static void *watch(void *argument)
{
	struct watcher *watcher = argument;
	uint64_t last = 0, now;

	while (!watcher->stop) {
		now = watcher->beat->now;
		if (now != last)
			watcher->changed_ns = now_ns();
		last = now;
	}
	return NULL;
}

/* Waits until the beat stops.  Returns the time of its last change, or 0 if it does not stop. */
static uint64_t rest(struct watcher *watcher)
{
	uint64_t begun = now_ns(), changed;

	do {
		changed = watcher->changed_ns;
		if (now_ns() - changed > STOP_STILL_NS)
			return changed;
	} while (now_ns() - begun < GIVE_UP_NS);
	return 0;
}

/* Returns the time of the first change after @since, or 0 if there is none within a second. */
static uint64_t change_after(struct watcher *watcher, uint64_t since)
{
	uint64_t changed;

	do {
		changed = watcher->changed_ns;
		if (changed > since)
			return changed;
	} while (now_ns() - since < 1000000000u);
	return 0;
}

static bool once(const struct groups *groups, const struct method *method, struct watcher *watcher, struct seen *seen)
{
	uint64_t off = now_ns(), stopped, on, resumed;
	unsigned int i = seen->count;

	seen->off_status = (unsigned int)groups_off(groups, method);
	seen->call[i] = now_ns() - off;
	stopped = rest(watcher);
	on = now_ns();
	seen->on_status = (unsigned int)groups_on(groups, method);
	seen->back[i] = now_ns() - on;
	resumed = change_after(watcher, on);
	if (stopped) {
		/* If the last beat came before the call began, the kernel stopped at once. */
		seen->stop[seen->stopped] = stopped > off ? stopped - off : 0;
		seen->resume[seen->stopped++] = resumed > on ? resumed - on : 0;
	}
	seen->lost += !resumed;
	seen->count++;
	if (!resumed)	/* the kernel goes on before the next method is tried */
		groups_on(groups, method_channels);
	return resumed && !seen->off_status;
}

static void tell(const struct method *method, const char *load, const struct seen *seen, const struct beat *beat,
		 cu_result ended)
{
	uint64_t gaps[STOP_REPEATS * 4];
	uint32_t i, count = beat->gaps < STOP_REPEATS * 4 ? beat->gaps : STOP_REPEATS * 4;

	for (i = 0; i < count; i++)
		gaps[i] = beat->gap[i][1] - beat->gap[i][0];
	emit_open("stop");
	emit_text("method", method->name);
	emit_text("load", load);
	emit_number("off_status", (int)seen->off_status);
	emit_number("on_status", (int)seen->on_status);
	emit_number("tried", seen->count);
	emit_number("stopped", seen->stopped);
	emit_number("never_resumed", seen->lost);
	emit_text("kernel_ended", ended ? cuda_error(ended) : "ok");
	emit_number("clock_resolution_ns", (long long)beat->resolution);
	emit_numbers("call_ns", seen->call, seen->count);
	emit_numbers("stop_ns", seen->stop, seen->stopped);
	emit_numbers("back_ns", seen->back, seen->count);
	emit_numbers("resume_ns", seen->resume, seen->stopped);
	emit_numbers("gap_ns", gaps, count);
	emit_close();
}

static void try_method(const struct kernels *kernels, const struct groups *groups, const struct method *method,
		       const char *load, unsigned int blocks)
{
	struct mapped_beat beat = beat_new();
	struct watcher watcher = { .beat = beat.host };
	cu_object stream = cuda_stream();
	struct seen seen = { .count = 0 };
	uint64_t begun;

	launch_clock(kernels, stream, blocks, beat, KERNEL_NS, LEAST_GAP_NS);
	if (pthread_create(&watcher.thread, NULL, watch, &watcher))
		return;
	begun = now_ns();
	if (!change_after(&watcher, begun))
		emit_error(method->name, "the kernel did not start");
	while (seen.count < STOP_REPEATS && now_ns() - begun < STOP_METHOD_NS)
		if (!once(groups, method, &watcher, &seen))
			break;
	watcher.stop = true;
	pthread_join(watcher.thread, NULL);
	tell(method, load, &seen, beat.host, cu.stream_synchronize(stream));
}

int part_stop(const struct options *options)
{
	struct kernels kernels;
	struct groups groups;
	int i;

	(void)options;
	cuda_open();
	kernels_load(&kernels);
	launch_clock(&kernels, cuda_stream(), 1, beat_new(), 1000000, LEAST_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	if (groups_find(&groups, true))
		return 1;
	for (i = 0; i < METHODS; i++) {
		try_method(&kernels, &groups, &methods[i], "one thread", 1);
		try_method(&kernels, &groups, &methods[i], "full", kernels.clock_blocks);
	}
	return 0;
}

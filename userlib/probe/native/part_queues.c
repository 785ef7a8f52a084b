// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Return times of FIFO_DISABLE_CHANNELS, by what the group has queued: a kernel whose blocks all execute, or one with
 * blocks that wait for room.  Also a second kernel that waits behind it, in its stream or in another.  Then by how long
 * the group was on before the call, while kernels are launched without end.
 */
#include "busy.h"
#include "emit.h"
#include "kernels.h"
#include "methods.h"
#include "parts.h"

#define QUEUE_REPEATS 25
#define LEAST_GAP_NS 20000u
/* Without a beat for this long after the call, the kernels count as stopped. */
#define QUEUE_STILL_NS 500000u
/* How long a burst lasts. */
#define BURST_NS 1000000000u

struct scene {
	const char *name;
	uint64_t block_ns;
	/* Sizes of both kernels in sixteenths of the blocks that execute at once.  No second kernel: 0. */
	unsigned int first, second;
	bool other_stream;
};

static const struct scene scenes[] = {
	{ "one kernel, one wave of blocks", 10000000, 16, 0, false },
	{ "one kernel, eight waves of blocks", 2000000, 128, 0, false },
	{ "two kernels that execute together", 10000000, 8, 8, true },
	{ "a second kernel queued in the same stream", 10000000, 16, 16, false },
	{ "a second kernel in another stream, without room", 10000000, 16, 16, true },
	{ "a second kernel of one block in another stream, without room", 10000000, 16, 0, true },
	{ "the same with blocks of 5 ms", 5000000, 16, 16, true },
	{ "eight waves each in two streams", 2000000, 128, 128, true },
};

struct seen {
	uint64_t call[QUEUE_REPEATS];
	unsigned int count, moved, ended;
	int status;
};

/* Whether a kernel executes, judged by what block 0 of each writes. */
static bool moves(const struct mapped_beat *beats)
{
	uint64_t first = beats[0].host->now, second = beats[1].host->now;

	sleep_ns(QUEUE_STILL_NS);
	return beats[0].host->now != first || beats[1].host->now != second;
}

static void once(const struct kernels *kernels, const struct groups *groups, const struct scene *scene,
		 const cu_object *streams, const struct mapped_beat *beats, struct seen *seen)
{
	unsigned int room = kernels->clock_blocks, second = scene->second * room / 16;
	uint64_t begun;

	beat_clear(beats[0]);
	beat_clear(beats[1]);
	launch_clock(kernels, streams[0], scene->first * room / 16, beats[0], scene->block_ns, LEAST_GAP_NS);
	if (second || scene->other_stream)
		launch_clock(kernels, streams[scene->other_stream], second ? second : 1, beats[1], scene->block_ns,
			     LEAST_GAP_NS);
	wait_launched(beats[0], streams[0]);
	sleep_ns(200000 + 40000 * seen->count);
	begun = now_ns();
	seen->status = groups_off(groups, method_channels);
	seen->call[seen->count++] = now_ns() - begun;
	seen->moved += moves(beats);
	seen->ended += cu.stream_query(streams[0]) != CU_NOT_READY && cu.stream_query(streams[1]) != CU_NOT_READY;
	groups_on(groups, method_channels);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
}

static void tell(const struct scene *scene, const struct seen *seen)
{
	emit_open("queues");
	emit_text("queued", scene->name);
	emit_number("block_ns", (long long)scene->block_ns);
	emit_number("off_status", seen->status);
	emit_number("tried", seen->count);
	emit_number("moved_while_off", seen->moved);
	emit_number("had_ended", seen->ended);
	emit_numbers("call_ns", seen->call, seen->count);
	emit_close();
}

/* Kernels without end, and how long the group is left on between two calls. */
struct burst {
	uint64_t kernel_ns, pause_ns;
	bool two_streams;
};

static const struct burst bursts[] = {
	{ 20000000, 0, false }, { 20000000, 0, true }, { 5000000, 0, true }, { 20000000, 30000, true },
	{ 20000000, 100000, true }, { 20000000, 300000, true }, { 20000000, 1000000, true }, { 20000000, 3000000, true },
};

static void tell_burst(const struct burst *burst, int status, const uint64_t *call, const uint64_t *back, size_t count)
{
	emit_open("bursts");
	emit_number("kernel_ns", (long long)burst->kernel_ns);
	emit_number("streams", 1 + burst->two_streams);
	emit_number("pause_ns", (long long)burst->pause_ns);
	emit_number("off_status", status);
	emit_numbers("call_ns", call, count);
	emit_numbers("back_ns", back, count);
	emit_close();
}

static void try_burst(const struct kernels *kernels, const struct groups *groups, const struct burst *burst,
		      const cu_object *streams)
{
	uint64_t call[QUEUE_REPEATS], back[QUEUE_REPEATS], begun, until = now_ns() + BURST_NS;
	struct busy busy;
	size_t count = 0;
	int status = 0;

	busy_start(&busy, kernels, kernels->clock_blocks, burst->kernel_ns, streams[0], streams[burst->two_streams]);
	while (count < QUEUE_REPEATS && !status && now_ns() < until) {
		begun = now_ns();
		status = groups_off(groups, method_channels);
		call[count] = now_ns() - begun;
		begun = now_ns();
		groups_on(groups, method_channels);
		back[count++] = now_ns() - begun;
		begun = now_ns();
		while (now_ns() - begun < burst->pause_ns)
			;
	}
	busy_stop(&busy);
	tell_burst(burst, status, call, back, count);
}

int part_queues(const struct options *options)
{
	struct mapped_beat beats[2];
	struct kernels kernels;
	struct groups groups;
	cu_object streams[2];
	size_t i;

	(void)options;
	cuda_open();
	kernels_load(&kernels);
	for (i = 0; i < 2; i++) {
		beats[i] = beat_new();
		streams[i] = cuda_stream();
		launch_clock(&kernels, streams[i], 1, beats[i], 1000000, LEAST_GAP_NS);
	}
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	if (groups_find(&groups, true))
		return 1;
	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		struct seen seen = { .count = 0 };

		while (seen.count < QUEUE_REPEATS && !seen.status)
			once(&kernels, &groups, &scenes[i], streams, beats, &seen);
		tell(&scenes[i], &seen);
	}
	for (i = 0; i < sizeof(bursts) / sizeof(bursts[0]); i++)
		try_burst(&kernels, &groups, &bursts[i], streams);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A process names channels of others in FIFO_DISABLE_CHANNELS, on a descriptor and a subdevice of its own.  Measures
 * whether that takes them off, and what one such call costs for the channels of one and of two other processes.
 */
#include <grp.h>
#include <unistd.h>

#include "crew.h"
#include "emit.h"
#include "kernels.h"
#include "parts.h"
#include "rm_control.h"

#define STRANGER_REPEATS 25
#define RUN_NS 5000000000u
#define LEAST_GAP_NS 20000u
#define STRANGER_STILL_NS 500000u
#define STRANGERS_LIMIT_S 15
#define NOBODY 65534

struct scene {
	bool ordinary;		/* the caller is the user nobody */
	int others;
	bool compute_only;	/* the others' groups for copies are not named */
};

/* A victim writes its channels to ->values, and to ->end when its kernel was last seen to execute. */
static volatile uint64_t *beat_of(struct crew *crew, int index)
{
	return &crew->seat[index].end;
}

static void publish(struct crew_seat *seat, bool compute_only)
{
	struct rm_tsg tsgs[32];
	size_t i, count = rm_targets(tsgs, 32, compute_only);
	uint32_t j;

	seat->count = 0;
	for (i = 0; i < count; i++)
		for (j = 0; j < tsgs[i].channel_count; j++)
			seat->values[seat->count++] = (uint64_t)tsgs[i].client << 32 | tsgs[i].channels[j];
}

static void victim(struct crew *crew, int index, const struct scene *scene, const struct kernels *kernels)
{
	struct mapped_beat beat = beat_new();

	launch_clock(kernels, cuda_stream(), kernels->clock_blocks, beat, RUN_NS, LEAST_GAP_NS);
	publish(&crew->seat[index], scene->compute_only);
	if (crew_meet(crew))
		while (!crew->over)
			*beat_of(crew, index) = beat.host->now;
}

static bool moves(struct crew *crew, int others)
{
	uint64_t before[CREW_MAX];
	bool any = false;
	int i;

	for (i = 1; i <= others; i++)
		before[i] = *beat_of(crew, i);
	sleep_ns(STRANGER_STILL_NS);
	for (i = 1; i <= others; i++)
		any |= *beat_of(crew, i) != before[i];
	return any;
}

static int switch_all(const struct rm_tsg *own, struct rm_disable_channels *named, bool on)
{
	named->disable = !on;
	return rm_call(own->fd, own->client, own->subdevice, C2080_DISABLE_CHANNELS, named, sizeof(*named));
}

static void measure(struct crew *crew, const struct rm_tsg *own, struct rm_disable_channels *named, int others)
{
	struct crew_seat *seat = &crew->seat[0];
	uint64_t begun;
	int i, status = 0;

	for (i = 0; i < STRANGER_REPEATS && !status; i++) {
		begun = now_ns();
		status = switch_all(own, named, false);
		seat->values[i] = now_ns() - begun;
		seat->more[1] += !moves(crew, others);
		begun = now_ns();
		switch_all(own, named, true);
		seat->values[STRANGER_REPEATS + i] = now_ns() - begun;
		sleep_ns(2000000);
		seat->more[2] += moves(crew, others);
	}
	seat->count = (uint64_t)i;
	seat->more[0] = (uint64_t)status;
	seat->more[3] = named->count;
}

static void stranger(struct crew *crew, const struct scene *scene, const struct kernels *kernels)
{
	struct rm_disable_channels named = { .count = 0 };
	struct crew_seat *seat;
	struct rm_tsg own;
	uint64_t j;
	int i;

	launch_clock(kernels, cuda_stream(), 1, beat_new(), 1000000, LEAST_GAP_NS);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	if (!rm_targets(&own, 1, true) || !crew_meet(crew)) {
		crew->over = true;
		_exit(1);
	}
	for (i = 1; i <= scene->others; i++) {
		seat = &crew->seat[i];
		for (j = 0; j < seat->count && named.count < RM_CHANNELS_MAX; j++) {
			named.clients[named.count] = (uint32_t)(seat->values[j] >> 32);
			named.channels[named.count++] = (uint32_t)seat->values[j];
		}
	}
	measure(crew, &own, &named, scene->others);
	crew->over = true;
}

static void run(struct crew *crew, int index, const void *argument)
{
	const struct scene *scene = argument;
	struct kernels kernels;

	if (!index && scene->ordinary && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)))
		_exit(1);
	cuda_open();
	kernels_load(&kernels);
	if (index)
		victim(crew, index, scene, &kernels);
	else
		stranger(crew, scene, &kernels);
}

static void tell(const struct crew *crew, const void *argument)
{
	const struct scene *scene = argument;
	const struct crew_seat *seat = &crew->seat[0];

	emit_open("strangers");
	emit_number("uid", scene->ordinary ? NOBODY : geteuid());
	emit_number("others", scene->others);
	emit_text("groups", scene->compute_only ? "compute" : "all");
	emit_number("channels", (long long)seat->more[3]);
	emit_number("off_status", (int)seat->more[0]);
	emit_number("tried", (long long)seat->count);
	emit_number("stopped", (long long)seat->more[1]);
	emit_number("went_on", (long long)seat->more[2]);
	emit_numbers("off_ns", seat->values, seat->count);
	emit_numbers("on_ns", seat->values + STRANGER_REPEATS, seat->count);
	emit_close();
}

void strangers_run(int others, bool compute_only)
{
	crew_run(1 + others, run, &(struct scene){ false, others, compute_only }, STRANGERS_LIMIT_S, tell);
}

int part_strangers(const struct options *options)
{
	static const struct scene scenes[] = { { false, 1, false }, { false, 2, false }, { true, 1, false } };
	size_t i;

	(void)options;
	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!scenes[i].ordinary || !geteuid())
			crew_run(1 + scenes[i].others, run, &scenes[i], STRANGERS_LIMIT_S, tell);
	return 0;
}

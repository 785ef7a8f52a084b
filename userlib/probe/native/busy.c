// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "busy.h"
#include "emit.h"

/* How long busy_start() waits for the first kernel. */
#define FIRST_KERNEL_NS 5000000000u

/* Launches into two streams by turns: while one launch runs, the other is queued, so the GPU never idles. */
static void *feed(void *argument)
{
	struct busy *busy = argument;
	unsigned int blocks = busy->kernels->clock_blocks * BUSY_LONG_WAVES, turn = 0;

	cuda_need(cu.context_set(cu.context), "cuCtxSetCurrent");
	launch_load(busy->kernels, busy->streams[1], blocks, busy->beat, BUSY_LONG_NS);
	while (!busy->stop) {
		launch_load(busy->kernels, busy->streams[turn], blocks, busy->beat, BUSY_LONG_NS);
		turn = !turn;
		cuda_need(cu.stream_synchronize(busy->streams[turn]), "cuStreamSynchronize");
		busy->launches++;
	}
	cuda_need(cu.stream_synchronize(busy->streams[!turn]), "cuStreamSynchronize");
	return NULL;
}

void busy_start(struct busy *busy, const struct kernels *kernels, cu_object first, cu_object second)
{
	uint64_t begun = now_ns();

	busy->kernels = kernels;
	busy->beat = beat_new();
	busy->streams[0] = first;
	busy->streams[1] = second;
	busy->stop = false;
	busy->launches = 0;
	if (pthread_create(&busy->thread, NULL, feed, busy))
		cuda_need(1, "pthread_create");
	while (!busy->beat.host->started && now_ns() - begun < FIRST_KERNEL_NS)
		sleep_ns(100000);
}

void busy_stop(struct busy *busy)
{
	busy->stop = true;
	pthread_join(busy->thread, NULL);
}

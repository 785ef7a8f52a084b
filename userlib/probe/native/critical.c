// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "busy.h"
#include "critical.h"
#include "emit.h"

void critical_run(const struct kernels *kernels, cu_object stream, struct crew_seat *seat)
{
	struct mapped_beat beat = beat_new();
	uint64_t begun = now_ns(), release = begun, now = begun;

	seat->count = 0;
	while (seat->count < CRITICAL_JOBS && now - begun < CRITICAL_LIMIT_NS) {
		now = now_ns();
		if (now < release)
			sleep_ns(release - now);
		now = now_ns();
		launch_load(kernels, stream, 1, beat, CRITICAL_KERNEL_NS);
		cuda_need(cu.stream_synchronize(stream), "cuStreamSynchronize");
		seat->values[seat->count++] = now_ns() - now;
		/* One period after this job really began, so that jobs never queue behind a late one. */
		release = now + CRITICAL_PERIOD_NS;
	}
}

void critical_rival(struct crew *crew, const struct kernels *kernels)
{
	struct busy busy;

	busy_start_long(&busy, kernels, 0);
	if (crew_meet(crew))
		while (!crew->over)
			sleep_ns(1000000);
	busy_stop(&busy);
}

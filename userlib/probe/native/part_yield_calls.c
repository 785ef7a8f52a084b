// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The scenes of part yield that switch groups, or change their slices, while something executes. */
#include <stdlib.h>

#include "emit.h"
#include "yield.h"

#define YIELD_REPEATS 50
/* Without a beat for this long after the call, the kernel counts as stopped. */
#define YIELD_STILL_NS 2000000u

void yield_off_and_on(struct yielding *y)
{
	groups_off(&y->all, method_channels);
	groups_on(&y->all, method_channels);
}

void yield_set_slices(struct yielding *y)
{
	yield_set_slice(y, y->scene->slice_us);
}

void yield_make_context(struct yielding *y)
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

void yield_turns_after_off(struct yielding *y)
{
	yield_off_and_on(y);
	begin_kernel(y, y->streams[0]);
	end_kernel(y);
}

void yield_turns_of_new_channel(struct yielding *y)
{
	begin_kernel(y, cuda_stream());
	end_kernel(y);
}

/* The slice that the others have comes at once; so most turns are that long. */
void yield_turns_changed(struct yielding *y)
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

/* Whether a call, made while the groups are off or in place of that, leaves them off. */
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

void yield_own_calls(struct yielding *y)
{
	tell_calls(y, "all groups", &y->all, false);
	tell_calls(y, "compute groups", &y->own, false);
	tell_calls(y, "all groups", &y->all, true);
	tell_calls(y, "compute groups", &y->own, true);
	tell_kept(y, "PREEMPT after FIFO_DISABLE_CHANNELS", rm_preempt, true);
	tell_kept(y, "bOnlyDisableScheduling", scheduling_off, false);
}

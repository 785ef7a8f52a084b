/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Runlists and engines of a GPU of Tegra, to nvgpu.  Each runlist has an engine.  The engine executes a TSG of the
 * list that is in force, one whose channels are not all disabled.  The engine does so until it takes another TSG, or
 * is told to preempt; a new list alone takes no context off it.  An engine can hang, and a list can stay pending.
 */
#ifndef PATCHES_HARDWARE_H
#define PATCHES_HARDWARE_H

#include <assert.h>
#include <string.h>

#include <nvgpu/channel.h>
#include <nvgpu/engine_status.h>
#include <nvgpu/fifo.h>
#include <nvgpu/gk20a.h>
#include <nvgpu/pbdma_status.h>
#include <nvgpu/tsg.h>

#define RUNLISTS 2
#define IDS 128			/* of TSGs and of channels: more than a word of a bitmap has bits */
#define NOTHING (-1)

enum hang { WORKS, HANGS, HAS_INTERRUPT };

static struct gk20a *g;
static struct list {
	bool tsg[IDS], channel[IDS];
} in_force[RUNLISTS], submitted[RUNLISTS];
static bool enabled[IDS];		/* by channel */
static bool scheduling[RUNLISTS], is_pending[RUNLISTS];
static bool will_be_pending[RUNLISTS];	/* the next list that is submitted */
static int executes[RUNLISTS];		/* a TSG */
static enum hang hangs[RUNLISTS];
static u32 progress[IDS];		/* of channels */
static int submits, preemptions, resets;

/* Whether the engine may take the TSG. */
static bool eligible(int runlist, int id)
{
	int c;

	for (c = 0; c < IDS; c++)
		if (in_force[runlist].channel[c] && (int)g->fifo.channel[c].tsgid == id && enabled[c])
			return scheduling[runlist] && in_force[runlist].tsg[id];
	return false;
}

/* Time passes: an engine that works takes another TSG. */
static void hardware_tick(void)
{
	int r, i, c, first = below(IDS);

	for (r = 0; r < RUNLISTS; r++) {
		for (i = 0; i < IDS && !hangs[r]; i++) {
			if (!eligible(r, (first + i) % IDS))
				continue;
			executes[r] = (first + i) % IDS;
			for (c = 0; c < IDS; c++)
				progress[c] += (int)g->fifo.channel[c].tsgid == executes[r];
			break;
		}
	}
}

static void decode(u32 runlist, const u32 *entry, u32 count)
{
	struct list *l = &submitted[runlist];
	u32 i, channels = 0, id = 0;

	submits++;
	memset(l, 0, sizeof(*l));
	for (i = 0; i < count; i++, entry += 4) {
		if (channels == 0) {
			assert(entry[0] == 1);		/* a header: how many channels follow is not 0 */
			id = entry[1];
			channels = entry[2];
			assert(channels > 0 && g->fifo.tsg[id].runlist->id == runlist && g->fifo.tsg[id].in_use);
			l->tsg[id] = true;
		} else {
			assert(entry[0] == 2 && g->fifo.channel[entry[1]].tsgid == id);
			l->channel[entry[1]] = true;
			channels--;
		}
	}
	assert(channels == 0);
	is_pending[runlist] |= will_be_pending[runlist];
	will_be_pending[runlist] = false;
	if (!is_pending[runlist])
		in_force[runlist] = *l;
}

static void get_tsg_entry(struct nvgpu_tsg *tsg, u32 *entry, u32 timeslice)
{
	entry[0] = 1;
	entry[1] = tsg->tsgid;
	entry[2] = tsg->num_active_channels;
}

static void get_ch_entry(struct nvgpu_channel *ch, u32 *entry)
{
	entry[0] = 2;
	entry[1] = ch->chid;
}

static void preempt(u32 runlist, u32 id, unsigned int what)
{
	preemptions++;
	if (!hangs[runlist] && (what == ID_TYPE_RUNLIST || executes[runlist] == (int)id))
		executes[runlist] = NOTHING;
}

static void write_state(struct gk20a *gpu, u32 mask, u32 state)
{
	int r;

	for (r = 0; r < RUNLISTS; r++)
		if (mask & (1U << r))
			scheduling[r] = state == RUNLIST_ENABLED;
}

/* Engines have the numbers of their runlists. */
void nvgpu_engine_reset(struct gk20a *gpu, u32 engine)
{
	resets++;
	executes[engine] = NOTHING;
	hangs[engine] = WORKS;
	if (is_pending[engine])
		in_force[engine] = submitted[engine];
	is_pending[engine] = false;
}

static void read_engine(struct gk20a *gpu, u32 engine, struct nvgpu_engine_status_info *status)
{
	memset(status, 0, sizeof(*status));
	status->ctxsw_status = executes[engine] == NOTHING ? NVGPU_CTX_STATUS_INVALID : NVGPU_CTX_STATUS_VALID;
	status->ctx_id = (u32)executes[engine];
}

static bool engine_interrupts(struct gk20a *gpu, u32 engine, u32 *mask)
{
	*mask = hangs[engine] == HAS_INTERRUPT;
	return *mask;
}

static void read_pbdma(struct gk20a *gpu, u32 pbdma, struct nvgpu_pbdma_status_info *status)
{
	memset(status, 0, sizeof(*status));
	status->chsw_status = NVGPU_PBDMA_CHSW_STATUS_INVALID;
}

static void channel_bind(struct nvgpu_channel *ch)
{
	enabled[ch->chid] = true;
}

static void channel_unbind(struct nvgpu_channel *ch)
{
	enabled[ch->chid] = false;
}

static u32 channel_progress(struct gk20a *gpu, struct nvgpu_channel *ch)
{
	return progress[ch->chid];
}

static u64 channel_progress_64(struct gk20a *gpu, struct nvgpu_channel *ch)
{
	return progress[ch->chid];
}

#if R == 35
static void channel_enable(struct nvgpu_channel *ch)
{
	enabled[ch->chid] = true;
}

static void channel_read_state(struct gk20a *gpu, struct nvgpu_channel *ch, struct nvgpu_channel_hw_state *state)
{
	memset(state, 0, sizeof(*state));
}

static void preempt_trigger(struct gk20a *gpu, u32 id, unsigned int what)
{
	preempt(what == ID_TYPE_RUNLIST ? id : g->fifo.tsg[id].runlist->id, id, what);
}

static void hw_submit(struct gk20a *gpu, struct nvgpu_runlist *rl)
{
	decode(rl->id, rl->domain->mem_hw->mem.cpu_va, rl->domain->mem_hw->count);
}

static int wait_pending(struct gk20a *gpu, struct nvgpu_runlist *rl)
{
	return is_pending[rl->id] ? -ETIMEDOUT : 0;
}
#else
static void channel_enable(struct gk20a *gpu, u32 runlist, u32 channel)
{
	enabled[channel] = true;
}

static void channel_disable(struct gk20a *gpu, u32 runlist, u32 channel)
{
	enabled[channel] = false;
}

static void channel_read_state(struct gk20a *gpu, u32 runlist, u32 channel, struct nvgpu_channel_hw_state *state)
{
	memset(state, 0, sizeof(*state));
}

static void preempt_trigger(struct gk20a *gpu, u32 runlist, u32 id, unsigned int what)
{
	preempt(runlist, id, what);
}

static void hw_submit(struct gk20a *gpu, u32 runlist, u64 address, enum nvgpu_aperture aperture, u32 count)
{
	decode(runlist, (const u32 *)(uintptr_t)address, count);
}

static int check_pending(struct gk20a *gpu, struct nvgpu_runlist *rl)
{
	return is_pending[rl->id];
}
#endif

/* It forgets its lists. */
static void hardware_off(void)
{
	int r;

	memset(in_force, 0, sizeof(in_force));
	for (r = 0; r < RUNLISTS; r++)
		executes[r] = NOTHING;
}

static void hardware_start(void)
{
	int r;

	hardware_off();
	memset(enabled, 0, sizeof(enabled));
	memset(progress, 0, sizeof(progress));
	for (r = 0; r < RUNLISTS; r++) {
		scheduling[r] = true;
		is_pending[r] = will_be_pending[r] = false;
		hangs[r] = WORKS;
	}
	g->ops.runlist.get_tsg_entry = get_tsg_entry;
	g->ops.runlist.get_ch_entry = get_ch_entry;
	g->ops.runlist.hw_submit = hw_submit;
	g->ops.runlist.write_state = write_state;
	g->ops.fifo.preempt_trigger = preempt_trigger;
	g->ops.engine_status.read_engine_status_info = read_engine;
	g->ops.pbdma_status.read_pbdma_status_info = read_pbdma;
	g->ops.mc.is_stall_and_eng_intr_pending = engine_interrupts;
	g->ops.channel.bind = channel_bind;
	g->ops.channel.unbind = channel_unbind;
	g->ops.channel.enable = channel_enable;
	g->ops.channel.read_state = channel_read_state;
	g->ops.userd.gp_get = channel_progress;
	g->ops.userd.pb_get = channel_progress_64;
#if R == 35
	g->ops.runlist.wait_pending = wait_pending;
	g->ops.channel.disable = channel_unbind;
	g->ops.channel.clear = channel_unbind;
#else
	g->ops.runlist.check_pending = check_pending;
	g->ops.channel.disable = channel_disable;
	g->ops.channel.clear = channel_disable;
#endif
}

#endif

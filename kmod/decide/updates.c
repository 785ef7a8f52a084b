// SPDX-License-Identifier: GPL-2.0
/*
 * Updates of the runlist that no caller asks for: when the timer expires, when the driver reports something, and when
 * the driver goes away.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/printk.h>

#include "compat.h"
#include "decide/decide.h"
#include "state/team.h"

static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, runlist.timer);

	kthread_queue_work(gpu->worker, &gpu->runlist.tick);
	return HRTIMER_NORESTART;
}

static void tick(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, runlist.tick);
	struct gpurt_update u = { .decide = gpurt_runlist_tick, .level = GPURT_GATE_URGENT };

	gpurt_update(gpu, &u);
}

struct seat_update {
	struct gpurt_update u;
	struct gpurt_seat *seat;
};

static int decide_follow(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_group_gpu *g = &container_of(u, struct seat_update, u)->seat->core;

	if (g->unsettled && g->members)
		gpurt_group_settle(g, now);
	return 0;
}

/* Called by the GPU's thread.  The key of a group has changed on another GPU: changes it on this one. */
static void follow(struct kthread_work *work)
{
	struct gpurt_seat *seat = container_of(work, struct gpurt_seat, settle);
	struct seat_update s = {
		.u = { .decide = decide_follow, .level = GPURT_GATE_URGENT }, .seat = seat,
	};

	gpurt_update(seat->gpu, &s.u);
	gpurt_team_put(seat->team);
}

/* Called before the seat has members.  No work of its last GPU is queued, because that GPU's thread has ended. */
void gpurt_updates_seat(struct gpurt_seat *seat)
{
	kthread_init_work(&seat->settle, follow);
}

/* Called before there are decisions. */
void gpurt_updates_init(struct gpurt_gpu *gpu)
{
	struct gpurt_runlist *r = &gpu->runlist;

	compat_hrtimer_setup(&r->timer, timer_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	kthread_init_work(&r->tick, tick);
}

/* Called with the GPU held alive, after the driver has changed which TSGs are on the runlist beside the runner. */
void gpurt_updates_refresh(struct gpurt_gpu *gpu)
{
	struct gpurt_update u = { .decide = gpurt_runlist_renew, .level = GPURT_GATE_CONTROL };

	gpurt_gate_update(gpu, &u);
}

/*
 * Called while the driver goes away, when no other decision is under way.  The runlist becomes everyone's again,
 * without a runner.  Readers of the control plane may still hold the GPU when the clients are freed: they find no
 * runner.  A driver that fails is called again for a quarter of a second, and at least several times even if the
 * machine stands still.
 */
void gpurt_updates_drain(struct gpurt_gpu *gpu)
{
	struct gpurt_update u = {
		.decide = gpurt_runlist_give_all, .level = GPURT_GATE_URGENT, .flags = GPURT_UPDATE_LAST,
	};
	u64 delay = GPURT_RETRY_FIRST_NS, until;
	int least = 8;

	gpurt_gate_update(gpu, &u);
	until = ktime_get_ns() + 2 * GPURT_RETRY_LAST_NS + (gpu->runlist.flight ? gpu->ops.bound_ns : 0);
	u.decide = gpurt_runlist_tick;
	/* In the middle of a reset there is no runlist. */
	while (u.fault && !atomic_read(&gpu->runlist.holds) && (least-- > 0 || ktime_get_ns() < until)) {
		fsleep(delay / NSEC_PER_USEC);
		delay = min(2 * delay, GPURT_RETRY_LAST_NS / 8);
		gpurt_gate_update(gpu, &u);
	}
	if (u.fault && !atomic_read(&gpu->runlist.holds))
		pr_err("gpurt: GPU %u: its driver goes away and leaves the runlist as it is: no update succeeded\n",
		       gpu->index);
}

/* Called when no decision is under way and none will be taken. */
void gpurt_updates_stop(struct gpurt_gpu *gpu)
{
	hrtimer_cancel(&gpu->runlist.timer);
	cancel_work_sync(&gpu->runlist.aftermath);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Begin by yield (docs/readings/yield.md), as in kmod/core/agents.h.  The most urgent process launches at once if its
 * group is on, and posts to the host.  The host has all others taken off after `lazy`; at once, if the previous segment
 * lasted longer than `lazy`.  Another process's begin has them taken off before it launches.  A process has one order
 * at a time.  Calls are carried out one at a time, in the order in which agents make them.  Each time is at most the
 * config's, and may be shorter.  Of the processes that take turns, one is on at a time.  It passes its turn on as soon
 * as it may, or later; the next one comes on when all others have answered that they are off.  While the host knows of
 * an owner, no process passes its turn on, or comes on in a new turn.
 */
#include "sim.h"

/* A time of at most @most. */
static u64 within(struct sim *s, u64 most)
{
	if (s->chooser)
		return most && sim_below(s, 2) ? most : 0;
	switch (sim_draw(s) % 4) {
	case 0:
		return 0;
	case 1:
		return sim_draw(s) % (most + 1);
	default:
		return most;
	}
}

static void launch(struct sim *s, struct job_task *t, u64 duration)
{
	struct gpurt_vgpu_demand d = { .duration = duration, .engine = GPURT_ENGINE_EXEC, .conflict = GPURT_FACTOR_ONE };

	t->yield.held = t->yield.off || t->yield.waits ? duration : 0;
	if (!t->yield.held)
		gpurt_vgpu_submit_as(&t->part->vgpu, t->on, &t->work, &d, s->now);
}

/* Launches the work that has waited until the process may execute. */
static void launch_held(struct sim *s, struct job_task *t)
{
	if (t->yield.held)
		launch(s, t, t->yield.held);
}

/* Gives the host a packet of the task's to read. */
static void post(struct sim *s, struct job_task *t)
{
	if (t->yield.read == U64_MAX)
		t->yield.read = s->now + within(s, s->config->yield.decision);
}

/* Whether the task's process may begin without asking, as far as its agent knows. */
static bool is_free(const struct sim *s, const struct job_task *t)
{
	const struct job_task *other;

	for (other = s->tasks; other < s->tasks + s->count; other++)
		if (other->task->gpu_priority > t->task->gpu_priority && other->client.tsgs)
			return false;
	return !t->yield.off && (t->yield.order <= SENT || !t->yield.takes_off);
}

static void post_begin(struct sim *s, struct job_task *t)
{
	if (t->yield.posted || !t->task->priority)
		return;
	t->yield.posted = t->yield.renewed = true;
	t->yield.free = is_free(s, t);
	t->yield.waits = !t->yield.free;
	post(s, t);
}

void sim_yield_init(struct job_task *t)
{
	t->yield.read = t->yield.at = t->yield.gap = U64_MAX;
	t->part->lazy_until = U64_MAX;
	t->yield.off = t->task->turns && t->part->turn;
	if (!t->task->turns || t->part->turn)
		return;
	t->part->turn = t;
	t->part->turn_on = true;
	t->part->turn_until = t->part->sim->config->yield.lazy;
}

void sim_yield_begin(struct sim *s, struct job_task *t)
{
	sim_record(s, GPURT_SIM_BEGIN, t, -1, s->now, 0);
	sim_record(s, GPURT_SIM_GRANT, t, -1, s->now, 0);
	if (sim_below(s, 2))	/* the program posts before G^m, or only launches after it */
		post_begin(s, t);
}

void sim_yield_end(struct sim *s, struct job_task *t)
{
	sim_record(s, GPURT_SIM_END, t, -1, s->now, 0);
	if (t->yield.posted)
		post(s, t);
	t->yield.posted = t->yield.waits = false;
}

/* Draws the next kernel of a segment, and leaves at least 1 ns of the segment for each later kernel. */
static void next_kernel(struct sim *s, struct job_task *t)
{
	u64 kernel = t->yield.rest;

	if (--t->yield.kernels)
		kernel = 1 + sim_below(s, (t->yield.rest - t->yield.kernels) / (t->yield.kernels + 1) + 1);
	t->yield.rest -= kernel;
	launch(s, t, kernel);
}

void sim_yield_launch(struct sim *s, struct job_task *t, u64 duration)
{
	u32 most = t->segments[t->at].ready;

	post_begin(s, t);
	t->yield.rest = duration;
	t->yield.kernels = most && most <= duration ? most : 1;
	next_kernel(s, t);
}

/* A kernel is done.  Returns whether the segment has another one, after a gap in which its group is not ready. */
bool sim_yield_goes_on(struct sim *s, struct job_task *t, u64 when)
{
	u64 gap;

	if (!t->yield.kernels)
		return false;
	gap = sim_below(s, (t->yield.rest - t->yield.kernels) / 2 + 1);
	t->yield.rest -= gap;
	t->yield.gap = when + gap;
	return true;
}

/* An order has been carried out: work of a process that is off waits for the next order. */
static void carry_out(struct sim *s, struct job_task *t)
{
	if (t->yield.off == t->yield.takes_off)
		return;
	t->yield.off = t->yield.takes_off;
	if (t->yield.off && t->tsg.queued) {
		t->yield.held = t->work.pace.left;
		gpurt_vgpu_drop(&t->part->vgpu, t->on, s->now);
	}
	launch_held(s, t);
}

static void start_call(struct sim *s, struct part *p)
{
	struct job_task *t, *first = NULL;

	for (t = s->tasks; t < s->tasks + s->count; t++) {
		if (t->yield.order == CALLING)
			return;
		if (t->yield.order == QUEUED && (!first || t->yield.ticket < first->yield.ticket))
			first = t;
	}
	if (!first)
		return;
	first->yield.order = CALLING;
	first->yield.at = s->now + within(s, s->config->yield.call);
	if (s->config->yield.stall)
		gpurt_vgpu_commit(&p->vgpu, NULL, s->now);
	if (sim_below(s, 2))
		carry_out(s, first);
}

/* Whether all processes but the owner's are off, and have answered. */
static bool is_alone(const struct sim *s, const struct job_task *owner)
{
	const struct job_task *t;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t != owner && t->client.tsgs && (t->yield.order || !t->yield.off))
			return false;
	return true;
}

/* Passes the turn on if it is time; the process whose turn it is comes on when the others are off. */
static void pass_turn(struct sim *s, struct part *p)
{
	struct job_task *t, *last = s->tasks + s->count - 1;
	bool passes = s->now >= p->turn_until, others = false;

	if (!p->turn || p->owner)
		return;
	for (t = p->turn; passes; ) {
		t = t == last ? s->tasks : t + 1;
		passes = !t->task->turns;
		if (passes)
			continue;
		p->turn = t;
		p->turn_until = U64_MAX;
		p->turn_on = false;
	}
	for (t = s->tasks; t <= last; t++)
		others |= t != p->turn && t->task->turns && (t->yield.order || !t->yield.off);
	if (p->turn_on || others)
		return;
	p->turn_on = true;
	p->turn_until = s->now + s->config->yield.lazy + within(s, s->config->yield.lazy);
}

/* The one rule for orders: all processes are on, or only the owner is, which comes on after all others are off. */
static void give_orders(struct sim *s, struct part *p)
{
	const struct job_task *owner = p->lazy_until == U64_MAX ? p->owner : NULL;
	struct job_task *t;
	bool off;

	pass_turn(s, p);
	for (t = s->tasks; t < s->tasks + s->count; t++) {
		off = owner && (t != owner || (t->yield.off && !is_alone(s, owner)));
		off |= t->task->turns && (t != p->turn || !p->turn_on);
		if (t == owner && t->yield.waits && !t->yield.off && is_alone(s, owner)) {
			t->yield.waits = false;
			launch_held(s, t);
		}
		if (t->yield.order || t->yield.off == off || !t->client.tsgs)
			continue;
		t->yield.order = SENT;
		t->yield.takes_off = off;
		t->yield.at = s->now + within(s, s->config->yield.wake);
	}
}

/* Makes the next step of an order. */
static void proceed(struct sim *s, struct job_task *t)
{
	t->yield.at = U64_MAX;
	switch (t->yield.order) {
	case SENT:
		t->yield.order = QUEUED;
		t->yield.ticket = ++t->part->tickets;
		break;
	case CALLING:
		carry_out(s, t);
		t->yield.order = ANSWERED;
		t->yield.at = s->now + within(s, s->config->yield.decision);
		break;
	default:
		t->yield.order = NO_ORDER;
	}
	start_call(s, t->part);
}

/* The host reads the task's posts: the end of the segment that it knows of, and the begin of another. */
static void read_posts(struct sim *s, struct job_task *t)
{
	struct part *p = t->part;

	t->yield.read = U64_MAX;
	if (t->yield.known && (!t->yield.posted || t->yield.renewed)) {
		t->yield.known = false;
		gpurt_end(&p->sched, t->as, s->now);
	}
	if (t->yield.posted && !t->yield.known) {
		t->yield.known = true;
		if (p->lazy_until != U64_MAX)	/* the part's owner is not alone yet, and has to be now */
			p->lazy_until = s->now;
		else if (t->yield.free && !p->owner)
			p->lazy_until = s->now + within(s, s->config->yield.lazy) + within(s, s->config->yield.decision);
		gpurt_begin(&p->sched, t->as, t->task->gpu_priority, 0, s->now);
	}
	t->yield.renewed = false;
}

static void happen(struct sim *s, struct job_task *t)
{
	if (t->yield.read <= s->now)
		read_posts(s, t);
	if (t->yield.at <= s->now)
		proceed(s, t);
	if (t->yield.gap <= s->now) {
		t->yield.gap = U64_MAX;
		next_kernel(s, t);
	}
}

static u64 next_of(const struct job_task *t)
{
	u64 next = t->yield.at < t->yield.gap ? t->yield.at : t->yield.gap;

	return t->yield.read < next ? t->yield.read : next;
}

u64 sim_yield_next(const struct sim *s)
{
	const struct job_task *t;
	const struct part *p = s->parts;
	u64 next = p->lazy_until;

	if (p->turn && !p->owner && p->turn_until < next)
		next = p->turn_until;
	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (next_of(t) < next)
			next = next_of(t);
	return next;
}

void sim_yield_happen(struct sim *s)
{
	struct job_task *t;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (next_of(t) <= s->now)
			happen(s, t);
	if (s->parts->lazy_until <= s->now)
		s->parts->lazy_until = U64_MAX;
	give_orders(s, s->parts);
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "vgpu.h"
#include "whole.h"

static struct gpurt_vgpu_work *head(const struct gpurt_vgpu_tsg *t, u32 engine)
{
	if (list_empty(&t->queue[engine]))
		return NULL;
	return list_first_entry(&t->queue[engine], struct gpurt_vgpu_work, node);
}

/*
 * The work that @engine of @t executes; NULL if it is idle or waits at a fence.  Queues are in order, so
 * everything before a fence has completed once no other engine's head is older.
 */
static struct gpurt_vgpu_work *active(const struct gpurt_vgpu_tsg *t, u32 engine)
{
	struct gpurt_vgpu_work *w = head(t, engine), *other;
	u32 e;

	if (!w || !w->fence)
		return w;
	for (e = 0; e < GPURT_ENGINE_COUNT; e++) {
		other = e == engine ? NULL : head(t, e);
		if (other && other->number < w->number)
			return NULL;
	}
	return w;
}

/* Whether a memory-intensive kernel executes. */
bool gpurt_vgpu_executes_memory(const struct gpurt_vgpu *v)
{
	const struct gpurt_vgpu_work *w = v->executing ? active(v->holder, GPURT_ENGINE_EXEC) : NULL;

	return w && w->intensity == GPURT_INTENSITY_MEMORY;
}

/* The pace at which @w executes now. */
static u64 pace(const struct gpurt_vgpu *v, const struct gpurt_vgpu_work *w)
{
	u32 inside = GPURT_FACTOR_ONE, across = GPURT_FACTOR_ONE;

	if (!w->intensity)
		return GPURT_PACE;
	if (v->users[w->intensity] > 1)
		inside = w->conflict;
	if (w->intensity == GPURT_INTENSITY_MEMORY && v->whole)
		across = gpurt_whole_factor(v->whole, v);
	return gpurt_pace_of(inside, across);
}

static void say(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t)
{
	if (v->ops->run)
		v->ops->run(v, t, v->now);
}

static void stop(struct gpurt_vgpu *v)
{
	if (v->executing)
		say(v, NULL);
	v->executing = false;
	v->holder = NULL;
}

static struct gpurt_vgpu_tsg *first_of(const struct list_head *ring, size_t node)
{
	if (list_empty(ring))
		return NULL;
	return (struct gpurt_vgpu_tsg *)(void *)((char *)ring->next - node);
}

static struct gpurt_vgpu_tsg *at_place(struct gpurt_place *p)
{
	return p ? list_entry(p, struct gpurt_vgpu_tsg, in_all) : NULL;
}

/* The TSG on the runlist whose turn it is: the one of its level that has waited longest since its last turn. */
static struct gpurt_vgpu_tsg *pick(const struct gpurt_vgpu *v)
{
	struct gpurt_vgpu_tsg *own, *exempt;

	if (!v->only)
		return at_place(gpurt_interleave_first(&v->ready));
	own = first_of(&v->only->ready, offsetof(struct gpurt_vgpu_tsg, in_ctx));
	exempt = first_of(&v->exempt, offsetof(struct gpurt_vgpu_tsg, in_exempt));
	if (!own || (exempt && exempt->turn < own->turn))
		return exempt;
	return own;
}

/* Whether no TSG on the runlist has work.  *@asked: whether a TSG off the runlist has work. */
bool gpurt_vgpu_quiet(const struct gpurt_vgpu *v, bool *asked)
{
	bool quiet = !pick(v);

	*asked = quiet && gpurt_interleave_first(&v->ready);
	return quiet;
}

/* Whether @ring holds any TSG besides the one with node @mine. */
static bool others(const struct list_head *ring, const struct list_head *mine)
{
	return !list_empty(ring) && (ring->next != mine || mine->next != ring);
}

/* Whether a TSG on the runlist waits for the end of the holder's slice. */
static bool contended(const struct gpurt_vgpu *v)
{
	const struct gpurt_vgpu_tsg *t = v->holder;

	if (!v->only)
		return v->asking > 1;
	return others(&v->only->ready, &t->in_ctx) || others(&v->exempt, &t->in_exempt);
}

static u64 slice_of(const struct gpurt_vgpu *v, const struct gpurt_vgpu_tsg *t)
{
	return t->slice ? t->slice : v->slice;
}

/*
 * A TSG may be about to join the runlist.  Whole slices that the holder had alone are over, and from now on its slice
 * ends in time.
 */
static void renew(struct gpurt_vgpu *v)
{
	u64 slice;

	if (!v->executing || v->slice_end >= v->now || contended(v))
		return;
	slice = slice_of(v, v->holder);
	v->slice_end += (v->now - v->slice_end + slice - 1) / slice * slice;
}

/*
 * Gives the GPU, if it is free, to the TSG whose turn it is.  A context switch that a runlist update interrupts starts
 * anew, so `loaded` is set only when the switch is over.
 */
static void dispatch(struct gpurt_vgpu *v)
{
	struct gpurt_vgpu_tsg *t;

	if (v->holder || v->now < v->ready_at)
		return;
	t = v->only ? pick(v) : at_place(gpurt_interleave_take(&v->ready));
	if (!t)
		return;
	v->holder = t;
	if (v->loaded != t) {
		v->loaded = NULL;
		v->ready_at = v->now + v->theta;
	}
}

/* The switch to the current TSG is over: it executes. */
static void execute(struct gpurt_vgpu *v)
{
	v->loaded = v->holder;
	v->executing = true;
	v->slice_end = v->now + slice_of(v, v->holder);
	say(v, v->holder);
}

/* Puts @t last, when it gets work or its turn is over. */
static void rotate(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t)
{
	t->turn = ++v->turns;
	list_move_tail(&t->in_ctx, &t->ctx->together->ready);
	if (t->ctx->exempt)
		list_move_tail(&t->in_exempt, &v->exempt);
}

/* Takes a TSG without work out of the rings and off the GPU. */
static void retire(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t)
{
	if (v->holder == t)
		gpurt_interleave_over(&v->ready, &t->in_all);
	gpurt_interleave_leave(&t->in_all);
	v->asking--;
	list_del_init(&t->in_ctx);
	list_del_init(&t->in_exempt);
	if (v->holder == t)
		stop(v);
}

/* Takes @w out of @t: it is done, or dropped. */
static void take_out(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w)
{
	list_del_init(&w->node);
	if (!--t->ctx->queued[w->intensity])
		v->users[w->intensity]--;
	if (!--t->queued)
		retire(v, t);
}

static void complete(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w)
{
	take_out(v, t, w);
	v->ops->done(v, t, w, v->now);
}

/* A GPU that executes nothing begins what it may at the time it has reached. */
static void take_up(struct gpurt_vgpu *v)
{
	dispatch(v);
	if (v->holder && v->now >= v->ready_at)
		execute(v);
}

/* Carries out what is due at the time that the GPU has reached. */
void gpurt_vgpu_happen(struct gpurt_vgpu *v)
{
	struct gpurt_vgpu_tsg *t = v->holder;
	struct gpurt_vgpu_work *w;
	u32 e;

	if (v->executing) {
		for (e = 0; e < GPURT_ENGINE_COUNT; e++) {
			w = active(t, e);
			if (w && !w->pace.left)
				complete(v, t, w);
		}
		if (v->holder && v->now >= v->slice_end && contended(v)) {
			stop(v);
			gpurt_interleave_over(&v->ready, &t->in_all);
			rotate(v, t);
		}
	}
	if (!v->executing)
		take_up(v);
}

void gpurt_vgpu_init(struct gpurt_vgpu *v, const struct gpurt_vgpu_ops *ops, void *host, u64 slice, u64 theta,
		     u64 alpha, bool copy_engine, u64 now)
{
	*v = (struct gpurt_vgpu){
		.ops = ops, .host = host, .slice = slice ? slice : U64_MAX / 4, .theta = theta, .alpha = alpha,
		.units = 1, .copy_engine = copy_engine, .now = now, .ready_at = now,
	};
	INIT_LIST_HEAD(&v->in_whole);
	gpurt_interleave_init(&v->ready);
	INIT_LIST_HEAD(&v->exempt);
}

/* Whether the GPU is about to be free.  A partition may have reached this time because of an event on another. */
static bool frees(const struct gpurt_vgpu *v)
{
	return v->now < v->ready_at || (v->now == v->ready_at && v->whole);
}

/*
 * When executing work will next complete, or its slice end.  Not inlined, like get_on(): each begin and end asks idle
 * GPUs several times, and these calls should save no registers for this.
 */
static noinline u64 executes_until(const struct gpurt_vgpu *v)
{
	const struct gpurt_vgpu_work *w;
	u64 next = U64_MAX, end;
	u32 e;

	for (e = 0; e < GPURT_ENGINE_COUNT; e++) {
		w = active(v->holder, e);
		end = w ? v->now + gpurt_pace_time(&w->pace, pace(v, w)) : U64_MAX;
		if (end < next)
			next = end;
	}
	if (v->slice_end < next && contended(v))
		next = v->slice_end;
	return next;
}

/*
 * When the GPU will next do something by itself; U64_MAX: never.  For a partition this holds only until another
 * partition's earlier event, which may change it.
 */
u64 gpurt_vgpu_next(const struct gpurt_vgpu *v)
{
	if (v->executing)
		return executes_until(v);
	return v->holder || (frees(v) && pick(v)) ? v->ready_at : U64_MAX;
}

/* As gpurt_vgpu_next(), for all partitions of the GPU if @v is a partition. */
u64 gpurt_vgpu_next_of_all(const struct gpurt_vgpu *v)
{
	return v->whole ? gpurt_whole_next(v->whole) : gpurt_vgpu_next(v);
}

/* Executing work advances by @ns. */
static noinline void get_on(struct gpurt_vgpu *v, u64 ns)
{
	struct gpurt_vgpu_work *w, *run[GPURT_ENGINE_COUNT];
	u32 e;

	for (e = 0; e < GPURT_ENGINE_COUNT; e++)
		run[e] = active(v->holder, e);
	for (e = 0; e < GPURT_ENGINE_COUNT; e++) {
		w = run[e];
		if (w)
			gpurt_pace_pass(&w->pace, pace(v, w), ns);
	}
}

/* Lets time pass until @when.  Nothing must be due before. */
void gpurt_vgpu_pass(struct gpurt_vgpu *v, u64 when)
{
	if (v->executing && when > v->now)
		get_on(v, when - v->now);
	v->now = when;
}

/* Brings the GPU to @now; completions are reported in order, with their exact times. */
void gpurt_vgpu_advance(struct gpurt_vgpu *v, u64 now)
{
	while (!gpurt_vgpu_catch_up(v, now, U32_MAX))
		;
}

/* gpurt_vgpu_catch_up() for a GPU that is not divided. */
static bool catch_up_alone(struct gpurt_vgpu *v, u64 now, u32 most)
{
	u64 next;

	while ((next = gpurt_vgpu_next(v)) <= now) {
		if (!most--)
			return false;
		gpurt_vgpu_pass(v, next);
		gpurt_vgpu_happen(v);
	}
	if (now > v->now)
		gpurt_vgpu_pass(v, now);
	return true;
}

/*
 * Brings the GPU towards @now by at most @most events on it.  Returns true if it is there; false: more is due, and the
 * GPU's time is the time of the last event.
 */
bool gpurt_vgpu_catch_up(struct gpurt_vgpu *v, u64 now, u32 most)
{
	return v->whole ? gpurt_whole_catch_up(v->whole, now, most) : catch_up_alone(v, now, most);
}

/* gpurt_vgpu_stand_still() for one partition, or a GPU that is not divided. */
void gpurt_vgpu_stand_still_alone(struct gpurt_vgpu *v, u64 now)
{
	u64 lost = now - v->now;

	v->now = now;
	v->ready_at += lost;
	v->slice_end += lost;
}

/*
 * The GPU did nothing since the time that it has reached; from @now it continues as it would have from there.  All
 * partitions of a GPU stand still together.
 */
void gpurt_vgpu_stand_still(struct gpurt_vgpu *v, u64 now)
{
	if (v->whole)
		gpurt_whole_stand_still(v->whole, now);
	else
		gpurt_vgpu_stand_still_alone(v, now);
}

/*
 * Makes the runlist @only's (NULL: everyone's) at the time that the GPU has reached.  Whatever executes is preempted
 * and the GPU stalls for alpha.  Returns the time at which the update is over.
 */
u64 gpurt_vgpu_commit_here(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *only)
{
	u64 over = v->now + v->alpha;

	stop(v);
	v->only = only;
	v->ready_at = over;
	take_up(v);
	return over;
}

/* The same at @now. */
u64 gpurt_vgpu_commit(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *only, u64 now)
{
	gpurt_vgpu_advance(v, now);
	return gpurt_vgpu_commit_here(v, only);
}

void gpurt_vgpu_ctx_init(struct gpurt_vgpu_ctx *ctx)
{
	*ctx = (struct gpurt_vgpu_ctx){ .together = ctx };
	INIT_LIST_HEAD(&ctx->ready);
}

/*
 * The TSGs of an exempt context are on every runlist.  A commit must follow if that changes the present runlist.  The
 * TSGs take their places among the other exempt ones in order of turns.
 */
void gpurt_vgpu_exempt(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *ctx, bool exempt, u64 now)
{
	struct list_head *pos, *at;
	struct gpurt_vgpu_tsg *t;

	gpurt_vgpu_advance(v, now);
	if (ctx->exempt == exempt)
		return;
	renew(v);
	ctx->exempt = exempt;
	at = v->exempt.next;
	list_for_each(pos, &ctx->together->ready) {
		t = list_entry(pos, struct gpurt_vgpu_tsg, in_ctx);
		if (t->ctx != ctx)
			continue;
		if (!exempt) {
			list_del_init(&t->in_exempt);
			continue;
		}
		while (at != &v->exempt && list_entry(at, struct gpurt_vgpu_tsg, in_exempt)->turn < t->turn)
			at = at->next;
		list_add_tail(&t->in_exempt, at);
	}
}

/*
 * From now on the TSGs of @ctx, which is in no group, are on the runlist of @group.  They take their places among the
 * group's in order of turns, but only among its first GPURT_VGPU_MERGE; the rest come last.  The module has interrupts
 * off meanwhile, and users choose how many TSGs there are.
 */
void gpurt_vgpu_unite(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *ctx, struct gpurt_vgpu_ctx *group, u64 now)
{
	u32 steps = GPURT_VGPU_MERGE;
	struct list_head *at;
	struct gpurt_vgpu_tsg *t;

	gpurt_vgpu_advance(v, now);
	renew(v);
	ctx->together = group;
	at = group->ready.next;
	while (!list_empty(&ctx->ready)) {
		t = list_first_entry(&ctx->ready, struct gpurt_vgpu_tsg, in_ctx);
		while (at != &group->ready && list_entry(at, struct gpurt_vgpu_tsg, in_ctx)->turn < t->turn)
			at = steps && steps-- ? at->next : &group->ready;
		list_move_tail(&t->in_ctx, at);
	}
	gpurt_vgpu_happen(v);
}

void gpurt_vgpu_tsg_open(struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_ctx *ctx)
{
	u32 e;

	*t = (struct gpurt_vgpu_tsg){ .ctx = ctx };
	gpurt_place_init(&t->in_all, GPURT_INTERLEAVE_LOW);
	INIT_LIST_HEAD(&t->in_ctx);
	INIT_LIST_HEAD(&t->in_exempt);
	for (e = 0; e < GPURT_ENGINE_COUNT; e++)
		INIT_LIST_HEAD(&t->queue[e]);
}

/* Gives @t a time slice of its own (0: that of the GPU), from its next turn on, and an interleave level. */
void gpurt_vgpu_shape(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 slice, u32 level, u64 now)
{
	gpurt_vgpu_advance(v, now);
	renew(v);
	t->slice = slice;
	if (t->in_all.level == level)
		return;
	gpurt_interleave_leave(&t->in_all);
	gpurt_place_init(&t->in_all, level);
	if (t->queued)
		gpurt_interleave_join(&v->ready, &t->in_all);
}

/* @t must have been emptied by gpurt_vgpu_drop(). */
void gpurt_vgpu_tsg_close(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 now)
{
	gpurt_vgpu_advance(v, now);
	if (v->loaded == t)
		v->loaded = NULL;
}

/* Translates a call that submits work into a demand. */
void gpurt_vgpu_demand_of(struct gpurt_vgpu_demand *d, const struct gpurt_submit *s)
{
	*d = (struct gpurt_vgpu_demand){
		.duration = s->duration_ns, .engine = s->engine,
		.conflict = s->conflict ? s->conflict : GPURT_FACTOR_ONE,
		.parallel = s->flags & GPURT_SUBMIT_PARALLEL, .fence = s->flags & GPURT_SUBMIT_FENCE,
	};
	if (s->flags & GPURT_SUBMIT_MEMORY)
		d->intensity = GPURT_INTENSITY_MEMORY;
	else if (s->flags & GPURT_SUBMIT_COMPUTE)
		d->intensity = GPURT_INTENSITY_COMPUTE;
}

/* The demand's duration on the units of the GPU without conflicts, in ns, rounded up. */
u64 gpurt_vgpu_time(const struct gpurt_vgpu *v, const struct gpurt_vgpu_demand *d)
{
	u64 units = d->parallel ? v->units : 1;

	return d->duration / units + !!(d->duration % units);
}

/* Queues @w; returns its number. */
u64 gpurt_vgpu_submit_as(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w,
			 const struct gpurt_vgpu_demand *d, u64 now)
{
	gpurt_vgpu_advance(v, now);
	w->number = ++t->submitted;
	gpurt_pace_init(&w->pace, gpurt_vgpu_time(v, d));
	w->engine = v->copy_engine ? d->engine : GPURT_ENGINE_EXEC;
	w->intensity = d->intensity;
	w->conflict = d->conflict;
	w->fence = d->fence;
	list_add_tail(&w->node, &t->queue[w->engine]);
	if (!t->ctx->queued[w->intensity]++)
		v->users[w->intensity]++;
	if (!t->queued++) {
		renew(v);
		gpurt_interleave_join(&v->ready, &t->in_all);
		v->asking++;
		rotate(v, t);
	}
	gpurt_vgpu_happen(v);
	return w->number;
}

/* Likewise for work at full pace. */
u64 gpurt_vgpu_submit(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w, u32 engine,
		      bool fence, u64 duration, u64 now)
{
	struct gpurt_vgpu_demand d = {
		.duration = duration, .engine = engine, .conflict = GPURT_FACTOR_ONE, .fence = fence,
	};

	return gpurt_vgpu_submit_as(v, t, w, &d, now);
}

/* Takes all unfinished items out of @t.  The caller owns their memory, and must still know where it is. */
void gpurt_vgpu_empty(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 now)
{
	u32 e;

	gpurt_vgpu_advance(v, now);
	for (e = 0; e < GPURT_ENGINE_COUNT; e++)
		while (head(t, e))
			take_out(v, t, head(t, e));
	gpurt_vgpu_happen(v);
}

/* Takes one unfinished item out of @t, so that the caller can free it; NULL: no item is left. */
struct gpurt_vgpu_work *gpurt_vgpu_drop(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 now)
{
	struct gpurt_vgpu_work *w = NULL;
	u32 e;

	gpurt_vgpu_advance(v, now);
	for (e = 0; e < GPURT_ENGINE_COUNT && !w; e++)
		w = head(t, e);
	if (!w)
		return NULL;
	take_out(v, t, w);
	gpurt_vgpu_happen(v);
	return w;
}

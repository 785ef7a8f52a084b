// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Algorithm 2 (how many units) and algorithm 3 (what the GPU would then do), and the energy of that. */
#include "sbeet_allocate.h"

/* A dispatch in the worst case: copy in, kernel, copy out. */
struct placed {
	u32 task;
	u32 units;
	u64 start;
	u64 end;
	u64 free;
	u64 finish;
};

static struct placed place(const struct gpurt_sbeet_tables *t, u32 task, u32 gpu, u32 units, u64 dispatch)
{
	const struct gpurt_sbeet_kernel *k = kernel_of(t, task, gpu);
	struct placed p = { .task = task, .units = units, .start = dispatch + k->copy_in };

	p.end = p.start + k->time[units - 1];
	p.finish = p.end + k->copy_out;
	p.free = t->hold_job ? p.finish : p.end;
	return p;
}

/* @plan: what a host places if it dispatches the job now.  @finish: when the job is done.  Both in the worst case. */
void gpurt_sbeet_plan(const struct gpurt_sbeet_tables *t, u32 task, u32 gpu, u32 units, u64 now,
		      struct gpurt_sgpu_job *plan, u64 *finish)
{
	struct placed p = place(t, task, gpu, units, now);

	*plan = (struct gpurt_sgpu_job){
		.task = task, .units = units, .start = p.start, .planned_end = p.end, .planned_free = p.free,
		.end = p.end, .free = p.free,
	};
	*finish = p.finish;
}

/*
 * The energy of one GPU by the closed form: M p times the union of the kernels, and m len (pd - p) for each.
 * Kernels come in order of start, except the first few, which are put into order here.
 */
struct bill {
	u64 begin, until;
	u64 reached, busy;
	energy_t sum;
	u32 held, given;
	struct { u64 start, end; } early[GPURT_SGPU_SLOTS + 1];
};

static void cover(struct bill *b, u64 start, u64 end)
{
	if (start < b->reached)
		start = b->reached;
	if (end <= start)
		return;
	b->busy += end - start;
	b->reached = end;
}

static bool clip(const struct bill *b, u64 *start, u64 *end)
{
	if (*start < b->begin)
		*start = b->begin;
	if (*end > b->until)
		*end = b->until;
	return *start < *end;
}

static void charge(struct bill *b, const struct work *w, u32 gpu, u32 task, u32 units, u64 length)
{
	energy_t each = (energy_t)kernel_of(w->t, task, gpu)->power - w->t->gpu[gpu].idle_power;

	b->sum += each * units * length;
}

/* Bills a running kernel or the job's own.  These come before all others, in any order. */
static void bill_early(struct bill *b, const struct work *w, u32 gpu, u32 task, u32 units, u64 start, u64 end)
{
	u32 i;

	if (!clip(b, &start, &end))
		return;
	charge(b, w, gpu, task, units, end - start);
	for (i = b->held++; i && b->early[i - 1].start > start; i--)
		b->early[i] = b->early[i - 1];
	b->early[i].start = start;
	b->early[i].end = end;
}

/* Bills a later kernel.  These come in order of start. */
static void bill_late(struct bill *b, const struct work *w, u32 gpu, const struct placed *p)
{
	u64 start = p->start, end = p->end;

	if (!clip(b, &start, &end))
		return;
	charge(b, w, gpu, p->task, p->units, end - start);
	for (; b->given < b->held && b->early[b->given].start <= start; b->given++)
		cover(b, b->early[b->given].start, b->early[b->given].end);
	cover(b, start, end);
}

static energy_t bill_total(struct bill *b, const struct work *w, u32 gpu)
{
	const struct gpurt_sbeet_gpu *g = &w->t->gpu[gpu];
	energy_t total;

	for (; b->given < b->held; b->given++)
		cover(b, b->early[b->given].start, b->early[b->given].end);
	total = (energy_t)b->busy * g->idle_power * g->units + b->sum;
	if (!w->t->active)
		total += (energy_t)g->static_power * (b->until - b->begin);
	return total;
}

/* Opens a bill that has the GPU's running kernels; it covers complete schedules if active energies are compared. */
static void bill_open(struct bill *b, const struct work *w, u32 gpu, u64 until)
{
	const struct gpurt_sgpu *g = &w->s->gpu[gpu];
	u32 i;

	b->begin = w->now;
	b->reached = w->now;
	b->until = w->t->active ? U64_MAX : until;
	b->busy = 0;
	b->sum = 0;
	b->held = 0;
	b->given = 0;
	for (i = 0; i < g->count; i++)
		bill_early(b, w, gpu, g->jobs[i].task, g->jobs[i].units, g->jobs[i].start, g->jobs[i].planned_end);
}

static energy_t others(const struct work *w, u32 gpu, u64 until)
{
	energy_t total = 0;
	struct bill b;
	u32 i;

	for (i = 0; i < w->t->gpus; i++) {
		if (i == gpu)
			continue;
		bill_open(&b, w, i, until);
		total += bill_total(&b, w, i);
	}
	return total;
}

static bool before(const struct gpurt_sbeet_future *a, const struct gpurt_sbeet_future *b)
{
	if (a->release != b->release)
		return a->release < b->release;
	return a->deadline != b->deadline ? a->deadline < b->deadline : a->task < b->task;
}

static bool add(struct work *w, struct gpurt_sbeet_future job)
{
	struct gpurt_sbeet_future *all = w->t->window;
	u32 i;

	if (w->coming == w->t->room)
		return false;
	for (i = w->coming++; i && before(&job, &all[i - 1]); i--)
		all[i] = all[i - 1];
	all[i] = job;
	return true;
}

/* Jobs of other tasks on this GPU that can be released before @until, each as early as it can be. */
static void window(struct work *w, u32 gpu, u64 until)
{
	u32 i;

	w->gpu = gpu;
	w->coming = 0;
	w->complete = true;
	for (i = 0; i < w->t->tasks && w->complete; i++) {
		const struct gpurt_sbeet_task *task = &w->t->task[i];
		u64 release = w->s->earliest[i] > w->now ? w->s->earliest[i] : w->now + 1;

		if (i == w->job->task || task->assigned != gpu)
			continue;
		for (; release < until && w->complete; release += task->period)
			w->complete = add(w, (struct gpurt_sbeet_future){ release, release + task->deadline, i });
	}
	w->overflow |= !w->complete;
}

/*
 * Algorithm 3: places the job on @units units now, and the window's jobs before @until beside or after it.
 */
static struct choice generate(const struct work *w, u32 units, u64 until)
{
	const struct gpurt_sgpu *g = &w->s->gpu[w->gpu];
	struct placed own = place(w->t, w->job->task, w->gpu, units, w->now);
	bool active = w->t->active, alone = !g->count && units == g->whole;
	u64 now = w->now, last = own.free;
	struct choice c = { units, own.finish <= w->job->deadline && w->complete, 0 };
	u32 rest = g->whole - units, i;
	struct bill b;

	if (g->count) {
		u64 free = g->jobs[0].planned_free;

		now = free <= own.free ? free : own.free;
		if (free > own.free) {
			rest = g->whole - g->jobs[0].units;
			last = free;
		}
	}
	rest -= rest % g->granularity;
	if (alone || (active && !rest))
		now = last;
	bill_open(&b, w, w->gpu, own.finish);
	bill_early(&b, w, w->gpu, own.task, own.units, own.start, own.end);
	for (i = 0; i < w->coming; i++) {
		const struct gpurt_sbeet_future *x = &w->t->window[i];
		u32 best = kernel_of(w->t, x->task, w->gpu)->best;
		u32 count = alone || (active && now >= last) ? g->whole : rest;
		struct placed p;

		if (x->release >= until)
			break;
		if (!count)
			continue;
		p = place(w->t, x->task, w->gpu, count < best ? count : best, now > x->release ? now : x->release);
		bill_late(&b, w, w->gpu, &p);
		c.ok &= p.finish <= x->deadline;
		now = p.free;
		if (now >= own.finish && !alone && !active)
			break;
	}
	c.energy = bill_total(&b, w, w->gpu) + others(w, w->gpu, own.finish);
	return c;
}

static u64 finish_of(const struct work *w, u32 gpu, u32 units)
{
	return place(w->t, w->job->task, gpu, units, w->now).finish;
}

/* The outcome if the job gets exactly @units units of the GPU now. */
struct choice sbeet_exactly(struct work *w, u32 gpu, u32 units)
{
	u64 finish = finish_of(w, gpu, units);

	window(w, gpu, finish);
	return generate(w, units, finish);
}

static bool better(const struct choice *a, const struct choice *b)
{
	return a->ok != b->ok ? a->ok : a->energy < b->energy;
}

/* Algorithm 2 on an idle GPU: the best of all counts from m^opt down; ties go to more units. */
static struct choice idle(struct work *w, u32 gpu)
{
	u32 best = kernel_of(w->t, w->job->task, gpu)->best, step = w->s->gpu[gpu].granularity, units;
	struct choice least = { 0 };
	u64 until = 0;

	for (units = best; units; units -= step) {
		u64 finish = finish_of(w, gpu, units);

		until = finish > until ? finish : until;
	}
	window(w, gpu, until);
	for (units = best; units; units -= step) {
		struct choice c = generate(w, units, w->t->active ? until : finish_of(w, gpu, units));

		if (!least.units || better(&c, &least))
			least = c;
	}
	return least;
}

/* Algorithm 2 beside a running job; 0 units: the job waits. */
static struct choice partial(struct work *w, u32 gpu)
{
	const struct gpurt_sbeet_kernel *k = kernel_of(w->t, w->job->task, gpu);
	const struct gpurt_sgpu *g = &w->s->gpu[gpu];
	u32 units = gpurt_sgpu_free_units(g);
	struct choice c = { 0 };

	if (units > k->best)
		units = k->best;
	if (finish_of(w, gpu, units) > g->jobs[0].planned_free + k->copy_in + k->time[g->whole - 1] + k->copy_out)
		return c;
	c = sbeet_exactly(w, gpu, units);
	if (!c.ok)
		c.units = 0;
	return c;
}

/* sBEET(pi_k, J) of algorithm 5; 0 units, an infinite energy: the job would wait, or migrate and miss a deadline. */
struct choice sbeet_on_gpu(struct work *w, u32 gpu)
{
	struct choice c = { 0 };

	if (gpurt_sgpu_full(&w->s->gpu[gpu]))
		return c;
	c = w->s->gpu[gpu].count ? partial(w, gpu) : idle(w, gpu);
	if (gpu != w->t->task[w->job->task].assigned && !c.ok)
		c.units = 0;
	return c;
}

/* The outcome if the job waits until m^opt units of its full GPU are free. */
struct choice sbeet_later(const struct work *w, u32 gpu)
{
	const struct gpurt_sgpu *g = &w->s->gpu[gpu];
	u32 best = kernel_of(w->t, w->job->task, gpu)->best, held = g->held, taken = g->count;
	struct choice c = { .units = best };
	u64 start = w->now;
	struct placed p;
	struct bill b;
	u32 done = 0;

	while (taken && (taken >= g->slots || (g->whole - held) / g->granularity * g->granularity < best)) {
		u32 i, first = GPURT_SGPU_SLOTS;

		for (i = 0; i < g->count; i++)
			if (!(done >> i & 1) &&
			    (first == GPURT_SGPU_SLOTS || g->jobs[i].planned_free < g->jobs[first].planned_free))
				first = i;
		done |= 1U << first;
		held -= g->jobs[first].units;
		start = g->jobs[first].planned_free;
		taken--;
	}
	p = place(w->t, w->job->task, gpu, best, start);
	c.ok = p.finish <= w->job->deadline;
	bill_open(&b, w, gpu, p.finish);
	bill_early(&b, w, gpu, p.task, p.units, p.start, p.end);
	c.energy = bill_total(&b, w, gpu) + others(w, gpu, p.finish);
	return c;
}

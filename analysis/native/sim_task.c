// SPDX-License-Identifier: GPL-2.0
/* The execution of a task: its job goes through its segments. */
#include "sim.h"

static u64 demand(struct sim *s, u64 worst, u64 best)
{
	switch (s->config->execution) {
	case GPURT_SIM_WORST:
		return worst;
	case GPURT_SIM_BEST:
		return best;
	}
	return best + sim_below(s, worst - best + 1);
}

static bool locking(const struct part *p)
{
	return gpurt_policy_locks(p->config->policy);
}

static bool boosted(const struct part *p)
{
	return p->config->policy == GPURT_POLICY_BOOSTED;
}

/* Whether programs call begin and end under this policy. */
static bool calling(const struct part *p)
{
	return p->config->policy != GPURT_POLICY_TIMESLICED && p->config->policy != GPURT_POLICY_JOB;
}

static void set_step(struct sim *s, struct job_task *t, enum step step)
{
	struct cpu *cpu = &s->cpus[t->task->cpu];

	if (cpu->running == t)
		sim_bring(s, cpu);
	t->step = step;
	cpu->next = STALE;
}

static void ready(struct sim *s, struct job_task *t, enum step step)
{
	if (t->step < EXECUTING) {
		t->ready_since = ++s->order;
		t->waking = s->config->latency ? demand(s, s->config->latency, 0) : 0;
	}
	set_step(s, t, step);
}

void sim_decided(struct sim *s)
{
	u32 i;

	s->gpu_news = true;
	for (i = 0; s->config->boost && i < s->config->cpus; i++)
		s->cpus[i].next = STALE;
}

/* The job enters segment t->at, or completes after the last one. */
static void enter_segment(struct sim *s, struct job_task *t);

void sim_start_job(struct sim *s, struct job_task *t)
{
	t->at = 0;
	t->in_segment = false;
	t->begun = UNBEGUN;
	t->job++;
	enter_segment(s, t);
}

void sim_go_on(struct sim *s, struct job_task *t)
{
	sim_start_job(s, t);
	t->waking = 0;
}

/* The workers of a task begin.  Their response times count from the release of its job. */
static void fork_workers(struct sim *s, struct job_task *t)
{
	struct job_task *w;
	u32 number = (u32)(t - s->tasks) + 1;

	t->workers = 0;
	set_step(s, t, ASLEEP_JOIN);
	for (w = s->tasks; w < s->tasks + s->count; w++)
		t->workers += w->task->parent == number;
	for (w = s->tasks; w < s->tasks + s->count; w++) {
		if (w->task->parent != number)
			continue;
		sim_record(s, GPURT_SIM_RELEASE, w, -1, t->backlog[t->head], 0);
		w->stats->jobs++;
		w->backlog[(w->head + w->queued++) % BACKLOG] = t->backlog[t->head];
		s->open++;
		sim_start_job(s, w);
	}
}

static void leave_gpu(struct sim *s, struct job_task *t);

/* A worker is done.  After the last one its parent goes on, as soon as it has its CPU. */
static void join(struct sim *s, const struct job_task *worker)
{
	struct job_task *t = &s->tasks[worker->task->parent - 1];

	if (--t->workers)
		return;
	if (t->in_segment) {
		leave_gpu(s, t);
		return;
	}
	ready(s, t, EXECUTING);
	t->left = 0;
}

static void finish_job(struct sim *s, struct job_task *t)
{
	u64 release = t->backlog[t->head], response = s->now - release;

	sim_record(s, GPURT_SIM_COMPLETE, t, -1, s->now, response);
	sim_chain_ends(s, t);
	t->stats->finished++;
	t->stats->sum += response;
	if (response > t->task->deadline)
		t->stats->misses++;
	if (response >= t->stats->worst) {
		t->stats->worst = response;
		t->stats->worst_release = release;
	}
	t->head = (t->head + 1) % BACKLOG;
	t->queued--;
	s->open--;
	set_step(s, t, IDLE);
	if (!t->task->thread && t->queued)
		sim_go_on(s, t);
	if (t->task->parent)
		join(s, t);
	sim_trigger(s, t);
	if (t->task->thread)
		sim_served(s, t);
	sim_serve(s);	/* other threads, which may be free */
}

static void enter_segment(struct sim *s, struct job_task *t)
{
	const struct gpurt_sim_segment *segment;

	if (t->at == t->task->count) {
		finish_job(s, t);
		return;
	}
	segment = &t->segments[t->at];
	if (segment->gpu && calling(t->part)) {
		ready(s, t, REQUESTING);
		return;
	}
	if (segment->fork) {
		ready(s, t, FORKING);
		return;
	}
	if (segment->resource) {
		ready(s, t, WANTING);
		return;
	}
	t->left = demand(s, segment->cpu_worst, segment->cpu_best);
	ready(s, t, EXECUTING);
}

/* The task has the resource of its segment, and enters its section. */
static void enter_section(struct sim *s, struct job_task *t)
{
	t->left = demand(s, t->segments[t->at].cpu_worst, t->segments[t->at].cpu_best);
	ready(s, t, EXECUTING);
}

static void leave_section(struct sim *s, struct job_task *t)
{
	struct job_task *next = sim_give(s, t);

	if (next)
		enter_section(s, next);
}

/* Call when the pure GPU part is done, or if there is none. */
static void leave_gpu(struct sim *s, struct job_task *t)
{
	if (calling(t->part)) {
		ready(s, t, REQUESTING);
	} else {
		t->at++;
		enter_segment(s, t);
	}
}

/* Whether @t's work goes before @other's in the TSG that both share; best effort goes last. */
static bool before(const struct job_task *t, const struct job_task *other)
{
	if (!t->task->priority || !other->task->priority)
		return t->task->priority && !other->task->priority;
	if (t->task->by_deadline)
		return t->backlog[t->head] + t->task->deadline < other->backlog[other->head] + other->task->deadline;
	return t->task->gpu_priority > other->task->gpu_priority;
}

/* Moves @t's work, which is the last of its TSG, before the first work that is less urgent. */
static void put_in_order(struct sim *s, struct job_task *t)
{
	struct list_head *pos, *queue = &t->on->queue[GPURT_ENGINE_EXEC];

	list_for_each(pos, queue) {
		if (before(t, list_entry(pos, struct job_task, work.node))) {
			list_move_tail(&t->work.node, pos);
			sim_reordered(t->part, t->on, s->now);
			return;
		}
	}
}

/* Moves @t's work to the front: the work of one context's threads has no order. */
static void put_first(struct sim *s, struct job_task *t)
{
	struct list_head *first = t->on->queue[GPURT_ENGINE_EXEC].next;

	if (first == &t->work.node)
		return;
	list_move_tail(&t->work.node, first);
	sim_reordered(t->part, t->on, s->now);
}

static void submit(struct sim *s, struct job_task *t)
{
	const struct gpurt_sim_segment *segment = &t->segments[t->at];
	struct gpurt_vgpu_demand d = {
		.duration = demand(s, segment->gpu_worst, segment->gpu_best), .engine = GPURT_ENGINE_EXEC,
		.intensity = t->task->intensity, .conflict = t->task->conflict,
	};

	if (!d.duration) {
		leave_gpu(s, t);
		return;
	}
	t->gpu_done = false;
	if (s->config->yield.on) {
		sim_yield_launch(s, t, d.duration);
		set_step(s, t, t->task->busy ? SPINNING : ASLEEP_GPU);
		return;
	}
	gpurt_boost_work(&t->part->sched, t->as, true, s->now);
	gpurt_vgpu_submit_as(&t->part->vgpu, t->on, &t->work, &d, s->now);
	t->part->changed = true;
	if (t->task->shared)
		put_in_order(s, t);
	else if (t->task->process && s->chooser && sim_below(s, 2))
		put_first(s, t);
	set_step(s, t, t->task->busy ? SPINNING : ASLEEP_GPU);
}

/* Call when a begin or end has been carried out. */
static void updated(struct sim *s, struct job_task *t)
{
	if (t->in_segment) {
		t->in_segment = false;
		t->at++;
		enter_segment(s, t);
		return;
	}
	t->in_segment = true;
	t->left = demand(s, t->segments[t->at].cpu_worst, t->segments[t->at].cpu_best);
	/* A task that waits busily also sleeps here: if it spun above the holder on its CPU, the two would deadlock. */
	if (locking(t->part) && !gpurt_on_runlist(&t->part->sched, t->as))
		set_step(s, t, ASLEEP_GRANT);
	else
		ready(s, t, EXECUTING);
}

static struct job_task *first_waiter(const struct part *p)
{
	struct gpurt_turn *turn = gpurt_turns_first(&p->turns);

	return turn ? list_entry(turn, struct job_task, turn) : NULL;
}

/* The task waits for the update lock.  Under `boosted` it spins if it waits busily, at its own priority. */
static void wait_for_lock(struct sim *s, struct job_task *t)
{
	gpurt_boost_turn(&t->part->sched, t->as, false, s->now);
	if (boosted(t->part) && t->task->busy)
		ready(s, t, SPINNING_LOCK);
	else
		set_step(s, t, ASLEEP_LOCK);
}

/* The update of @t is over: hands the lock to the first waiter, which stays in the queue until its CPU executes it. */
static void release_lock(struct sim *s, struct job_task *t)
{
	struct job_task *next = first_waiter(t->part);

	t->part->turns.held = false;
	gpurt_boost_over(&t->part->sched, t->as, s->now);
	if (!next)
		return;
	gpurt_boost_turn(&t->part->sched, next->as, true, s->now);
	ready(s, next, HANDED);
}

/* The task has the lock and its CPU: it makes the decision, and updates the runlist if the decision changes it. */
static void update(struct sim *s, struct job_task *t)
{
	t->part->turns.held = true;
	t->part->committed = false;
	t->part->caller = t;
	if (t->begun == UNBEGUN)
		t->begun = BEGINS;
	if (t->in_segment)
		gpurt_end(&t->part->sched, t->as, s->now);
	else
		gpurt_begin(&t->part->sched, t->as, t->task->gpu_priority, 0, s->now);
	sim_decided(s);
	set_step(s, t, UPDATING);
	t->until = s->now + (t->part->committed ? t->part->config->alpha : 0);
}

static void request_lock(struct sim *s, struct job_task *t)
{
	struct job_task *next = first_waiter(t->part);

	if (s->config->yield.on) {
		(t->in_segment ? sim_yield_end : sim_yield_begin)(s, t);
		t->begun = t->begun == UNBEGUN ? BEGINS : t->begun;
		updated(s, t);
		return;
	}
	gpurt_boost_ask(&t->part->sched, t->as, t->task->gpu_priority, s->now);
	/* The published protocols make no runlist updates, so that no task waits for its turn. */
	if (s->config->boost || gpurt_turns_may_enter(&t->part->turns, t->task->gpu_priority)) {
		if (next && next->step == HANDED)
			wait_for_lock(s, next);	/* `next` has not run yet: the more urgent task goes first */
		gpurt_boost_turn(&t->part->sched, t->as, true, s->now);
		update(s, t);
		return;
	}
	gpurt_turns_add(&t->part->turns, &t->turn, t->task->gpu_priority);
	wait_for_lock(s, t);
}

bool sim_act(struct sim *s, struct job_task *t)
{
	if (t->waking)
		return false;
	switch (t->step) {
	case EXECUTING:
		if (t->left)
			return false;
		if (t->segments[t->at].gpu && t->segments[t->at].fork) {
			fork_workers(s, t);	/* the task holds the segment until they are done */
		} else if (t->segments[t->at].gpu) {
			submit(s, t);
		} else {
			if (t->holds)
				leave_section(s, t);
			t->at++;
			enter_segment(s, t);
		}
		return true;
	case FORKING:
		fork_workers(s, t);
		return true;
	case WANTING:
		if (sim_take(s, t))
			enter_section(s, t);
		return true;
	case REQUESTING:
		request_lock(s, t);
		return true;
	case HANDED:
		gpurt_turns_remove(&t->part->turns, &t->turn);
		update(s, t);
		return true;
	case UPDATING:
		if (s->now < t->until)
			return false;
		release_lock(s, t);
		updated(s, t);
		return true;
	case SPINNING:
		if (!t->gpu_done)
			return false;
		t->gpu_done = false;
		leave_gpu(s, t);
		return true;
	default:
		return false;
	}
}

bool sim_wake(struct sim *s)
{
	struct job_task *t;
	bool woken = false;

	if (!s->gpu_news)
		return false;
	s->gpu_news = false;
	for (t = s->tasks; t < s->tasks + s->count; t++) {
		if (t->step == ASLEEP_GPU && t->gpu_done) {
			t->gpu_done = false;
			ready(s, t, EXECUTING);	/* the task only becomes ready: it has nothing left to execute */
			t->left = 0;
			leave_gpu(s, t);
			woken = true;
		} else if (t->step == ASLEEP_GRANT && gpurt_on_runlist(&t->part->sched, t->as)) {
			ready(s, t, EXECUTING);
			woken = true;
		}
	}
	return woken;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "units.h"

/* Notes that the task has no pending job. */
static void hide(struct gpurt_units *u, u32 task)
{
	u->task[task].pending = GPURT_UNITS_NONE;
	u->ready[task] = (struct gpurt_sbeet_future){ .release = U64_MAX, .deadline = U64_MAX, .task = task };
}

/* Initialises @u: no task has a client, and no job runs. */
void gpurt_units_init(struct gpurt_units *u)
{
	u32 i;

	u->state = (struct gpurt_sbeet_state){ .gpu = u->gpu, .earliest = u->earliest, .ready = u->ready };
	for (i = 0; i < u->tables->tasks; i++) {
		hide(u, i);
		u->earliest[i] = U64_MAX;
		u->finish[i] = U64_MAX;
	}
}

/* What the task's running job holds; NULL: nothing. */
static struct gpurt_sgpu_job *held_by(const struct gpurt_units *u, u32 task)
{
	struct gpurt_sgpu *g = &u->gpu[u->task[task].run.gpu];
	u32 i;

	for (i = 0; i < g->count; i++)
		if (g->jobs[i].task == task)
			return &g->jobs[i];
	return NULL;
}

/* What a job holds whose kernel has not ended; NULL: the kernel has ended, or there is no such job. */
static struct gpurt_sgpu_job *executes(const struct gpurt_units *u, u32 task, u64 number)
{
	const struct gpurt_units_task *one = &u->task[task];

	return one->running == GPURT_UNITS_KERNEL && one->run.number == number ? held_by(u, task) : NULL;
}

/* The task's running job gives its units back, if it holds any. */
static void give_back(struct gpurt_units *u, u32 task, u64 now)
{
	struct gpurt_sgpu_job *held = held_by(u, task);

	if (!held)
		return;
	if (held->end > now)
		held->end = now;
	held->free = now;
	gpurt_sgpu_advance(&u->gpu[u->task[task].run.gpu], now);
}

/* Called by the pass: the task's pending job gets units.  The client says when its kernel ends and frees them. */
static void grant(void *host, u32 task, struct gpurt_sbeet_decision d)
{
	struct gpurt_units *u = host;
	struct gpurt_units_task *one = &u->task[task];
	struct gpurt_sgpu_job plan, *placed;

	gpurt_sbeet_plan(u->tables, task, d.gpu, d.units, u->now, &plan, &u->finish[task]);
	one->run = one->next;
	one->run.gpu = d.gpu;
	one->run.units = d.units;
	one->run.granted = u->now;
	one->run.kernel = plan.end - plan.start;
	one->run.due = plan.free;
	plan.end = U64_MAX;
	plan.free = U64_MAX;
	placed = gpurt_sgpu_place(&u->gpu[d.gpu], &plan, u->now);
	one->run.first = placed->first;
	one->running = GPURT_UNITS_KERNEL;
	hide(u, task);
}

/* The time at which a job is late by the length of its kernel. */
static u64 hangs_at(const struct gpurt_units *u, u32 task)
{
	return u->task[task].run.due + u->task[task].run.kernel;
}

/* When an overdue job is now expected to end. */
static u64 expected_end(const struct gpurt_units *u, u32 task, u64 now)
{
	return now < hangs_at(u, task) ? now : now + (now - u->task[task].run.due);
}

/* Plans new ends for overdue kernels, because decisions look at planned ends. */
static void expect_overruns(struct gpurt_units *u, u64 now)
{
	u32 i, k;

	for (i = 0; i < u->tables->gpus; i++)
		for (k = 0; k < u->gpu[i].count; k++) {
			struct gpurt_sgpu_job *job = &u->gpu[i].jobs[k];

			u64 end = expected_end(u, job->task, now);

			if (job->planned_end <= now && job->end > now)
				job->planned_end = end;
			if (job->planned_free <= now)
				job->planned_free = end;
		}
}

static void release_jobs(struct gpurt_units *u, u64 now)
{
	u32 i;

	for (i = 0; i < u->tables->tasks; i++) {
		struct gpurt_units_task *one = &u->task[i];

		if (one->pending != GPURT_UNITS_EARLY || one->next.release > now)
			continue;
		one->pending = GPURT_UNITS_READY;
		one->allowed = one->next.release + u->tables->task[i].period;
		u->earliest[i] = one->allowed;
		u->ready[i].release = one->next.release;
		u->ready[i].deadline = one->next.deadline;
	}
}

static void skip_jobs(struct gpurt_units *u, u64 now)
{
	u32 i;

	for (i = 0; i < u->tables->tasks; i++) {
		struct gpurt_units_task *one = &u->task[i];

		if (one->pending != GPURT_UNITS_READY || one->next.deadline > now)
			continue;
		one->skipped = one->next.number;
		one->skips++;
		hide(u, i);
	}
}

/* Releases, skips and dispatches what is due by @now, which never runs backwards. */
void gpurt_units_tick(struct gpurt_units *u, u64 now)
{
	const struct gpurt_sbeet_pass pass = {
		.order = u->order, .finish = u->finish, .room = u->room, .host = u, .start = grant,
	};

	u->now = now;
	release_jobs(u, now);
	if (!u->run_late)
		skip_jobs(u, now);
	expect_overruns(u, now);
	gpurt_sbeet_pass(u->tables, &u->state, &pass, now);
}

/* When to decide again on jobs that wait for kernels which do not end. */
static u64 next_doubt(const struct gpurt_units *u)
{
	u64 next = U64_MAX;
	u32 i, k;

	if (u->tables->rule != GPURT_SBEET_ALLOCATE && u->tables->rule != GPURT_SBEET_MIGRATE)
		return next;	/* these rules do not look at planned ends */
	for (i = 0; i < u->tables->gpus; i++)
		for (k = 0; k < u->gpu[i].count; k++) {
			const struct gpurt_sgpu_job *job = &u->gpu[i].jobs[k];
			u64 at = hangs_at(u, job->task);

			if (at <= u->now)
				at = job->planned_free;
			if (at < next)
				next = at;
		}
	return next;
}

/* When to call gpurt_units_tick(); U64_MAX: only after clients' calls. */
u64 gpurt_units_next(const struct gpurt_units *u)
{
	u64 next = U64_MAX;
	bool waits = false;
	u32 i;

	for (i = 0; i < u->tables->tasks; i++) {
		const struct gpurt_units_task *one = &u->task[i];
		u64 at = U64_MAX;

		if (one->pending == GPURT_UNITS_EARLY)
			at = one->next.release;
		else if (one->pending == GPURT_UNITS_READY && !u->run_late)
			at = one->next.deadline;
		waits |= one->pending == GPURT_UNITS_READY;
		if (at < next)
			next = at;
	}
	if (waits) {
		u64 doubt = next_doubt(u);

		if (doubt < next)
			next = doubt;
	}
	return next;
}

/*
 * Announces a job of the task, released at @release (0: now).  Its number is then @numbers.  -EBUSY: a job is pending.
 * -EINVAL: the release is further ahead than GPURT_MAX_AHEAD_NS.
 */
int gpurt_units_ready(struct gpurt_units *u, u32 task, u64 release, u64 now)
{
	struct gpurt_units_task *one = &u->task[task];

	if (one->pending != GPURT_UNITS_NONE)
		return -EBUSY;
	if (release > now + GPURT_MAX_AHEAD_NS)
		return -EINVAL;
	if (!release)
		release = now;
	if (release < one->allowed)
		release = one->allowed;
	one->next = (struct gpurt_units_job){
		.number = ++u->numbers, .release = release, .deadline = release + u->tables->task[task].deadline,
	};
	one->pending = GPURT_UNITS_EARLY;
	u->earliest[task] = release;
	gpurt_units_tick(u, now);
	return 0;
}

/* The kernel of the job begins at @start, not as planned.  -ENOENT: the job has no kernel to come. */
int gpurt_units_begin(struct gpurt_units *u, u32 task, u64 number, u64 start)
{
	struct gpurt_sgpu_job *held = executes(u, task, number);

	if (!held)
		return -ENOENT;
	held->start = start;
	return 0;
}

/* The job's kernel has ended.  -ENOENT: it holds no units, or this was said already. */
int gpurt_units_kernel_done(struct gpurt_units *u, u32 task, u64 number, u64 now)
{
	struct gpurt_sgpu_job *held = executes(u, task, number);

	if (!held)
		return -ENOENT;
	u->task[task].running = GPURT_UNITS_COPY;
	if (u->tables->hold_job)
		held->end = now;
	else
		give_back(u, task, now);
	gpurt_units_tick(u, now);
	return 0;
}

/* The job is done.  -ENOENT: it does not run.  -EBUSY: its kernel has not ended. */
int gpurt_units_done(struct gpurt_units *u, u32 task, u64 number, u64 now)
{
	struct gpurt_units_task *one = &u->task[task];

	if (one->running == GPURT_UNITS_IDLE || one->run.number != number)
		return -ENOENT;
	if (one->running == GPURT_UNITS_KERNEL)
		return -EBUSY;
	give_back(u, task, now);
	one->running = GPURT_UNITS_IDLE;
	u->finish[task] = U64_MAX;
	one->jobs++;
	one->late += now > one->run.deadline;
	if (now > one->run.release && now - one->run.release > one->longest)
		one->longest = now - one->run.release;
	gpurt_units_tick(u, now);
	return 0;
}

/* The task's client is gone, and its jobs with it. */
void gpurt_units_gone(struct gpurt_units *u, u32 task, u64 now)
{
	struct gpurt_units_task *one = &u->task[task];

	hide(u, task);
	u->earliest[task] = U64_MAX;
	if (one->running != GPURT_UNITS_IDLE) {
		give_back(u, task, now);
		one->lost++;
	}
	one->running = GPURT_UNITS_IDLE;
	u->finish[task] = U64_MAX;
	gpurt_units_tick(u, now);
}

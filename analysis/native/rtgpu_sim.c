// SPDX-License-Identifier: GPL-2.0
/* Simulation of tasks that own units of the GPU and share CPUs and a bus. */
#include <stdlib.h>
#include <string.h>

#include "../../kmod/core/bus.h"
#include "random.h"
#include "rtgpu_sim.h"

enum status {
	IDLE,				/* no job */
	ISSUE,				/* waits for its CPU to start copies and kernels, which takes no time */
	READY,				/* a CPU segment, executing or not */
	WAITS,				/* for the bus */
	COPIES,
	KERNEL,
};

struct job {
	u32 status;
	u32 step;
	int64_t left;			/* of the step, or of the copy in progress and all that follows it */
	int64_t until;			/* the end of the copy's chunk or of the kernel */
	int64_t asked, since;
	int64_t release, next;		/* of this job; of the next job */
	u64 number;			/* of this job */
	u32 behind;			/* number of releases since this job's, while it is not over */
	int64_t late[8];		/* times of these releases */
};

struct world {
	const struct gpurt_rtgpu_sim *sim;
	u32 tasks;
	int64_t now;
	u64 random;
	struct job *job;
	struct gpurt_bus bus;
	struct gpurt_bus_node *node;	/* of each task */
	u32 over;			/* the task whose copy or chunk ends now; @tasks: no task's does */
	int chunk;			/* a chunk ended, and its copy goes on */
	u32 *on_cpu;			/* of each task: whether it has its CPU */
	int64_t *longest;
	struct gpurt_rtgpu_span *spans;
	u32 room;
	int64_t used;
};

static void note(struct world *w, u32 task, u32 need, int64_t begin, int64_t end, int64_t asked)
{
	int64_t last;

	if (begin == end || !w->spans)
		return;
	for (last = w->used; need == GPURT_RTGPU_CPU && last > 0 && w->used <= w->room; last--) {
		struct gpurt_rtgpu_span *span = &w->spans[last - 1];

		if (span->task != task || span->need == GPURT_RTGPU_RELEASE)
			continue;
		if (span->need != need || span->end != begin)
			break;
		span->end = end;
		return;
	}
	if (w->used++ < w->room)
		w->spans[w->used - 1] = (struct gpurt_rtgpu_span){ begin, end, asked, task, need, w->job[task].number };
}

static void mark(struct world *w, u32 task, u32 what, int64_t begin, u64 job)
{
	if (w->spans && w->sim->marks && w->used++ < w->room)
		w->spans[w->used - 1] = (struct gpurt_rtgpu_span){ begin, w->now, 0, task, what, job };
}

static int64_t length_of(struct world *w, u32 step)
{
	int64_t best = w->sim->best[step], worst = w->sim->worst[step];

	switch (w->sim->execution) {
	case GPURT_RTGPU_WORST:
		return worst;
	case GPURT_RTGPU_BEST:
		return best;
	case GPURT_RTGPU_EXTREME:
		return random_bits(&w->random) & 1 ? best : worst;
	default:
		return (int64_t)random_integer(&w->random, (u64)best, (u64)worst);
	}
}

static int never_takes_time(const struct gpurt_rtgpu_sim *sim, u32 step)
{
	return sim->need[step] != GPURT_RTGPU_UNITS && !sim->worst[step];
}

static void start_step(struct world *w, u32 task, int on_cpu);

/* Records that a job ends at @now. */
static void add(struct gpurt_rtgpu_seen *seen, const struct job *j, int64_t now, int64_t deadline)
{
	int64_t response = now - j->release;

	seen->finished++;
	seen->misses += response > deadline;
	seen->total += response;
	if (response > seen->worst || seen->finished == 1) {
		seen->worst = response;
		seen->worst_release = j->release;
	}
}

static void finish_job(struct world *w, u32 task)
{
	struct job *j = &w->job[task];

	if (w->now - j->release > w->longest[task])
		w->longest[task] = w->now - j->release;
	if (w->sim->seen)
		add(&w->sim->seen[task], j, w->now, w->sim->deadline[task]);
	mark(w, task, GPURT_RTGPU_COMPLETE, j->release, j->number);
	j->status = IDLE;
	j->number++;
	if (j->behind) {
		j->release = j->late[0];
		j->behind--;
		memmove(j->late, j->late + 1, sizeof(j->late) - sizeof(j->late[0]));
		j->step = w->sim->steps[task];
		start_step(w, task, 0);
	}
}

/* Starts the job's next step, and all steps after it that take no time.  @on_cpu: the task has its CPU now. */
static void start_step(struct world *w, u32 task, int on_cpu)
{
	const struct gpurt_rtgpu_sim *sim = w->sim;
	struct job *j = &w->job[task];
	u32 end = sim->steps[task + 1];
	int chain = j->step > sim->steps[task] && sim->need[j->step - 1] != GPURT_RTGPU_CPU;

	while (j->step < end && never_takes_time(sim, j->step))
		j->step++;
	if (j->step == end) {
		finish_job(w, task);
		return;
	}
	if (sim->need[j->step] == GPURT_RTGPU_CPU) {
		j->left = length_of(w, j->step);
		j->status = READY;
		return;
	}
	if (sim->spins && !on_cpu && !(chain && sim->stream)) {
		j->status = ISSUE;
		return;
	}
	if (sim->merges) {
		for (j->left = 0; j->step < end && sim->need[j->step] != GPURT_RTGPU_CPU; j->step++)
			j->left += length_of(w, j->step);
		j->step--;
		j->status = WAITS;
		j->asked = w->now;
	} else if (sim->need[j->step] == GPURT_RTGPU_BUS) {
		j->left = length_of(w, j->step);
		j->status = WAITS;
		j->asked = w->now;
	} else {
		j->left = length_of(w, j->step);
		j->status = KERNEL;
		j->since = w->now;
		j->until = w->now + j->left;
	}
	if (!j->left) {
		j->step++;
		start_step(w, task, on_cpu);
	}
}

static void next_step(struct world *w, u32 task, int on_cpu)
{
	w->job[task].step++;
	start_step(w, task, on_cpu);
}

static void release(struct world *w, u32 task)
{
	struct job *j = &w->job[task];
	int64_t period = w->sim->period[task], at = j->next;

	j->next = at + period;
	if (w->sim->sporadic)
		j->next += (int64_t)random_integer(&w->random, 0, (u64)period / 10);
	if (w->sim->seen) {
		w->sim->seen[task].jobs++;
		w->sim->seen[task].misses += j->status != IDLE && j->behind == 8;
	}
	if (j->status == IDLE || j->behind < 8)
		mark(w, task, GPURT_RTGPU_RELEASE, at, j->number + (j->status == IDLE ? 0 : 1 + j->behind));
	if (j->status == IDLE) {
		j->release = at;
		j->step = w->sim->steps[task];
		start_step(w, task, 0);
	} else if (j->behind < 8) {
		j->late[j->behind++] = at;
	}
}

static int wants_cpu(const struct world *w, const struct job *j)
{
	return j->status == READY || j->status == ISSUE || (w->sim->spins && j->status != IDLE);
}

/* The bus level of a task's copies.  Tasks of a set are listed most urgent first. */
static u32 level_of(u32 task)
{
	return task < GPURT_MAX_PRIORITY ? GPURT_MAX_PRIORITY - task : 0;
}

static void copy(struct world *w, u32 task)
{
	int64_t chunk = w->sim->merges ? 0 : w->sim->chunk;
	struct job *j = &w->job[task];

	j->status = COPIES;
	j->since = w->now;
	j->until = w->now + (chunk && chunk < j->left ? chunk : j->left);
}

/* The copy or chunk is over.  A task that requests the bus again does so before it gives the bus back. */
static void hand_on(struct world *w, int again)
{
	if (w->over < w->tasks && again)
		gpurt_bus_next(&w->bus, &w->node[w->over], (u64)w->now);
	else if (w->over < w->tasks)
		gpurt_bus_release(&w->bus, &w->node[w->over], (u64)w->now);
	w->over = w->tasks;
}

static void ask(struct world *w, u32 task)
{
	if (w->job[task].status == WAITS && w->node[task].state == GPURT_STATE_IDLE)
		gpurt_bus_request(&w->bus, &w->node[task], level_of(task), (u64)w->now);
}

/*
 * Called when all other events of this instant are over.  Requests the bus, then gives it back, so that the most urgent
 * of all gets it.  If requests of one instant have the worst order (@early), the bus is given back first, and the least
 * urgent tasks request it first.
 */
static void arbitrate(struct world *w)
{
	u32 i, task;

	if (w->sim->early)
		hand_on(w, w->chunk);
	for (i = 0; i < w->tasks; i++)
		ask(w, w->sim->early ? w->tasks - 1 - i : i);
	hand_on(w, w->over < w->tasks && w->job[w->over].status == WAITS);
	task = w->bus.holder ? (u32)(w->bus.holder - w->node) : w->tasks;
	if (task < w->tasks && w->job[task].status == WAITS)
		copy(w, task);
}

/* Gives each CPU to its most urgent task, then the bus to the most urgent request. */
static void dispatch(struct world *w)
{
	u32 i, k;
	int again = 1;

	while (again) {
		again = 0;
		for (i = 0; i < w->tasks; i++) {
			struct job *j = &w->job[i];

			w->on_cpu[i] = wants_cpu(w, j);
			for (k = 0; k < i && w->on_cpu[i]; k++)
				if (w->on_cpu[k] && w->sim->cpu[k] == w->sim->cpu[i])
					w->on_cpu[i] = 0;
			if (!w->on_cpu[i] || !(j->status == ISSUE || (j->status == READY && !j->left)))
				continue;
			if (j->status == ISSUE)
				start_step(w, i, 1);
			else
				next_step(w, i, 1);
			again = 1;
			break;
		}
	}
	arbitrate(w);
}

static int64_t next_event(const struct world *w)
{
	int64_t at = INT64_MAX;
	u32 i;

	for (i = 0; i < w->tasks; i++) {
		const struct job *j = &w->job[i];

		if (j->next < w->sim->horizon && j->next < at)
			at = j->next;
		if ((j->status == COPIES || j->status == KERNEL) && j->until < at)
			at = j->until;
		if (j->status == READY && w->on_cpu[i] && w->now + j->left < at)
			at = w->now + j->left;
	}
	return at;
}

/* Lets time pass until @at.  Then activities end that are over at @at, and jobs are released. */
static void advance(struct world *w, int64_t at)
{
	int64_t passed = at - w->now, before = w->now;
	u32 i;

	w->now = at;
	for (i = 0; i < w->tasks; i++)
		if (w->job[i].status == READY && w->on_cpu[i]) {
			w->job[i].left -= passed;
			note(w, i, GPURT_RTGPU_CPU, before, at, 0);
		}
	for (i = 0; i < w->tasks; i++) {
		struct job *j = &w->job[i];

		if (j->status == READY && w->on_cpu[i] && !j->left) {
			next_step(w, i, 1);
		} else if (j->status == KERNEL && j->until == at) {
			note(w, i, GPURT_RTGPU_UNITS, j->since, at, 0);
			next_step(w, i, w->on_cpu[i] && w->sim->spins);
		} else if (j->status == COPIES && j->until == at) {
			note(w, i, GPURT_RTGPU_BUS, j->since, at, j->asked);
			w->over = i;
			j->left -= at - j->since;
			w->chunk = !!j->left;
			if (j->left) {
				j->status = WAITS;
				j->asked = at;
			} else {
				next_step(w, i, w->on_cpu[i] && w->sim->spins);
			}
		}
	}
	for (i = 0; i < w->tasks; i++)
		while (w->job[i].next <= at && w->job[i].next < w->sim->horizon)
			release(w, i);
}

int64_t gpurt_rtgpu_simulate(const struct gpurt_rtgpu_sim *sim, int64_t *longest, struct gpurt_rtgpu_span *spans,
			     u32 room)
{
	struct world w = { .sim = sim, .tasks = sim->tasks, .random = sim->seed, .longest = longest, .spans = spans,
			   .room = room };
	int64_t at;
	u32 i;

	w.job = calloc(1, w.tasks * (sizeof(*w.job) + sizeof(*w.node) + sizeof(*w.on_cpu)) + 1);
	if (!w.job)
		return -GPURT_RTGPU_ENOMEM;
	w.node = (struct gpurt_bus_node *)(w.job + w.tasks);
	w.on_cpu = (u32 *)(w.node + w.tasks);
	w.over = w.tasks;
	gpurt_bus_init(&w.bus);
	w.bus.bound = 0;
	for (i = 0; i < w.tasks; i++) {
		gpurt_bus_node_init(&w.node[i]);
		w.job[i].next = sim->offset[i];
		longest[i] = 0;
	}
	while ((at = next_event(&w)) != INT64_MAX) {
		advance(&w, at);
		dispatch(&w);
	}
	free(w.job);
	return w.used;
}

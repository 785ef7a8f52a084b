// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "../../userlib/units/sbeet_pass.h"
#include "energy_sim.h"
#include "random.h"

#define STREAM 0xd1b54a32d192ed03ULL

struct pending {
	struct gpurt_sbeet_future job;
	u64 number;
	u64 bits;		/* determine its time between the best and the worst case */
};

/* A task's pending jobs, oldest first at @head; more than one only if late jobs still run. */
struct backlog {
	struct pending *jobs;
	u32 head, count, room;
};

struct sim {
	const struct gpurt_sbeet_tables *t;
	const struct gpurt_energy_run *run;
	const u64 *const *best;
	struct gpurt_sgpu *gpus;
	struct gpurt_energy_task *tasks;
	struct gpurt_energy_result *result;
	struct gpurt_sbeet_state state;
	struct backlog *backlog;
	struct gpurt_sbeet_future *ready;	/* the oldest pending job of each task */
	u64 *random, *next, *earliest;
	u64 *finish, *due;			/* of each task's unfinished job; if none, finish is U64_MAX */
	u64 now;
	u64 end;				/* later times do not count */
};

static u64 earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 scaled(u64 bits, u64 low, u64 high)
{
	return low + (u64)(((unsigned __int128)bits * (high - low + 1)) >> 64);
}

static void show_oldest(struct sim *s, u32 task)
{
	const struct backlog *b = &s->backlog[task];

	s->ready[task].release = U64_MAX;
	s->ready[task].deadline = U64_MAX;
	if (b->count)
		s->ready[task] = b->jobs[b->head].job;
}

static void drop_oldest(struct sim *s, u32 task)
{
	struct backlog *b = &s->backlog[task];

	b->head++;
	b->count--;
	show_oldest(s, task);
}

static int append(struct backlog *b, struct pending job)
{
	if (b->head && b->head + b->count == b->room) {
		memmove(b->jobs, b->jobs + b->head, b->count * sizeof(*b->jobs));
		b->head = 0;
	}
	if (b->count == b->room) {
		u32 room = b->room ? 2 * b->room : 4;
		struct pending *jobs = realloc(b->jobs, room * sizeof(*jobs));

		if (!jobs)
			return -1;
		b->jobs = jobs;
		b->room = room;
	}
	b->jobs[b->head + b->count++] = job;
	return 0;
}

static u64 following(const struct sim *s)
{
	u64 next = U64_MAX;
	u32 i;

	for (i = 0; i < s->t->tasks; i++) {
		next = earlier(next, earlier(s->next[i], s->finish[i]));
		if (!s->run->run_late)
			next = earlier(next, s->ready[i].deadline);
	}
	for (i = 0; i < s->t->gpus; i++)
		next = earlier(next, gpurt_sgpu_next(&s->gpus[i]));
	return next;
}

static void judge(struct sim *s, u32 task, u64 due, u64 finish)
{
	struct gpurt_energy_task *one = &s->tasks[task];
	int64_t lateness = (int64_t)(finish - due);

	if (lateness > one->lateness)
		one->lateness = lateness;
	if (due < s->end) {
		one->judged++;
		one->late += lateness > 0;
	}
}

static void finish_jobs(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->t->gpus; i++)
		if (gpurt_sgpu_next(&s->gpus[i]) <= s->now)
			gpurt_sgpu_advance(&s->gpus[i], s->now);
	for (i = 0; i < s->t->tasks; i++)
		if (s->finish[i] <= s->now) {
			judge(s, i, s->due[i], s->finish[i]);
			s->finish[i] = U64_MAX;
		}
}

static void record(struct gpurt_energy_result *r, struct gpurt_energy_dispatch one)
{
	if (r->log && r->logged < r->log_room)
		r->log[r->logged] = one;
	r->logged++;
}

static void skip_jobs(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->t->tasks; i++)
		while (s->ready[i].deadline <= s->now) {
			const struct pending *job = &s->backlog[i].jobs[s->backlog[i].head];

			record(s->result, (struct gpurt_energy_dispatch){
				.task = i, .job = job->number, .release = job->job.release, .at = s->now,
			});
			s->tasks[i].judged++;
			s->tasks[i].skipped++;
			drop_oldest(s, i);
		}
}

static int release_jobs(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->t->tasks; i++) {
		const struct gpurt_sbeet_task *task = &s->t->task[i];
		u64 release = s->next[i], late;
		struct pending job = { { release, release + task->deadline, i }, s->tasks[i].released, 0 };

		if (release > s->now)
			continue;
		job.bits = random_bits(&s->random[i]);
		late = scaled(random_bits(&s->random[i]), 0, task->period / 10);
		if (append(&s->backlog[i], job))
			return -1;
		show_oldest(s, i);
		s->earliest[i] = release + task->period;
		s->next[i] = s->earliest[i] + (s->run->sporadic ? late : 0);
		if (s->run->complete && s->next[i] >= s->run->horizon)
			s->next[i] = s->earliest[i] = U64_MAX;
		s->tasks[i].released++;
	}
	return 0;
}

static u64 length_of(const struct sim *s, const struct pending *job, u32 gpu, u32 units)
{
	u64 worst = s->t->kernel[job->job.task * s->t->gpus + gpu].time[units - 1];
	u64 best = s->best[job->job.task * s->t->gpus + gpu][units - 1];

	if (s->run->execution == GPURT_ENERGY_RANDOM)
		return scaled(job->bits, best, worst);
	return s->run->execution == GPURT_ENERGY_BEST ? best : worst;
}

static void start(void *host, u32 task, struct gpurt_sbeet_decision d)
{
	struct sim *s = host;
	const struct pending *job = &s->backlog[task].jobs[s->backlog[task].head];
	struct gpurt_energy_result *r = s->result;
	struct gpurt_sgpu_job plan, *placed;
	u64 finish, early;

	gpurt_sbeet_plan(s->t, task, d.gpu, d.units, s->now, &plan, &finish);
	early = plan.end - plan.start - length_of(s, job, d.gpu, d.units);
	plan.end -= early;
	plan.free -= early;
	placed = gpurt_sgpu_place(&s->gpus[d.gpu], &plan, s->now);
	s->finish[task] = finish - early;
	s->due[task] = job->job.deadline;
	if (plan.start < s->end) {
		u64 length = earlier(plan.end, s->end) - plan.start;

		r->kernel_time[d.gpu] += length;
		r->unit_time[task * s->t->gpus + d.gpu] += length * d.units;
	}
	r->away += d.gpu != s->t->task[task].assigned;
	record(r, (struct gpurt_energy_dispatch){
		task, d.gpu, d.units, placed->first, job->number, job->job.release, s->now, plan.start, plan.end,
		finish - early,
	});
	drop_oldest(s, task);
}

static void close_run(struct sim *s)
{
	u32 i, j;

	for (i = 0; i < s->t->gpus; i++) {
		gpurt_sgpu_advance(&s->gpus[i], s->result->end);
		s->result->busy[i] = s->gpus[i].busy;
	}
	for (i = 0; i < s->t->tasks; i++) {
		const struct backlog *b = &s->backlog[i];

		if (s->finish[i] != U64_MAX)
			judge(s, i, s->due[i], s->finish[i]);
		for (j = 0; j < b->count; j++)
			if (b->jobs[b->head + j].job.deadline < s->end) {
				s->tasks[i].judged++;
				s->tasks[i].late++;
			}
	}
	s->result->overflows = s->state.overflows;
}

static void begin(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->t->tasks; i++) {
		u64 bits;

		s->random[i] = s->run->seed + i * STREAM;
		bits = random_bits(&s->random[i]);
		s->next[i] = s->run->random_offsets ? scaled(bits, 0, s->t->task[i].period - 1) : s->tasks[i].offset;
		if (s->run->complete && s->next[i] >= s->run->horizon)
			s->next[i] = U64_MAX;
		s->earliest[i] = s->next[i];
		s->finish[i] = U64_MAX;
		s->tasks[i].lateness = INT64_MIN;
		show_oldest(s, i);
	}
}

static void *zeros(u32 count, size_t size)
{
	return calloc(count + 1, size);
}

int gpurt_energy_simulate(const struct gpurt_sbeet_tables *t, struct gpurt_sgpu *gpus, const u64 *const *best,
			  const struct gpurt_energy_run *run, struct gpurt_energy_task *tasks,
			  struct gpurt_energy_result *result)
{
	u64 *times = zeros(5 * t->tasks, sizeof(*times));
	u32 *order = zeros(t->tasks, sizeof(*order));
	struct sim s = {
		.t = t, .run = run, .best = best, .gpus = gpus, .tasks = tasks, .result = result,
		.end = run->complete ? U64_MAX : run->horizon,
		.backlog = zeros(t->tasks, sizeof(*s.backlog)), .ready = zeros(t->tasks, sizeof(*s.ready)),
	};
	struct gpurt_sbeet_pass pass = { .order = run->order, .room = order, .host = &s, .start = start };
	int err = times && s.backlog && s.ready && order ? 0 : -1;
	u32 i;

	if (!err) {
		s.random = times;
		s.next = times + t->tasks;
		s.earliest = times + 2 * t->tasks;
		s.finish = times + 3 * t->tasks;
		s.due = times + 4 * t->tasks;
		pass.finish = s.finish;
		s.state = (struct gpurt_sbeet_state){ .gpu = gpus, .earliest = s.earliest, .ready = s.ready };
		begin(&s);
	}
	result->end = run->horizon;
	while (!err && (s.now = following(&s)) < s.end) {
		if (s.now > result->end)
			result->end = s.now;
		finish_jobs(&s);
		if (!run->run_late)
			skip_jobs(&s);
		err = release_jobs(&s);
		if (!err)
			gpurt_sbeet_pass(t, &s.state, &pass, s.now);
	}
	if (!err)
		close_run(&s);
	for (i = 0; i < t->tasks && s.backlog; i++)
		free(s.backlog[i].jobs);
	free(times);
	free(s.backlog);
	free(s.ready);
	free(order);
	return err;
}

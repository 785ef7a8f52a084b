// SPDX-License-Identifier: GPL-2.0
/* The task that has each CPU, releases of jobs, and the passing of time. */
#include "sim.h"

void sim_switch_to(struct sim *s, struct cpu *cpu, struct job_task *t)
{
	bool updating = t && t->step == UPDATING;

	if (cpu->running == t && cpu->updating == updating)
		return;
	if (cpu->running && s->now > cpu->since)
		sim_record(s, cpu->updating ? GPURT_SIM_UPDATE : GPURT_SIM_CPU, cpu->running, (int)(cpu - s->cpus),
			   cpu->since, s->now - cpu->since);
	cpu->running = t;
	cpu->updating = updating;
	cpu->since = s->now;
}

/* The priority of a task on its CPU: its own, or above all of those if it is raised. */
static u32 urgency(const struct sim *s, const struct job_task *t)
{
	if (t->client.boost.raised)
		return GPURT_LEVELS + t->client.boost.raised;
	if (s->config->boost && t->in_segment && gpurt_on_runlist(&t->part->sched, t->as))
		return GPURT_LEVELS + t->task->priority;
	return t->task->priority > sim_inherited(s, t) ? t->task->priority : sim_inherited(s, t);
}

/* The task that a CPU executes now: an update first, then by priority.  A task of equal priority does not preempt. */
static struct job_task *choose(struct sim *s, const struct cpu *cpu)
{
	struct job_task *best = cpu->running, *t;
	u32 i;

	if (s->now < cpu->thread_until)
		return NULL;
	if (best && (best->step == UPDATING || sim_unpreempted(s, best)))
		return best;
	if (best && best->step < EXECUTING)
		best = NULL;
	for (i = 0; i < cpu->count; i++) {
		t = cpu->own[i];
		if (t->step < EXECUTING || t == best)
			continue;
		if (t->step == UPDATING)
			return t;
		if (!best || urgency(s, t) > urgency(s, best) ||
		    (urgency(s, t) == urgency(s, best) && best != cpu->running &&
		     t->ready_since < best->ready_since))
			best = t;
	}
	return best;
}

/* Gives the CPU to the task that choose() names.  The choice stays the same until a task of the CPU changes. */
static void reschedule(struct sim *s, struct cpu *cpu)
{
	if (!cpu->stale)
		return;
	cpu->stale = false;
	sim_switch_to(s, cpu, choose(s, cpu));
}

/* Whether the task that a CPU executes does something that takes no time. */
static bool acts(const struct sim *s, const struct job_task *t)
{
	switch (t && !t->waking ? t->step : IDLE) {
	case EXECUTING:
		return !t->left;
	case REQUESTING:
	case HANDED:
	case WANTING:
	case FORKING:
		return true;
	case UPDATING:
		return s->now >= t->until;
	case SPINNING:
		return t->gpu_done;
	default:
		return false;
	}
}

/* Whether CPUs act from the last to the first: tasks of two CPUs that act at one instant may do so in either order. */
static bool backwards(struct sim *s)
{
	u32 i, acting = 0;

	for (i = 0; s->chooser && i < s->config->cpus; i++)
		acting += acts(s, s->cpus[i].running);
	return acting > 1 && sim_below(s, 2);
}

void sim_settle(struct sim *s)
{
	struct cpu *cpu, *end = s->cpus + s->config->cpus;
	bool again = true, back = backwards(s);
	u32 i, cpus = s->config->cpus;

	if (s->jobs)
		s->cpus[s->config->job_cpu].stale = true;	/* the kernel thread may have begun or ended */
	while (again || sim_release_triggered(s)) {
		again = sim_wake(s);
		for (i = 0; i < cpus; i++) {
			cpu = &s->cpus[back ? cpus - 1 - i : i];
			reschedule(s, cpu);
			if (cpu->running && sim_act(s, cpu->running))
				again = true;
		}
	}
	for (cpu = s->cpus; cpu < end; cpu++)
		reschedule(s, cpu);
}

/* By how much a job comes after its arrival: not at all, as much as it may, or in between. */
static u64 lateness(struct sim *s, const struct gpurt_sim_task *task)
{
	if (!task->jitter || !s->config->sporadic)
		return 0;
	switch (sim_draw(s) % 3) {
	case 0:
		return 0;
	case 1:
		return task->jitter;
	default:
		return sim_draw(s) % (task->jitter + 1);
	}
}

/* The job that is released now has arrived as early as it can have.  Says when the next one comes. */
static u64 next_release(struct sim *s, struct job_task *t, u64 delay)
{
	int64_t earliest = (int64_t)(s->now - t->task->jitter), next;

	if (t->arrival < earliest)
		t->arrival = earliest;
	t->arrival += (int64_t)(t->task->period + delay);
	next = t->arrival + (int64_t)lateness(s, t->task);
	/* An exploration chooses releases from the earliest on. */
	return next > (int64_t)s->now ? (u64)next : s->now;
}

/* When the next job of a task comes at the latest: its arrival, and that of the job that is released now, as late as can be. */
static u64 latest(const struct sim *s, const struct job_task *t)
{
	const struct gpurt_sim_task *task = t->task;
	u64 arrived = t->latest == U64_MAX || t->latest - task->jitter > s->now ? s->now : t->latest - task->jitter;

	return task->max_period ? arrived + task->max_period + task->jitter : U64_MAX;
}

void sim_release(struct sim *s, struct job_task *t)
{
	const struct gpurt_sim_task *task = t->task;
	u64 room = task->max_period ? task->max_period - task->period : task->period / 10;
	u64 delay = s->config->sporadic ? sim_draw(s) % (room + 1) : 0;

	sim_record(s, GPURT_SIM_RELEASE, t, -1, s->now, 0);
	t->stats->jobs++;
	if (t->queued == BACKLOG || (task->thread && sim_skipped(t))) {
		t->stats->misses++;	/* too many jobs are pending, or the timer is late: this one is skipped */
		t->stats->dropped += t->queued == BACKLOG;
	} else {
		t->backlog[(t->head + t->queued++) % BACKLOG] = s->now;
		if (t->queued == 1 && !task->thread)
			sim_start_job(s, t);
	}
	t->latest = latest(s, t);
	t->next_release = t->triggered ? U64_MAX : next_release(s, t, delay);
	if (t->next_release >= s->config->horizon)
		t->next_release = U64_MAX;
}

/* Releases the jobs that are due.  Returns whether there were any. */
static bool release_all(struct sim *s)
{
	struct job_task *t;
	bool any = false;

	for (t = s->tasks; t < s->tasks + s->count; t++) {
		while (t->next_release == s->now) {	/* several where jitter is longer than the period */
			sim_release(s, t);
			any = true;
		}
	}
	sim_serve(s);
	return any;
}

/* Policy `job`: whether the job of a task has started or ended since the kernel thread looked. */
static bool unnoticed(const struct job_task *t)
{
	return t->part->config->policy == GPURT_POLICY_JOB && t->task->priority && t->client.tsgs &&
	       t->wanted != (t->queued > 0);
}

/* Policy `job`: tells the core which jobs started or ended since the last time; first starts, for fewer updates. */
static void poll_jobs(struct sim *s)
{
	struct cpu *cpu = &s->cpus[s->config->job_cpu];
	struct part *p, *end = s->parts + s->config->part_count;
	struct job_task *t;
	u64 busy = 0;
	int start;

	for (p = s->parts; p < end; p++)
		p->committed = false;
	for (start = 1; start >= 0; start--) {
		for (t = s->tasks; t < s->tasks + s->count; t++) {
			if (!unnoticed(t) || t->wanted == start)
				continue;
			t->wanted = start;
			gpurt_job(&t->part->sched, t->as, t->task->gpu_priority, start, s->now);
			sim_decided(s);
		}
	}
	for (p = s->parts; p < end; p++)
		if (p->committed)
			busy += p->config->alpha;
	if (busy)
		cpu->thread_until = s->now + busy;
}

/* Whether the kernel thread would notice anything if it looked now. */
static bool noticeable(const struct sim *s)
{
	const struct job_task *t;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (unnoticed(t))
			return true;
	return false;
}

u64 sim_next(const struct sim *s)
{
	const struct job_task *t;
	u64 next = U64_MAX, at;
	u32 i;

	for (i = 0; i < s->config->part_count; i++) {
		at = gpurt_vgpu_next(&s->parts[i].vgpu);
		if (at < next)
			next = at;
	}
	for (i = 0; i < s->config->cpus; i++) {
		t = s->cpus[i].running;
		if (t && t->waking && s->now + t->waking < next)
			next = s->now + t->waking;
		if (t && !t->waking && t->step == EXECUTING && s->now + t->left < next)
			next = s->now + t->left;
		if (t && t->step == UPDATING && t->until < next)
			next = t->until;
		if (s->cpus[i].thread_until > s->now && s->cpus[i].thread_until < next)
			next = s->cpus[i].thread_until;
	}
	return next;
}

/* When something happens next; U64_MAX: nothing does any more. */
static u64 next_time(const struct sim *s)
{
	const struct job_task *t;
	u64 next = sim_next(s);

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->next_release < next)
			next = t->next_release;
	if (next == U64_MAX && !noticeable(s))
		return U64_MAX;	/* tasks wait for each other, and the kernel thread would look for ever */
	return s->next_poll < next ? s->next_poll : next;
}

void sim_pass(struct sim *s, u64 next)
{
	struct job_task *t;
	u32 i;

	if (next > s->now)
		sim_chain_passes(s);
	for (i = 0; i < s->config->cpus; i++) {
		t = s->cpus[i].running;
		if (t && t->waking)
			t->waking -= next - s->now;
		else if (t && t->step == EXECUTING)
			t->left -= next - s->now;
	}
	s->now = next;
	for (i = 0; i < s->config->part_count; i++)
		gpurt_vgpu_advance(&s->parts[i].vgpu, next);
	sim_settle(s);
}

void sim_look(struct sim *s)
{
	if (!s->jobs || (s->config->poll && s->now != s->next_poll))
		return;
	if (s->config->poll)
		s->next_poll += s->config->poll;
	poll_jobs(s);
	sim_settle(s);
}

static bool over(const struct sim *s)
{
	const struct job_task *t;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->queued || t->next_release != U64_MAX)
			return false;
	return true;
}

int sim_run(struct sim *s)
{
	u64 steps = s->config->max_events, next;

	while (!over(s)) {
		if (!steps--)
			return -GPURT_SIM_ETIME;
		next = next_time(s);
		if (next == U64_MAX)
			break;
		sim_pass(s, next);
		if (release_all(s))
			sim_settle(s);
		sim_look(s);
	}
	return 0;
}

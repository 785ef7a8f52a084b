// SPDX-License-Identifier: GPL-2.0
/* The task that has each CPU, releases of jobs, and the passing of time. */
#include "sim.h"

void sim_bring(struct sim *s, struct cpu *cpu)
{
	struct job_task *t = cpu->running;
	u64 ns = s->now - cpu->from;

	cpu->from = s->now;
	if (t && t->waking)
		t->waking -= ns;
	else if (t && t->step == EXECUTING)
		t->left -= ns;
}

void sim_switch_to(struct sim *s, struct cpu *cpu, struct job_task *t)
{
	bool updating = t && t->step == UPDATING;

	if (cpu->running == t && cpu->updating == updating)
		return;
	sim_bring(s, cpu);
	if (cpu->running && s->now > cpu->since)
		sim_record(s, cpu->updating ? GPURT_SIM_UPDATE : GPURT_SIM_CPU, cpu->running, (int)(cpu - s->cpus),
			   cpu->since, s->now - cpu->since);
	cpu->running = t;
	cpu->updating = updating;
	cpu->since = s->now;
}

/* The priority of a task on its CPU: its own, or above all own priorities if it is raised. */
static u32 urgency(const struct sim *s, const struct job_task *t)
{
	u32 inherited;

	if (t->client.boost.raised)
		return GPURT_LEVELS + t->client.boost.raised;
	if (s->config->boost && t->in_segment && gpurt_on_runlist(&t->part->sched, t->as))
		return GPURT_LEVELS + t->task->priority;
	inherited = t->holds ? sim_inherited(s, t) : 0;
	return t->task->priority > inherited ? t->task->priority : inherited;
}

/* The task that a CPU executes now: an update first, then by priority.  A task of equal priority does not preempt. */
static struct job_task *choose(struct sim *s, const struct cpu *cpu)
{
	struct job_task *best = cpu->running, *t;
	u32 i, level = 0, its;

	if (s->now < cpu->thread_until)
		return NULL;
	if (best && (best->step == UPDATING || sim_unpreempted(s, best)))
		return best;
	if (best && best->step < EXECUTING)
		best = NULL;
	if (best)
		level = urgency(s, best);
	for (i = 0; i < cpu->count; i++) {
		t = cpu->own[i];
		if (t->step < EXECUTING || t == best)
			continue;
		if (t->step == UPDATING)
			return t;
		its = urgency(s, t);
		if (!best || its > level ||
		    (its == level && best != cpu->running && t->ready_since < best->ready_since)) {
			best = t;
			level = its;
		}
	}
	return best;
}

/* When the task that has a CPU completes its present activity; U64_MAX: this depends on others. */
static u64 next_of(const struct cpu *cpu)
{
	const struct job_task *t = cpu->running;

	if (!t)
		return U64_MAX;
	if (t->waking)
		return t->step == UPDATING && t->until < cpu->from + t->waking ? t->until : cpu->from + t->waking;
	if (t->step == UPDATING)
		return t->until;
	return t->step == EXECUTING ? cpu->from + t->left : U64_MAX;
}

/*
 * Gives the CPU to the task that choose() names; the choice holds until a task of the CPU changes.  The task acts if it
 * can.  Returns whether it did.
 */
static bool visit(struct sim *s, struct cpu *cpu)
{
	bool acted;

	sim_bring(s, cpu);
	if (cpu->next == STALE)
		sim_switch_to(s, cpu, choose(s, cpu));
	cpu->next = U64_MAX;	/* the task's action may make it stale again */
	acted = cpu->running && sim_act(s, cpu->running);
	if (cpu->next != STALE)
		cpu->next = next_of(cpu);
	return acted;
}

/* Whether the task that a CPU executes has an activity that takes no time. */
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

	for (i = 0; i < s->config->cpus; i++)
		acting += acts(s, s->cpus[i].running);
	return acting > 1 && sim_below(s, 2);
}

void sim_settle(struct sim *s)
{
	struct cpu *cpu, *end = s->cpus + s->config->cpus, *from = s->cpus, *to = end;
	bool again = true, every = !s->lazy;
	int step = 1;

	if (s->chooser && backwards(s)) {
		from = end - 1;
		to = s->cpus - 1;
		step = -1;
	}
	if (s->jobs)
		s->cpus[s->config->job_cpu].next = STALE;	/* the kernel thread may have begun or ended */
	while (again || sim_release_triggered(s)) {
		again = sim_wake(s);
		s->cpu_next = U64_MAX;	/* final after the last round, in which no task acts */
		for (cpu = from; cpu != to; cpu += step) {
			if (cpu->next <= s->now || every)
				again |= visit(s, cpu);
			if (cpu->next < s->cpu_next)
				s->cpu_next = cpu->next;
		}
	}
}

/* The time from a job's arrival to its release: none, the whole jitter, or in between. */
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

/* The next release, if the job that is released now arrived as early as possible. */
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

/* The latest release of a task's next job, if the job that is released now and the next arrive as late as possible. */
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
		s->open++;
		if (t->queued == 1 && !task->thread)
			sim_start_job(s, t);
	}
	t->latest = latest(s, t);
	t->next_release = t->triggered ? U64_MAX : next_release(s, t, delay);
	if (t->next_release >= s->config->horizon)
		t->next_release = U64_MAX;
}

/* Releases the jobs that are due.  Returns the time of the next release; U64_MAX: never. */
static u64 release_all(struct sim *s)
{
	u64 first = U64_MAX;
	struct job_task *t;

	for (t = s->tasks; t < s->tasks + s->count; t++) {
		while (t->next_release == s->now)	/* several if jitter is longer than the period */
			sim_release(s, t);
		if (t->next_release < first)
			first = t->next_release;
	}
	sim_serve(s);
	return first;
}

/* The time of the next release; U64_MAX: never. */
static u64 first_release(const struct sim *s)
{
	const struct job_task *t;
	u64 first = U64_MAX;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->next_release < first)
			first = t->next_release;
	return first;
}

/* Policy `job`: whether the job of a task has started or ended since the kernel thread looked. */
static bool unnoticed(const struct job_task *t)
{
	return t->part->config->policy == GPURT_POLICY_JOB && t->task->priority && t->client.tsgs &&
	       t->wanted != (t->queued > 0);
}

/* Policy `job`: tells the core which jobs started or ended since the last look; first starts, for fewer updates. */
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

/*
 * The time of the next event on a part.  It stays valid until the part changes, so it is computed once, and until then
 * the virtual GPU need not come to the present.  An exploration compares present states only.
 */
static u64 next_on(const struct sim *s, struct part *p)
{
	if (!s->lazy)
		return gpurt_vgpu_next(&p->vgpu);
	if (p->changed)
		p->next = gpurt_vgpu_next(&p->vgpu);
	p->changed = false;
	return p->next;
}

u64 sim_next(const struct sim *s)
{
	const struct cpu *cpu = &s->cpus[s->config->job_cpu];
	u64 next = s->lazy ? s->cpu_next : U64_MAX, at;
	u32 i;

	for (i = 0; !s->lazy && i < s->config->cpus; i++) {	/* the state may be one that was stored */
		at = next_of(&s->cpus[i]);
		if (at < next)
			next = at;
	}
	for (i = 0; i < s->config->part_count; i++) {
		at = next_on(s, &s->parts[i]);
		if (at < next)
			next = at;
	}
	if (s->config->yield.on && (at = sim_yield_next(s)) < next)
		next = at;
	return cpu->thread_until > s->now && cpu->thread_until < next ? cpu->thread_until : next;
}

/* The time of the next event; U64_MAX: there is none.  @release: the time of the next release. */
static u64 next_time(const struct sim *s, u64 release)
{
	u64 next = sim_next(s);

	if (release < next)
		next = release;
	if (next == U64_MAX && !noticeable(s))
		return U64_MAX;	/* tasks wait for each other, and the kernel thread would look for ever */
	return s->next_poll < next ? s->next_poll : next;
}

static void happen(struct part *p)
{
	gpurt_vgpu_pass(&p->vgpu, p->next);
	gpurt_vgpu_happen(&p->vgpu);
	p->next = gpurt_vgpu_next(&p->vgpu);
}

/*
 * Lets TSGs on the only part follow one another, which concerns no task, until another event.  Counts down *@steps by
 * these events.  Returns whether the last one concerned a task, which has been told then.
 */
static bool take_turns(struct sim *s, u64 release, u64 *steps)
{
	struct part *p = s->parts;
	u64 until = release < s->cpu_next ? release : s->cpu_next;

	if (!s->lazy || s->jobs || s->config->part_count > 1 || next_on(s, p) >= until)
		return false;
	sim_chain_passes(s);
	while (p->next < until && !s->gpu_news && *steps) {
		--*steps;
		s->now = p->next;
		happen(p);
	}
	if (!s->gpu_news)
		return false;
	sim_settle(s);
	return true;
}

void sim_pass(struct sim *s, u64 next)
{
	struct part *p, *end = s->parts + s->config->part_count;
	u32 i;

	if (next > s->now)
		sim_chain_passes(s);
	s->now = next;
	for (i = 0; !s->lazy && i < s->config->cpus; i++)
		sim_bring(s, &s->cpus[i]);
	for (p = s->parts; p < end; p++) {
		if (!s->lazy)
			gpurt_vgpu_advance(&p->vgpu, next);
		else if (next_on(s, p) <= next)
			while (p->next <= next)
				happen(p);
	}
	if (s->config->yield.on)
		sim_yield_happen(s);
	if (!s->lazy || s->gpu_news || s->cpu_next <= next || s->jobs)
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

int sim_run(struct sim *s)
{
	u64 steps = s->config->max_events, release = first_release(s), next;

	/* If partitions slow each other down, an event in one changes the next events of the others. */
	s->lazy = s->config->cross <= GPURT_FACTOR_ONE && !s->config->yield.on;
	while (s->open || release != U64_MAX) {
		if (take_turns(s, release, &steps))
			continue;
		if (!steps--)
			return -GPURT_SIM_ETIME;
		next = next_time(s, release);
		if (next == U64_MAX)
			break;
		sim_pass(s, next);
		if (release == next) {
			release = release_all(s);
			sim_settle(s);
		}
		sim_look(s);
	}
	return 0;
}

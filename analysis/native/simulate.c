// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "../../kmod/core/policy.h"
#include "../../kmod/core/vgpu.h"
#include "simulate.h"

#define BACKLOG 32	/* jobs of one task that may wait for the one before them */

/* What a task does.  From EXECUTING on it wants its CPU. */
enum step {
	IDLE,			/* no job */
	ASLEEP_LOCK,		/* waits for the update lock */
	ASLEEP_GRANT,		/* policies lock-*: waits for the GPU */
	ASLEEP_GPU,		/* its pure GPU segment executes */
	EXECUTING,		/* C or G^m */
	REQUESTING,		/* is about to begin or end a segment */
	HANDED,			/* has been given the update lock */
	UPDATING,		/* holds it: not preemptible */
	SPINNING,		/* like ASLEEP_GPU, busy-waiting */
};

struct job_task {
	const struct gpurt_sim_task *task;
	const struct gpurt_sim_segment *segments;
	struct gpurt_sim_stats *stats;
	enum step step;
	bool in_segment;	/* between begin and end */
	bool gpu_done;
	bool wanted;		/* what the kernel thread has last been told */
	u32 at;			/* segment */
	u64 left;		/* of EXECUTING */
	u64 until;		/* of UPDATING */
	u64 ready_since;	/* order among equals */
	u64 lock_since;
	u64 next_release;
	u64 backlog[BACKLOG];
	u32 queued, head;
	u32 job;
	struct gpurt_client client;
	struct gpurt_vgpu_ctx ctx;
	struct gpurt_vgpu_tsg tsg;
	struct gpurt_vgpu_work work;
};

struct cpu {
	struct job_task *running;
	u64 since;		/* it runs */
	bool updating;		/* what runs is an update */
	bool stale;		/* a task of it has changed since `running` was chosen */
	struct job_task **own;	/* its tasks, in their order */
	u32 count;
	u64 thread_until;	/* the kernel thread has the CPU until then */
};

struct sim {
	struct gpurt_sched sched;	/* first: the callbacks find the simulation by it */
	struct gpurt_vgpu vgpu;
	const struct gpurt_sim_config *config;
	struct job_task *tasks;
	struct cpu *cpus;
	u32 count;
	u64 now;
	u64 order;
	u64 random;
	u64 next_poll;
	struct job_task *lock;		/* owner of the update lock */
	bool committed;
	bool gpu_news;			/* someone may have to be woken */
	struct job_task *on_gpu;
	u64 gpu_since;
	struct gpurt_sim_event *events;
	u64 room, used;
};

static u64 draw(struct sim *s)
{
	u64 z = s->random += 0x9e3779b97f4a7c15ULL;	/* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static u64 demand(struct sim *s, u64 worst, u64 best)
{
	switch (s->config->execution) {
	case GPURT_SIM_WORST:
		return worst;
	case GPURT_SIM_BEST:
		return best;
	}
	return best + draw(s) % (worst - best + 1);
}

static void record(struct sim *s, u32 kind, const struct job_task *t, int cpu, u64 time, u64 duration)
{
	if (s->used < s->room)
		s->events[s->used] = (struct gpurt_sim_event){
			.time = time, .duration = duration, .kind = kind, .task = t ? (int)(t - s->tasks) : -1,
			.cpu = cpu, .job = t ? t->job : 0,
		};
	s->used++;
}

static struct job_task *owner(struct gpurt_client *c)
{
	return c ? list_entry(c, struct job_task, client) : NULL;
}

static void on_commit(struct gpurt_sched *sched, struct gpurt_client *only, u32 cause, u64 now)
{
	struct sim *s = (struct sim *)sched;
	struct job_task *t = owner(only);

	(void)cause;
	s->committed = true;
	record(s, GPURT_SIM_COMMIT, t, -1, now, s->config->alpha);
	gpurt_vgpu_commit(&s->vgpu, t ? &t->ctx : NULL, now);
}

static void on_event(struct gpurt_sched *sched, struct gpurt_client *c, u32 event, u64 now)
{
	static const u32 kinds[GPURT_EVENT_COUNT] = {
		[GPURT_EVENT_BEGIN] = GPURT_SIM_BEGIN, [GPURT_EVENT_GRANT] = GPURT_SIM_GRANT,
		[GPURT_EVENT_PREEMPT] = GPURT_SIM_PREEMPT, [GPURT_EVENT_RESUME] = GPURT_SIM_RESUME,
		[GPURT_EVENT_END] = GPURT_SIM_END,
	};
	if (kinds[event])
		record((struct sim *)sched, kinds[event], owner(c), -1, now, 0);
}

static void on_done(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *tsg, struct gpurt_vgpu_work *w, u64 when)
{
	struct sim *s = v->host;

	(void)w;
	(void)when;
	list_entry(tsg, struct job_task, tsg)->gpu_done = true;
	s->gpu_news = true;
}

static void on_run(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *tsg, u64 when)
{
	struct sim *s = v->host;

	if (s->on_gpu && when > s->gpu_since)
		record(s, GPURT_SIM_GPU, s->on_gpu, -1, s->gpu_since, when - s->gpu_since);
	s->on_gpu = tsg ? list_entry(tsg, struct job_task, tsg) : NULL;
	s->gpu_since = when;
}

static const struct gpurt_sched_ops sched_ops = { .commit = on_commit, .event = on_event };
static const struct gpurt_vgpu_ops vgpu_ops = { .done = on_done, .run = on_run };

static bool locking(const struct sim *s)
{
	return s->config->policy == GPURT_POLICY_LOCK_PRIORITY || s->config->policy == GPURT_POLICY_LOCK_FIFO;
}

/* Whether programs call begin and end at all. */
static bool calling(const struct sim *s)
{
	return s->config->policy == GPURT_POLICY_SEGMENT || locking(s);
}

static void set_step(struct sim *s, struct job_task *t, enum step step)
{
	t->step = step;
	s->cpus[t->task->cpu].stale = true;
}

static void ready(struct sim *s, struct job_task *t, enum step step)
{
	if (t->step < EXECUTING)
		t->ready_since = ++s->order;
	set_step(s, t, step);
}

/* The scheduler has decided: who sleeps for the GPU may have it, and boosting may have moved. */
static void decided(struct sim *s)
{
	u32 i;

	s->gpu_news = true;
	for (i = 0; s->config->boost && i < s->config->cpus; i++)
		s->cpus[i].stale = true;
}

/* The job goes on with segment t->at, or is over. */
static void enter_segment(struct sim *s, struct job_task *t);

static void start_job(struct sim *s, struct job_task *t)
{
	t->at = 0;
	t->in_segment = false;
	t->job++;
	enter_segment(s, t);
}

static void finish_job(struct sim *s, struct job_task *t)
{
	u64 release = t->backlog[t->head], response = s->now - release;

	record(s, GPURT_SIM_COMPLETE, t, -1, s->now, response);
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
	set_step(s, t, IDLE);
	if (t->queued)
		start_job(s, t);
}

static void enter_segment(struct sim *s, struct job_task *t)
{
	const struct gpurt_sim_segment *segment;

	if (t->at == t->task->count) {
		finish_job(s, t);
		return;
	}
	segment = &t->segments[t->at];
	if (segment->gpu && calling(s)) {
		ready(s, t, REQUESTING);
		return;
	}
	t->left = demand(s, segment->cpu_worst, segment->cpu_best);
	ready(s, t, EXECUTING);
}

/* The pure GPU part is over, or there was none. */
static void leave_gpu(struct sim *s, struct job_task *t)
{
	if (calling(s)) {
		ready(s, t, REQUESTING);
	} else {
		t->at++;
		enter_segment(s, t);
	}
}

static void submit(struct sim *s, struct job_task *t)
{
	const struct gpurt_sim_segment *segment = &t->segments[t->at];
	u64 duration = demand(s, segment->gpu_worst, segment->gpu_best);

	if (!duration) {
		leave_gpu(s, t);
		return;
	}
	t->gpu_done = false;
	gpurt_vgpu_submit(&s->vgpu, &t->tsg, &t->work, GPURT_ENGINE_EXEC, false, duration, s->now);
	set_step(s, t, t->task->busy ? SPINNING : ASLEEP_GPU);
}

/* The begin or end has been carried out. */
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
	/* Even a busy task sleeps here: spinning above the holder on its CPU would be a deadlock. */
	if (locking(s) && !gpurt_on_runlist(&s->sched, &t->client))
		set_step(s, t, ASLEEP_GRANT);
	else
		ready(s, t, EXECUTING);
}

/* Hands the lock to the waiter of highest GPU priority, first come among equals. */
static void release_lock(struct sim *s)
{
	struct job_task *best = NULL, *t;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->step == ASLEEP_LOCK &&
		    (!best || t->task->gpu_priority > best->task->gpu_priority ||
		     (t->task->gpu_priority == best->task->gpu_priority && t->lock_since < best->lock_since)))
			best = t;
	s->lock = best;
	if (best)
		ready(s, best, HANDED);
}

/* The task has the lock and its CPU: the decision, and the update if the runlist changes. */
static void update(struct sim *s, struct job_task *t)
{
	s->lock = t;
	s->committed = false;
	if (t->in_segment)
		gpurt_end(&s->sched, &t->client, s->now);
	else
		gpurt_begin(&s->sched, &t->client, t->task->gpu_priority, 0, s->now);
	decided(s);
	set_step(s, t, UPDATING);
	t->until = s->now + (s->committed ? s->config->alpha : 0);
}

static void request_lock(struct sim *s, struct job_task *t)
{
	struct job_task *holder = s->lock;

	if (holder && holder->step == HANDED && t->task->gpu_priority > holder->task->gpu_priority) {
		set_step(s, holder, ASLEEP_LOCK);	/* it has not begun: the more urgent one goes first */
		holder = NULL;
	}
	/* The published protocols leave the runlist alone: there is nothing to take turns for. */
	if (!holder || s->config->boost) {
		update(s, t);
		return;
	}
	set_step(s, t, ASLEEP_LOCK);
	t->lock_since = ++s->order;
}

/* Does what takes no time for a task that has its CPU; false if there is nothing such. */
static bool act(struct sim *s, struct job_task *t)
{
	switch (t->step) {
	case EXECUTING:
		if (t->left)
			return false;
		if (t->segments[t->at].gpu) {
			submit(s, t);
		} else {
			t->at++;
			enter_segment(s, t);
		}
		return true;
	case REQUESTING:
		request_lock(s, t);
		return true;
	case HANDED:
		update(s, t);
		return true;
	case UPDATING:
		if (s->now < t->until)
			return false;
		release_lock(s);
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

/* Wakes those whose wait on the GPU side is over. */
static bool wake(struct sim *s)
{
	struct job_task *t;
	bool woken = false;

	if (!s->gpu_news)
		return false;
	s->gpu_news = false;
	for (t = s->tasks; t < s->tasks + s->count; t++) {
		if (t->step == ASLEEP_GPU && t->gpu_done) {
			t->gpu_done = false;
			ready(s, t, EXECUTING);	/* to become ready; it has nothing left to execute */
			t->left = 0;
			leave_gpu(s, t);
			woken = true;
		} else if (t->step == ASLEEP_GRANT && gpurt_on_runlist(&s->sched, &t->client)) {
			ready(s, t, EXECUTING);
			woken = true;
		}
	}
	return woken;
}

static void switch_to(struct sim *s, struct cpu *cpu, struct job_task *t)
{
	bool updating = t && t->step == UPDATING;

	if (cpu->running == t && cpu->updating == updating)
		return;
	if (cpu->running && s->now > cpu->since)
		record(s, cpu->updating ? GPURT_SIM_UPDATE : GPURT_SIM_CPU, cpu->running, (int)(cpu - s->cpus), cpu->since,
		       s->now - cpu->since);
	cpu->running = t;
	cpu->updating = updating;
	cpu->since = s->now;
}

/* The priority that counts on the CPU. */
static u32 urgency(const struct sim *s, const struct job_task *t)
{
	bool boosted = s->config->boost && t->in_segment && gpurt_on_runlist(&s->sched, &t->client);

	return t->task->priority + (boosted ? GPURT_LEVELS : 0);
}

/* The task that a CPU executes now: an update before all, then by priority; an equal does not preempt. */
static struct job_task *choose(struct sim *s, const struct cpu *cpu)
{
	struct job_task *best = cpu->running, *t;
	u32 i;

	if (s->now < cpu->thread_until)
		return NULL;
	if (best && best->step == UPDATING)
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

/* Gives the CPU to whom it belongs.  The choice stays the same until a task of the CPU changes. */
static void reschedule(struct sim *s, struct cpu *cpu)
{
	if (!cpu->stale)
		return;
	cpu->stale = false;
	switch_to(s, cpu, choose(s, cpu));
}

/* Carries out everything that happens at this instant. */
static void settle(struct sim *s)
{
	struct cpu *cpu, *end = s->cpus + s->config->cpus;
	bool again = true;

	if (s->config->policy == GPURT_POLICY_JOB)
		s->cpus[s->config->job_cpu].stale = true;	/* the kernel thread may have begun or ended */
	while (again) {
		again = wake(s);
		for (cpu = s->cpus; cpu < end; cpu++) {
			reschedule(s, cpu);
			if (cpu->running && act(s, cpu->running))
				again = true;
		}
	}
	for (cpu = s->cpus; cpu < end; cpu++)
		reschedule(s, cpu);
}

static void release(struct sim *s, struct job_task *t)
{
	const struct gpurt_sim_task *task = t->task;
	u64 delay = s->config->sporadic ? draw(s) % (task->period / 10 + 1) : 0;

	record(s, GPURT_SIM_RELEASE, t, -1, s->now, 0);
	t->stats->jobs++;
	if (t->queued == BACKLOG) {
		t->stats->misses++;	/* hopelessly late: the job is skipped */
	} else {
		t->backlog[(t->head + t->queued++) % BACKLOG] = s->now;
		if (t->queued == 1)
			start_job(s, t);
	}
	t->next_release = s->now + task->period + delay;
	if (t->next_release >= s->config->horizon)
		t->next_release = U64_MAX;
}

/* Releases the jobs that are due; whether there were any. */
static bool release_all(struct sim *s)
{
	struct job_task *t;
	bool any = false;

	for (t = s->tasks; t < s->tasks + s->count; t++) {
		if (t->next_release == s->now) {
			release(s, t);
			any = true;
		}
	}
	return any;
}

/* Policy `job`: tells the core what changed since it was last told; starts before ends, for fewer updates. */
static void poll_jobs(struct sim *s)
{
	struct cpu *cpu = &s->cpus[s->config->job_cpu];
	struct job_task *t;
	int start;

	s->committed = false;
	for (start = 1; start >= 0; start--) {
		for (t = s->tasks; t < s->tasks + s->count; t++) {
			if (!t->task->priority || !t->client.tsgs || t->wanted == (t->queued > 0) || t->wanted == start)
				continue;
			t->wanted = start;
			gpurt_job(&s->sched, &t->client, t->task->gpu_priority, start, s->now);
			decided(s);
		}
	}
	if (s->committed)
		cpu->thread_until = s->now + s->config->alpha;
}

static u64 next_time(const struct sim *s)
{
	u64 next = gpurt_vgpu_next(&s->vgpu);
	const struct job_task *t;
	u32 i;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->next_release < next)
			next = t->next_release;
	for (i = 0; i < s->config->cpus; i++) {
		t = s->cpus[i].running;
		if (t && t->step == EXECUTING && s->now + t->left < next)
			next = s->now + t->left;
		if (t && t->step == UPDATING && t->until < next)
			next = t->until;
		if (s->cpus[i].thread_until > s->now && s->cpus[i].thread_until < next)
			next = s->cpus[i].thread_until;
	}
	return s->next_poll < next ? s->next_poll : next;
}

static void pass(struct sim *s, u64 next)
{
	struct job_task *t;
	u32 i;

	for (i = 0; i < s->config->cpus; i++) {
		t = s->cpus[i].running;
		if (t && t->step == EXECUTING)
			t->left -= next - s->now;
	}
	s->now = next;
}

static bool over(const struct sim *s)
{
	const struct job_task *t;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->queued || t->next_release != U64_MAX)
			return false;
	return true;
}

static int run(struct sim *s)
{
	bool jobs = s->config->policy == GPURT_POLICY_JOB;
	u64 steps = s->config->max_events, next;

	while (!over(s)) {
		if (!steps--)
			return -GPURT_SIM_ETIME;
		next = next_time(s);
		if (next == U64_MAX)
			break;
		pass(s, next);
		gpurt_vgpu_advance(&s->vgpu, next);
		settle(s);	/* who is done at this instant is not preempted by who is released at it */
		if (release_all(s))
			settle(s);
		if (jobs && (!s->config->poll || next == s->next_poll)) {
			if (s->config->poll)
				s->next_poll += s->config->poll;
			poll_jobs(s);
			settle(s);
		}
	}
	return 0;
}

static void set_up(struct sim *s, const struct gpurt_sim_task *tasks, const struct gpurt_sim_segment *segments,
		   struct gpurt_sim_stats *stats)
{
	const struct gpurt_sim_config *config = s->config;
	u32 i, j;

	s->random = config->seed;
	s->next_poll = config->policy == GPURT_POLICY_JOB && config->poll ? 0 : U64_MAX;
	gpurt_sched_init(&s->sched, &sched_ops, s, 0);
	gpurt_vgpu_init(&s->vgpu, &vgpu_ops, s, config->slice, config->theta, config->alpha, config->copy_engine, 0);
	gpurt_set_policy(&s->sched, config->policy, 0);
	memset(stats, 0, s->count * sizeof(*stats));
	for (i = 0; i < s->count; i++) {
		struct job_task *t = &s->tasks[i];

		t->task = &tasks[i];
		t->segments = segments + tasks[i].first;
		t->stats = &stats[i];
		t->next_release = tasks[i].offset < config->horizon ? tasks[i].offset : U64_MAX;
		gpurt_client_init(&t->client);
		gpurt_vgpu_ctx_init(&t->ctx);
		gpurt_vgpu_tsg_open(&t->tsg, &t->ctx);
		for (j = 0; j < tasks[i].count; j++)
			if (t->segments[j].gpu && !t->client.tsgs)
				gpurt_tsg_opened(&s->sched, &t->client, 0);
	}
}

/* Lists the tasks of each CPU, in their order, in @own. */
static void share_out(struct sim *s, struct job_task **own)
{
	u32 i, j;

	for (i = 0; i < s->config->cpus; i++) {
		s->cpus[i].own = own;
		s->cpus[i].stale = true;
		for (j = 0; j < s->count; j++)
			if (s->tasks[j].task->cpu == i)
				own[s->cpus[i].count++] = &s->tasks[j];
		own += s->cpus[i].count;
	}
}

/* Unfinished jobs count with what they have taken so far; what still runs is recorded. */
static void wind_up(struct sim *s)
{
	struct job_task *t;
	u32 i;

	for (i = 0; i < s->config->cpus; i++)
		switch_to(s, &s->cpus[i], NULL);
	on_run(&s->vgpu, NULL, s->now);
	for (t = s->tasks; t < s->tasks + s->count; t++) {
		u64 taken = t->queued ? s->now - t->backlog[t->head] : 0;

		if (taken > t->task->deadline)
			t->stats->misses++;
		if (taken > t->stats->worst) {
			t->stats->worst = taken;
			t->stats->worst_release = t->backlog[t->head];
		}
	}
}

static bool valid(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		  const struct gpurt_sim_segment *segments)
{
	u32 i, j;

	if (config->policy >= GPURT_POLICY_COUNT || !config->cpus || config->job_cpu >= config->cpus)
		return false;
	for (i = 0; i < count; i++) {
		if (tasks[i].cpu >= config->cpus || !tasks[i].period || tasks[i].priority >= GPURT_LEVELS ||
		    tasks[i].gpu_priority >= GPURT_LEVELS)
			return false;
		for (j = tasks[i].first; j < tasks[i].first + tasks[i].count; j++)
			if (segments[j].cpu_best > segments[j].cpu_worst || segments[j].gpu_best > segments[j].gpu_worst)
				return false;
	}
	return true;
}

int gpurt_simulate(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *stats,
		   struct gpurt_sim_event *events, u64 room, u64 *used)
{
	struct job_task **own;
	struct sim *s;
	int err = -GPURT_SIM_ENOMEM;

	if (!valid(config, tasks, count, segments))
		return -GPURT_SIM_EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -GPURT_SIM_ENOMEM;
	s->config = config;
	s->count = count;
	s->events = events;
	s->room = events ? room : 0;
	s->tasks = calloc(count ? count : 1, sizeof(*s->tasks));
	s->cpus = calloc(config->cpus, sizeof(*s->cpus));
	own = calloc(count ? count : 1, sizeof(struct job_task *));
	if (s->tasks && s->cpus && own) {
		set_up(s, tasks, segments, stats);
		share_out(s, own);
		err = run(s);
		wind_up(s);
	}
	if (used)
		*used = s->used;
	free(s->tasks);
	free(s->cpus);
	free(own);
	free(s);
	return err;
}

int gpurt_simulate_offsets(const struct gpurt_sim_config *config, struct gpurt_sim_task *tasks, u32 count,
			   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *worst, u64 from, u64 runs)
{
	struct gpurt_sim_config own = *config;
	struct gpurt_sim_stats *stats;
	struct sim random;
	int err = 0;
	u64 n;
	u32 i;

	stats = calloc(count ? count : 1, sizeof(*stats));
	if (!stats)
		return -GPURT_SIM_ENOMEM;
	for (n = from; n < from + runs && !err; n++) {
		random.random = config->seed ^ (n * 0xd1342543de82ef95ULL);
		own.seed = draw(&random);
		for (i = 0; i < count && n; i++)
			tasks[i].offset = draw(&random) % tasks[i].period;
		err = gpurt_simulate(&own, tasks, count, segments, stats, NULL, 0, NULL);
		for (i = 0; i < count && !err; i++) {
			worst[i].jobs += stats[i].jobs;
			worst[i].finished += stats[i].finished;
			worst[i].misses += stats[i].misses;
			worst[i].sum += stats[i].sum;
			if (stats[i].worst > worst[i].worst) {
				worst[i].worst = stats[i].worst;
				worst[i].worst_release = stats[i].worst_release;
			}
		}
	}
	free(stats);
	return err;
}

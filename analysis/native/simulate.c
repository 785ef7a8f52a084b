// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "sim.h"

u64 sim_draw(struct sim *s)
{
	return random_bits(&s->random);
}

u64 sim_below(struct sim *s, u64 n)
{
	if (s->chooser)
		return n > 1 ? s->chooser->choose(s->chooser, n) : 0;
	return sim_draw(s) % n;
}

void sim_record(struct sim *s, u32 kind, const struct job_task *t, int where, u64 time, u64 duration)
{
	if (s->used < s->room)
		s->events[s->used] = (struct gpurt_sim_event){
			.time = time, .duration = duration, .kind = kind, .task = t ? (int)(t - s->tasks) : -1,
			.where = where, .job = t ? t->job : 0,
		};
	s->used++;
}

static struct job_task *owner(struct gpurt_sched_client *c)
{
	return c ? list_entry(c, struct job_task, client) : NULL;
}

/* The task whose segment a client is in: the thread that began the segment. */
static struct job_task *inside(struct gpurt_sched_client *c)
{
	struct job_task *t = owner(c);

	return t && t->opener ? t->opener : t;
}

/* The context that has the GPU with a client: its task's, or its group's. */
static struct gpurt_vgpu_ctx *context(struct gpurt_sched_client *c)
{
	if (!c)
		return NULL;
	return c->group ? &list_entry(c->group, struct team, gpu)->ctx : &owner(c)->ctx;
}

static void on_commit(struct gpurt_sched *sched, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	struct part *p = (struct part *)sched;
	struct job_task *t = only && only->group ? NULL : inside(only);

	(void)cause;
	if (p->sim->config->yield.on) {
		p->owner = owner(only);
		p->lazy_until = only ? p->lazy_until : U64_MAX;
		return;
	}
	p->committed = p->changed = true;
	sim_record(p->sim, GPURT_SIM_COMMIT, t, (int)(p - p->sim->parts), now, p->config->alpha);
	gpurt_vgpu_commit(&p->vgpu, context(only), now);
}

static void on_event(struct gpurt_sched *sched, struct gpurt_sched_client *c, u32 event, u64 now)
{
	static const u32 kinds[GPURT_EVENT_COUNT] = {
		[GPURT_EVENT_BEGIN] = GPURT_SIM_BEGIN, [GPURT_EVENT_GRANT] = GPURT_SIM_GRANT,
		[GPURT_EVENT_PREEMPT] = GPURT_SIM_PREEMPT, [GPURT_EVENT_RESUME] = GPURT_SIM_RESUME,
		[GPURT_EVENT_END] = GPURT_SIM_END,
	};
	struct part *p = (struct part *)sched;

	if (event == GPURT_EVENT_BEGIN && p->caller && p->caller->as == c)
		owner(c)->opener = p->caller;
	if (kinds[event] && !p->sim->config->yield.on)
		sim_record(p->sim, kinds[event], inside(c), -1, now, 0);
}

static void on_raise(struct gpurt_sched *sched, struct gpurt_sched_client *c, u32 level, u64 now)
{
	(void)level;
	(void)now;
	((struct part *)sched)->sim->cpus[owner(c)->task->cpu].next = STALE;
}

static void on_done(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *tsg, struct gpurt_vgpu_work *w, u64 when)
{
	struct job_task *t = list_entry(w, struct job_task, work);
	struct part *p = v->host;

	sim_reordered(p, tsg, when);
	if (sim_yield_goes_on(p->sim, t, when))
		return;
	t->gpu_done = true;
	p->sim->gpu_news = true;
	p->sim->cpus[t->task->cpu].next = STALE;
	gpurt_boost_work(&p->sched, t->as, false, when);
}

/* The task whose work is the first of a TSG; NULL if there is none. */
static struct job_task *first_in(const struct gpurt_vgpu_tsg *tsg)
{
	const struct list_head *queue = &tsg->queue[GPURT_ENGINE_EXEC];

	return list_empty(queue) ? NULL : list_first_entry(queue, struct job_task, work.node);
}

static void on_run(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *tsg, u64 when)
{
	struct part *p = v->host;

	if (p->on_gpu && when > p->gpu_since)
		sim_record(p->sim, GPURT_SIM_GPU, p->on_gpu, (int)(p - p->sim->parts), p->gpu_since,
			   when - p->gpu_since);
	p->on_gpu = tsg ? first_in(tsg) : NULL;
	p->gpu_since = when;
}

void sim_reordered(struct part *p, const struct gpurt_vgpu_tsg *tsg, u64 when)
{
	if (p->on_gpu && p->on_gpu->on == tsg && first_in(tsg) != p->on_gpu)
		on_run(&p->vgpu, p->vgpu.holder, when);
}

/* A group is on only one part of the GPU, so no other part has to follow. */
static void on_regroup(struct gpurt_sched *sched, struct gpurt_group *group, u64 now)
{
	(void)sched;
	(void)group;
	(void)now;
}

static const struct gpurt_sched_ops sched_ops = {
	.commit = on_commit, .event = on_event, .raise = on_raise, .regroup = on_regroup,
};
static const struct gpurt_vgpu_ops vgpu_ops = { .done = on_done, .run = on_run };

static void set_up_parts(struct sim *s)
{
	u32 i;

	gpurt_whole_init(&s->whole, s->config->cross);
	for (i = 0; i < s->config->part_count; i++) {
		const struct gpurt_sim_part *config = &s->config->parts[i];
		struct part *p = &s->parts[i];

		p->config = config;
		p->sim = s;
		p->changed = true;
		gpurt_sched_init(&p->sched, &sched_ops, p, 0);
		gpurt_vgpu_init(&p->vgpu, &vgpu_ops, p, config->slice, config->theta,
				s->config->yield.on ? s->config->yield.stall : config->alpha, config->copy_engine, 0);
		if (s->config->cross > GPURT_FACTOR_ONE)
			gpurt_whole_add(&s->whole, &p->vgpu);
		gpurt_set_policy(&p->sched, config->policy, 0);
		gpurt_turns_init(&p->turns);
		s->jobs = s->jobs || config->policy == GPURT_POLICY_JOB;
	}
	s->next_poll = s->jobs && s->config->poll ? 0 : U64_MAX;
}

/* The task joins its group, which has its first task's level.  A task that holds a segment has all members raised. */
static void join(struct sim *s, struct job_task *t)
{
	struct team *team = &s->teams[t->task->group];
	u32 i;

	if (!team->gpu.sched) {
		gpurt_group_init(&team->group, &s->stamps);
		gpurt_group_gpu_init(&team->gpu, &team->group, &t->part->sched);
		gpurt_vgpu_ctx_init(&team->ctx);
		gpurt_group_set_level(&team->gpu, t->task->gpu_priority, 0);
	}
	for (i = 0; i < t->task->count; i++)
		team->group.all |= t->segments[i].gpu && t->segments[i].fork;
	gpurt_group_add(&team->gpu, &t->client, t->task->gpu_priority, 0);
	gpurt_vgpu_unite(&t->part->vgpu, &t->ctx, &team->ctx, 0);
}

/* Task @i takes over what it shares with an earlier task: the TSG, and within one process also the client. */
static void share(struct sim *s, u32 i)
{
	struct job_task *t = &s->tasks[i], *other;

	for (other = s->tasks; other < t; other++) {
		bool together = t->task->process && other->task->process == t->task->process;

		if (together)
			t->as = other->as;
		if (together || (t->task->shared && other->task->shared == t->task->shared))
			t->on = other->on;
	}
}

static void set_up(struct sim *s, const struct gpurt_sim_task *tasks, const struct gpurt_sim_segment *segments,
		   struct gpurt_sim_stats *stats)
{
	const struct gpurt_sim_config *config = s->config;
	u32 i, j;

	s->random = config->seed;
	set_up_parts(s);
	memset(stats, 0, s->count * sizeof(*stats));
	for (i = 0; i < s->count; i++) {
		struct job_task *t = &s->tasks[i];

		t->task = &tasks[i];
		s->serving = s->serving || tasks[i].thread;
		t->part = &s->parts[tasks[i].part];
		t->segments = segments + tasks[i].first;
		t->stats = &stats[i];
		t->next_release = tasks[i].offset < config->horizon && !t->triggered && !tasks[i].parent ? tasks[i].offset : U64_MAX;
		t->latest = U64_MAX;
		sim_yield_init(t);
		t->arrival = (int64_t)(tasks[i].offset - tasks[i].jitter);
		gpurt_sched_client_init(&t->client);
		gpurt_boost_form(&t->client, tasks[i].form);
		gpurt_vgpu_ctx_init(&t->ctx);
		if (tasks[i].group)
			join(s, t);
		gpurt_vgpu_tsg_open(&t->tsg, &t->ctx);
		gpurt_vgpu_shape(&t->part->vgpu, &t->tsg, tasks[i].slice, tasks[i].level, 0);
		t->on = &t->tsg;
		t->as = &t->client;
		share(s, i);
		for (j = 0; j < tasks[i].count; j++)
			if (t->segments[j].gpu && !t->as->tsgs)
				gpurt_tsg_opened(&t->part->sched, t->as, 0);
	}
}

/* Lists in `own` the tasks of each CPU, in the order of the taskset. */
static void share_out(struct sim *s)
{
	struct job_task **own = s->own;
	u32 i, j;

	for (i = 0; i < s->config->cpus; i++) {
		s->cpus[i].own = own;
		s->cpus[i].next = STALE;
		for (j = 0; j < s->count; j++)
			if (s->tasks[j].task->cpu == i)
				own[s->cpus[i].count++] = &s->tasks[j];
		own += s->cpus[i].count;
	}
}

/*
 * Counts unfinished jobs with the time since their release, and records activities that still run.  A run ends with
 * such jobs only if no event is left: they miss their deadlines, however far away those are.
 */
static void wind_up(struct sim *s)
{
	struct job_task *t;
	u32 i;

	for (i = 0; i < s->config->cpus; i++)
		sim_switch_to(s, &s->cpus[i], NULL);
	for (i = 0; i < s->config->part_count; i++)
		on_run(&s->parts[i].vgpu, NULL, s->now);
	for (t = s->tasks; t < s->tasks + s->count; t++) {
		u64 taken = t->queued ? s->now - t->backlog[t->head] : 0;

		t->stats->misses += t->queued;
		if (taken > t->stats->worst) {
			t->stats->worst = taken;
			t->stats->worst_release = t->backlog[t->head];
		}
	}
}

static bool is_factor(u32 thousandths)
{
	return thousandths >= GPURT_FACTOR_ONE && thousandths <= GPURT_FACTOR_MAX;
}

/* Whether groups and workers of task @i are right: one level and part a group, and no workers of workers. */
static bool is_member(const struct gpurt_sim_task *tasks, u32 count, u32 i)
{
	u32 j, parent = tasks[i].parent;

	if (tasks[i].group > count || parent > count)
		return false;
	if (parent && (parent == i + 1 || tasks[parent - 1].parent || tasks[i].thread))
		return false;
	for (j = 0; j < i && tasks[i].group; j++)
		if (tasks[j].group == tasks[i].group &&
		    (tasks[j].part != tasks[i].part || tasks[j].gpu_priority != tasks[i].gpu_priority))
			return false;
	return true;
}

/* Whether links and chains are of tasks that exist, and no worker releases itself. */
static bool are_linked(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count)
{
	u32 i, j, at = 0;

	for (i = 0; i < config->link_count; i++)
		if (config->links[i].from >= count || config->links[i].to >= count ||
		    config->links[i].from == config->links[i].to || tasks[config->links[i].to].parent)
			return false;
	for (i = 0; i < config->chain_count; i++)
		for (j = 0; j < config->chains[i].count; j++)
			if (config->chain_tasks[at++] >= count)
				return false;
	return true;
}

bool sim_valid(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
	       const struct gpurt_sim_segment *segments)
{
	u32 i, j;

	if (!config->part_count || !config->cpus || config->job_cpu >= config->cpus || !is_factor(config->cross))
		return false;
	if (!are_linked(config, tasks, count))
		return false;
	for (i = 0; i < config->part_count; i++)
		if (config->parts[i].policy >= GPURT_POLICY_COUNT)
			return false;
	for (i = 0; i < config->resource_count; i++)
		if (config->resources[i].protocol >= GPURT_SIM_PROTOCOL_COUNT ||
		    config->resources[i].ceiling >= GPURT_LEVELS)
			return false;
	for (i = 0; i < count; i++) {
		if (tasks[i].thread > count || tasks[i].order >= GPURT_SIM_ORDER_COUNT)
			return false;
		if (!is_member(tasks, count, i) || tasks[i].process > count || (tasks[i].process && tasks[i].group))
			return false;
		if (tasks[i].cpu >= config->cpus || tasks[i].part >= config->part_count || !tasks[i].period ||
		    (tasks[i].max_period && tasks[i].max_period < tasks[i].period) || tasks[i].priority >= GPURT_LEVELS ||
		    tasks[i].gpu_priority >= GPURT_LEVELS || tasks[i].form >= GPURT_FORM_COUNT ||
		    tasks[i].level >= GPURT_INTERLEAVE_COUNT || tasks[i].intensity >= GPURT_INTENSITY_COUNT ||
		    !is_factor(tasks[i].conflict))
			return false;
		for (j = tasks[i].first; j < tasks[i].first + tasks[i].count; j++)
			if (segments[j].resource > config->resource_count ||
			    (segments[j].resource && segments[j].gpu) ||
			    segments[j].cpu_best > segments[j].cpu_worst ||
			    segments[j].gpu_best > segments[j].gpu_worst)
				return false;
	}
	return true;
}

struct sim *sim_new(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		    const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *stats)
{
	struct sim *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->config = config;
	s->count = count;
	s->tasks = calloc(count ? count : 1, sizeof(*s->tasks));
	s->cpus = calloc(config->cpus, sizeof(*s->cpus));
	s->parts = calloc(config->part_count, sizeof(*s->parts));
	s->own = calloc(count ? count : 1, sizeof(*s->own));
	s->teams = calloc((size_t)count + 1, sizeof(*s->teams));
	if (s->tasks && s->cpus && s->parts && s->own && s->teams && sim_link(s)) {
		set_up(s, tasks, segments, stats);
		share_out(s);
		return s;
	}
	sim_free(s);
	return NULL;
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	free(s->tasks);
	free(s->cpus);
	free(s->parts);
	free(s->own);
	free(s->teams);
	free(s->tokens);
	free(s->stations);
	free(s);
}

int gpurt_simulate(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *stats,
		   struct gpurt_sim_event *events, u64 room, u64 *used)
{
	struct sim *s;
	int err;

	if (!sim_valid(config, tasks, count, segments))
		return -GPURT_SIM_EINVAL;
	s = sim_new(config, tasks, count, segments, stats);
	if (!s)
		return -GPURT_SIM_ENOMEM;
	s->events = events;
	s->room = events ? room : 0;
	err = sim_run(s);
	wind_up(s);
	if (used)
		*used = s->used;
	sim_free(s);
	return err;
}

int gpurt_simulate_offsets(const struct gpurt_sim_config *config, struct gpurt_sim_task *tasks, u32 count,
			   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *worst, u64 from, u64 runs)
{
	struct gpurt_sim_config own = *config;
	struct gpurt_sim_stats *stats;
	u64 n, random;
	int err = 0;
	u32 i;

	stats = calloc(count ? count : 1, sizeof(*stats));
	if (!stats)
		return -GPURT_SIM_ENOMEM;
	for (n = from; n < from + runs && !err; n++) {
		random = config->seed ^ (n * 0xd1342543de82ef95ULL);
		own.seed = random_bits(&random);
		for (i = 0; i < count && n; i++)
			tasks[i].offset = random_bits(&random) % tasks[i].period;
		err = gpurt_simulate(&own, tasks, count, segments, stats, NULL, 0, NULL);
		for (i = 0; i < count && !err; i++) {
			worst[i].jobs += stats[i].jobs;
			worst[i].finished += stats[i].finished;
			worst[i].misses += stats[i].misses;
			worst[i].dropped += stats[i].dropped;
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

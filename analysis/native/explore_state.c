// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "explore_state.h"

#define ENDLESS (U64_MAX / 8)	/* slices from here on never end */

static u64 left(u64 until, u64 now)
{
	return until == U64_MAX ? U64_MAX : until > now ? until - now : 0;
}

static bool linked(const struct list_head *node)
{
	return node->next && node->next != node;
}

/* The number of the CPU's tasks that have waited longer for it. */
static u64 rank(const struct sim *s, const struct job_task *t)
{
	const struct job_task *other;
	u64 before = 0;

	if (t->step < EXECUTING)
		return 0;
	for (other = s->tasks; other < s->tasks + s->count; other++)
		before += other->step >= EXECUTING && other->task->cpu == t->task->cpu &&
			  other->ready_since < t->ready_since;
	return before;
}

/* The task's place among the tasks that wait for resources. */
static u64 place(const struct sim *s, const struct job_task *t)
{
	const struct job_task *other;
	u64 before = 0;

	if (t->step != ASLEEP_RESOURCE && t->step != SPINNING_RESOURCE)
		return 0;
	for (other = s->tasks; other < s->tasks + s->count; other++)
		before += (other->step == ASLEEP_RESOURCE || other->step == SPINNING_RESOURCE) && other->asked < t->asked;
	return before;
}

static void strip_client(struct gpurt_sched_client *c)
{
	c->granted = false;
	c->segments = c->preemptions = c->overruns = c->held_ns = c->joined_ns = 0;
	c->stamp = 0;
	if (!c->depth && !linked(&c->in_jobs))
		c->own = c->hint = c->level = 0;
}

/* A tenure that is over carries no information.  On one GPU, lists have the order of stamps. */
static void strip_team(struct team *team)
{
	strip_client(&team->gpu.core);
	team->gpu.core.stamp = team->group.stamp = 0;
	if (!team->group.open)
		team->group.level = 0;
}

/* The place of a task's call among the calls that wait. */
static u64 queue_place(const struct sim *s, const struct job_task *t)
{
	const struct job_task *other;
	u64 before = 0;

	for (other = s->tasks; other < s->tasks + s->count && t->yield.order == QUEUED; other++)
		before += other->yield.order == QUEUED && other->yield.ticket < t->yield.ticket;
	return before;
}

static void strip_yield(struct yielding *y, u64 now)
{
	y->read = left(y->read, now);
	y->at = left(y->at, now);
	y->gap = left(y->gap, now);
	if (!y->order)
		y->takes_off = y->off;
	if (!y->posted && !y->known)
		y->free = y->renewed = false;
}

static void strip_backlog(struct job_task *t, u64 now)
{
	u64 ages[BACKLOG] = { 0 };
	u32 i;

	for (i = 0; i < t->queued && t->task->priority; i++)	/* best effort's ages do not matter */
		ages[i] = now - t->backlog[(t->head + i) % BACKLOG];
	memcpy(t->backlog, ages, sizeof(ages));
	t->head = 0;
}

static void strip_task(struct job_task *t, u64 now)
{
	const struct gpurt_interleave *ready = &t->part->vgpu.ready;

	if (t->step != UPDATING)
		t->until = now;
	t->until -= now;
	if (t->step != EXECUTING && t->step != ASLEEP_GRANT)
		t->left = 0;
	if (t->step < EXECUTING)
		t->waking = 0;
	if (!linked(&t->turn.node))
		memset(&t->turn, 0, sizeof(t->turn));
	strip_backlog(t, now);
	t->next_release = left(t->next_release, now);
	t->latest = left(t->latest, now);
	t->begun = t->step == IDLE ? UNBEGUN : t->begun;
	t->arrival -= (int64_t)(now - t->task->jitter);	/* an earlier arrival no longer matters */
	t->arrival = t->arrival > 0 ? t->arrival : 0;
	t->job = t->job > 0;
	t->opener = NULL;
	t->tsg.submitted = t->tsg.turn = t->work.number = 0;
	t->tsg.in_all.pass = t->tsg.in_all.pass == ready->pass[t->tsg.in_all.level];
	if (!linked(&t->work.node))
		memset(&t->work, 0, sizeof(t->work));
	strip_client(&t->client);
	strip_yield(&t->yield, now);
}

/* Whether a group owns the GPU; its TSGs then take turns. */
static bool is_team(const struct part *p)
{
	const u8 *only = (const u8 *)p->vgpu.only;
	const struct sim *s = p->sim;

	return only >= (const u8 *)s->teams && only < (const u8 *)(s->teams + s->count + 1);
}

/* If no TSG waits, a slice that is over begins anew, any number of times. */
static u64 slice_left(const struct part *p)
{
	const struct gpurt_vgpu *v = &p->vgpu;
	u64 slice = v->holder && v->holder->slice ? v->holder->slice : v->slice;

	if (!v->executing || (v->only && !is_team(p)) || slice >= ENDLESS)
		return 0;
	if (v->slice_end >= v->now)
		return v->slice_end - v->now;
	return (slice - (v->now - v->slice_end) % slice) % slice;
}

static void strip_part(struct part *p)
{
	struct gpurt_vgpu *v = &p->vgpu;
	u32 i;

	p->gpu_since = p->tickets = 0;
	p->lazy_until = left(p->lazy_until, p->sim->now);
	p->turn_until = left(p->turn_until, p->sim->now);
	p->caller = NULL;
	p->sched.since = p->sched.runner_since = p->sched.asked = p->sched.deadline = 0;
	v->slice_end = slice_left(p);
	v->ready_at = left(v->ready_at, v->now);
	v->now = v->turns = 0;
	for (i = 0; i < GPURT_INTERLEAVE_COUNT; i++)
		v->ready.pass[i] %= 2;
}

/* Clears all of the simulation's memory that cannot affect its future. */
static void strip(struct sim *s)
{
	u64 now = s->now, since[64], asked[64], queued[64];
	struct job_task *t;
	u32 i;

	sim_strip_chains(s);
	for (i = 0; i < s->count; i++) {
		since[i] = rank(s, &s->tasks[i]);
		asked[i] = place(s, &s->tasks[i]);
		queued[i] = queue_place(s, &s->tasks[i]);
	}
	for (t = s->tasks; t < s->tasks + s->count; t++) {
		strip_task(t, now);
		t->ready_since = since[t - s->tasks];
		t->asked = asked[t - s->tasks];
		t->yield.ticket = queued[t - s->tasks];
	}
	for (i = 0; s->stamps && i <= s->count; i++)
		strip_team(&s->teams[i]);
	s->stamps = 0;
	for (i = 0; i < s->config->cpus; i++) {
		s->cpus[i].since = s->cpus[i].from = s->cpus[i].next = 0;
		s->cpus[i].thread_until = left(s->cpus[i].thread_until, now);
	}
	for (i = 0; i < s->config->part_count; i++)
		strip_part(&s->parts[i]);
	s->next_poll = left(s->next_poll, now);
	s->now = s->order = s->used = s->cpu_next = 0;
}

static u32 top_level(const struct sim *s)
{
	u32 i, top = 0;

	for (i = 0; i < s->count; i++) {
		top = s->tasks[i].task->gpu_priority > top ? s->tasks[i].task->gpu_priority : top;
		top = s->tasks[i].task->priority > top ? s->tasks[i].task->priority : top;
	}
	return top;
}

static void add(struct state_map *map, void *from, void *to)
{
	struct state_range *range = &map->range[map->count++];

	range->at = from;
	range->size = (size_t)((u8 *)to - (u8 *)from);
	map->size += range->size;
}

bool state_map_init(struct state_map *map, struct sim *s)
{
	u32 i, above = top_level(s) + 1;

	*map = (struct state_map){ .sim = s, .range = calloc(6 + 4 * (size_t)s->config->part_count, sizeof(*map->range)) };
	if (!map->range || s->count > 64)
		return false;
	add(map, s, s + 1);
	add(map, s->tasks, s->tasks + s->count);
	add(map, s->cpus, s->cpus + s->config->cpus);
	add(map, s->tokens, s->tokens + s->config->link_count);
	add(map, s->stations, s->stations + s->station_count);
	for (i = 0; i < s->count && !s->teams[i + 1].gpu.sched; i++)
		;
	if (i < s->count)
		add(map, s->teams, s->teams + s->count + 1);
	for (i = 0; i < s->config->part_count; i++) {
		struct part *p = &s->parts[i];

		add(map, p, &p->sched.segments.level[above]);
		add(map, &p->sched.jobs, &p->sched.jobs.level[above]);
		add(map, &p->sched.order, &p->turns.waiting.level[above]);
		add(map, &p->turns + 1, p + 1);
	}
	return true;
}

void state_map_free(struct state_map *map)
{
	free(map->range);
}

void state_save(const struct state_map *map, u8 *to)
{
	u32 i;

	for (i = 0; i < map->count; to += map->range[i++].size)
		memcpy(to, map->range[i].at, map->range[i].size);
}

void state_restore(const struct state_map *map, const u8 *from)
{
	u32 i;

	for (i = 0; i < map->count; from += map->range[i++].size)
		memcpy(map->range[i].at, from, map->range[i].size);
}

/* Two independent products of 64 bits, in one pass. */
static void hash(const struct state_map *map, u64 out[2])
{
	u64 a = 0x9e3779b97f4a7c15ULL, b = 0xd1342543de82ef95ULL, word;
	size_t at;
	u32 i;

	for (i = 0; i < map->count; i++) {
		for (at = 0; at < map->range[i].size; at += sizeof(word)) {
			memcpy(&word, map->range[i].at + at, sizeof(word));
			a = (a ^ word) * 0xff51afd7ed558ccdULL;
			a ^= a >> 29;
			b = (b + word) * 0xc4ceb9fe1a85ec53ULL;
			b ^= b >> 31;
		}
	}
	out[0] = a ^ b >> 17;
	out[1] = b | 1;		/* 0 marks an empty slot */
}

bool state_set_init(struct state_set *set, const struct state_map *map)
{
	*set = (struct state_set){ .room = 1 << 12 };
	set->slot = calloc(set->room, sizeof(*set->slot));
	set->saved = malloc(map->size);
	return set->slot && set->saved;
}

void state_set_free(struct state_set *set)
{
	free(set->slot);
	free(set->saved);
}

static bool put(u64 (*slot)[2], u64 room, const u64 h[2])
{
	u64 i;

	for (i = h[0] & (room - 1); slot[i][1]; i = (i + 1) & (room - 1))
		if (slot[i][0] == h[0] && slot[i][1] == h[1])
			return false;
	slot[i][0] = h[0];
	slot[i][1] = h[1];
	return true;
}

static bool widen(struct state_set *set)
{
	u64 i, room = 2 * set->room, (*slot)[2] = calloc(room, sizeof(*slot));

	if (!slot)
		return false;
	for (i = 0; i < set->room; i++)
		if (set->slot[i][1])
			put(slot, room, set->slot[i]);
	free(set->slot);
	set->slot = slot;
	set->room = room;
	return true;
}

int state_add(struct state_set *set, const struct state_map *map, struct sim *sim)
{
	u64 h[2];

	if (2 * set->count >= set->room && !widen(set))
		return -1;
	state_save(map, set->saved);
	strip(sim);
	hash(map, h);
	state_restore(map, set->saved);
	if (!put(set->slot, set->room, h))
		return 0;
	set->count++;
	return 1;
}

// SPDX-License-Identifier: GPL-2.0
/* Resources: critical sections of CPU segments, one task at a time.  No task sleeps while it holds a resource. */
#include "sim.h"

static u32 resource_of(const struct job_task *t)
{
	return t->at < t->task->count ? t->segments[t->at].resource : 0;
}

static u32 protocol_of(const struct sim *s, u32 resource)
{
	return s->config->resources[resource - 1].protocol;
}

static bool waits(const struct job_task *t)
{
	return t->step == ASLEEP_RESOURCE || t->step == SPINNING_RESOURCE;
}

static bool is_held(const struct sim *s, u32 resource)
{
	const struct job_task *t;

	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->holds && resource_of(t) == resource)
			return true;
	return false;
}

bool sim_take(struct sim *s, struct job_task *t)
{
	u32 resource = resource_of(t);

	t->holds = !is_held(s, resource);
	t->asked = ++s->order;
	if (!t->holds)
		t->step = protocol_of(s, resource) == GPURT_SIM_SPIN ? SPINNING_RESOURCE : ASLEEP_RESOURCE;
	s->cpus[t->task->cpu].next = STALE;
	return t->holds;
}

/* Spinning tasks go in the order of requests; of sleeping tasks, the most urgent goes first. */
static bool goes_first(const struct job_task *t, const struct job_task *best)
{
	if (best && t->step == ASLEEP_RESOURCE && t->task->priority != best->task->priority)
		return t->task->priority > best->task->priority;
	return !best || t->asked < best->asked;
}

struct job_task *sim_give(struct sim *s, struct job_task *t)
{
	struct job_task *next = NULL, *other;
	u32 resource = resource_of(t);

	t->holds = false;
	s->cpus[t->task->cpu].next = STALE;
	for (other = s->tasks; other < s->tasks + s->count; other++)
		if (waits(other) && resource_of(other) == resource && goes_first(other, next))
			next = other;
	if (next)
		next->holds = true;
	return next;
}

bool sim_unpreempted(const struct sim *s, const struct job_task *t)
{
	return t->step == SPINNING_RESOURCE || (t->holds && protocol_of(s, resource_of(t)) == GPURT_SIM_SPIN);
}

u32 sim_inherited(const struct sim *s, const struct job_task *t)
{
	const struct job_task *other;
	u32 priority = 0, resource = resource_of(t);

	if (!t->holds)
		return 0;
	if (protocol_of(s, resource) == GPURT_SIM_CEILING)
		return s->config->resources[resource - 1].ceiling;
	for (other = s->tasks; other < s->tasks + s->count; other++)
		if (other->step == ASLEEP_RESOURCE && resource_of(other) == resource && other->task->priority > priority)
			priority = other->task->priority;
	return priority;
}

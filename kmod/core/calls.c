// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "calls.h"
#include "pace.h"

static bool query_valid(const union gpurt_argument *a)
{
	return !a->query.pad;
}

static bool begin_valid(const union gpurt_argument *a)
{
	const struct gpurt_begin *b = &a->begin;

	if ((b->flags & GPURT_BEGIN_OWNER) && (b->flags & GPURT_BEGIN_FENCE))
		return false;
	if ((b->flags & GPURT_BEGIN_BEGUN) && !(b->flags & GPURT_BEGIN_WAIT))
		return false;
	if (b->flags & GPURT_BEGIN_POST)
		return !(b->flags & ~(u32)(GPURT_BEGIN_POST | GPURT_BEGIN_OWNER | GPURT_BEGIN_YIELD)) &&
		       !b->priority && b->raised <= GPURT_MAX_PRIORITY;
	if ((b->flags & GPURT_BEGIN_YIELD) && (b->flags & GPURT_BEGIN_WAIT))
		return false;
	return !(b->flags & ~(u32)GPURT_BEGIN_FLAGS) && !b->raised && b->priority <= GPURT_MAX_PRIORITY;
}

static bool end_valid(const union gpurt_argument *a)
{
	return !(a->end.flags & ~(u32)GPURT_END_FLAGS) && !a->end.pad;
}

static bool wait_valid(const union gpurt_argument *a)
{
	const struct gpurt_wait *w = &a->wait;

	return w->what < GPURT_WAIT_COUNT && (w->what == GPURT_WAIT_WORK || (!w->tsg && !w->work));
}

static bool copy_valid(const union gpurt_argument *a)
{
	const struct gpurt_copy *c = &a->copy;

	if (c->flags || c->what >= GPURT_COPY_COUNT || c->priority > GPURT_MAX_PRIORITY)
		return false;
	return (c->what == GPURT_COPY_BEGIN || !c->priority) && (c->what != GPURT_COPY_END || !c->timeout_ns);
}

static bool tsg_open_valid(const union gpurt_argument *a)
{
	return !a->tsg.flags && !a->tsg.tsg;
}

static bool tsg_close_valid(const union gpurt_argument *a)
{
	return !a->tsg.flags;
}

static bool submit_valid(const union gpurt_argument *a)
{
	const struct gpurt_submit *s = &a->submit;
	u32 intensity = s->flags & (GPURT_SUBMIT_MEMORY | GPURT_SUBMIT_COMPUTE);

	if (intensity == (GPURT_SUBMIT_MEMORY | GPURT_SUBMIT_COMPUTE) || (s->conflict && !intensity))
		return false;
	if (s->engine != GPURT_ENGINE_EXEC && (intensity || s->flags & GPURT_SUBMIT_PARALLEL))
		return false;
	if (s->conflict && (s->conflict < GPURT_FACTOR_ONE || s->conflict > GPURT_MAX_CONFLICT))
		return false;
	return !(s->flags & ~(u32)GPURT_SUBMIT_FLAGS) && s->engine < GPURT_ENGINE_COUNT &&
	       s->duration_ns >= GPURT_MIN_WORK_NS && s->duration_ns <= GPURT_MAX_WORK_NS;
}

static bool shape_valid(const union gpurt_argument *a)
{
	u64 slice = a->shape.slice_ns;

	return a->shape.level < GPURT_INTERLEAVE_COUNT &&
	       (!slice || (slice >= GPURT_MIN_SLICE_NS && slice <= GPURT_MAX_SLICE_NS));
}

/* Printable ASCII, not empty, with a NUL within @size bytes. */
bool gpurt_is_name(const char *name, u32 size)
{
	u32 i;

	for (i = 0; i < size && name[i]; i++)
		if (name[i] < ' ' || name[i] > '~')
			return false;
	return i && i < size;
}

static bool group_join_valid(const union gpurt_argument *a)
{
	return !(a->group_join.flags & ~(u32)GPURT_GROUP_FLAGS) &&
	       gpurt_is_name(a->group_join.name, sizeof(a->group_join.name));
}

static bool agent_valid(const union gpurt_argument *a)
{
	const struct gpurt_agent *g = &a->agent;

	if (g->channels.pad || g->channels.count > GPURT_MAX_CHANNELS)
		return false;
	return !(g->flags & ~(u32)GPURT_AGENT_FLAGS) && g->tier < GPURT_TIER_COUNT && g->tsgs <= GPURT_MAX_TSGS &&
	       gpurt_is_name(g->driver, sizeof(g->driver));
}

static bool order_valid(const union gpurt_argument *a)
{
	return !(a->order.flags & ~(u32)GPURT_ORDER_FLAGS) && !a->order.pad && a->order.result <= 0 &&
	       !a->order.channels.pad;
}

static bool job_ready_valid(const union gpurt_argument *a)
{
	return !a->job_ready.flags && gpurt_is_name(a->job_ready.task, sizeof(a->job_ready.task));
}

static bool job_wait_valid(const union gpurt_argument *a)
{
	return a->job_wait.what < GPURT_JOB_WHATS;
}

static bool job_run_valid(const union gpurt_argument *a)
{
	u64 duration = a->job_run.duration_ns;

	return !duration || (duration >= GPURT_MIN_WORK_NS && duration <= GPURT_MAX_WORK_NS);
}

static bool job_done_valid(const union gpurt_argument *a)
{
	return !a->job_done.flags;
}

static bool job_mark_valid(const union gpurt_argument *a)
{
	const struct gpurt_job_mark *m = &a->job_mark;

	if (m->flags || m->what >= GPURT_MARK_COUNT || (m->cpu_ns && m->what != GPURT_MARK_END))
		return false;
	return gpurt_is_name(m->task, sizeof(m->task));
}

#define CALL(name, member, has_answer, rules) { \
	.code = GPURT_IOC_##name, .size = sizeof(((union gpurt_argument *)NULL)->member), \
	.answers = has_answer, .valid = rules, \
}

static const struct gpurt_call calls[] = {
	CALL(QUERY, query, true, query_valid),
	CALL(BEGIN, begin, true, begin_valid),
	CALL(END, end, false, end_valid),
	CALL(WAIT, wait, true, wait_valid),
	CALL(COPY, copy, true, copy_valid),
	CALL(GROUP_JOIN, group_join, false, group_join_valid),
	CALL(TSG_OPEN, tsg, true, tsg_open_valid),
	CALL(TSG_CLOSE, tsg, false, tsg_close_valid),
	CALL(SUBMIT, submit, true, submit_valid),
	CALL(TSG_SHAPE, shape, false, shape_valid),
	CALL(AGENT, agent, true, agent_valid),
	CALL(ORDER, order, true, order_valid),
	CALL(JOB_READY, job_ready, true, job_ready_valid),
	CALL(JOB_WAIT, job_wait, true, job_wait_valid),
	CALL(JOB_RUN, job_run, false, job_run_valid),
	CALL(JOB_KERNEL_DONE, job_done, false, job_done_valid),
	CALL(JOB_DONE, job_done, false, job_done_valid),
	CALL(JOB_MARK, job_mark, false, job_mark_valid),
};

/* The call with that ioctl number, whatever size and direction the number says; NULL: there is no such call. */
const struct gpurt_call *gpurt_call_find(u32 code)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		if (_IOC_TYPE(calls[i].code) == _IOC_TYPE(code) && _IOC_NR(calls[i].code) == _IOC_NR(code))
			return &calls[i];
	return NULL;
}

/*
 * Whether a caller's structure may have @size bytes: 0, -EINVAL or -E2BIG.  Bytes of a longer one
 * beyond call->size must be zero (E2BIG).  No structure has grown since version 1, so the known
 * size is also the minimum.
 */
int gpurt_call_check_size(const struct gpurt_call *call, u32 size)
{
	if (size < call->size)
		return -EINVAL;
	return size > GPURT_MAX_STRUCT ? -E2BIG : 0;
}

/* Whether the structure obeys the rules of its call: 0 or -EINVAL. */
int gpurt_call_check(const struct gpurt_call *call, const union gpurt_argument *argument)
{
	return call->valid(argument) ? 0 : -EINVAL;
}

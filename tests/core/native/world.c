// SPDX-License-Identifier: GPL-2.0
#include "world.h"

/* The state before a step: the checks of the step's events need it. */
struct before {
	int runner;
	bool on[CLIENTS], asks[CLIENTS], job[CLIENTS];
	u32 policy;
};

#define CHECK(condition) do { if (!(condition)) return #condition; } while (0)

static int number(const struct world *w, const struct gpurt_sched_client *c)
{
	return c ? (int)(c - w->c) : NOBODY;
}

static void on_commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	struct world *w = s->host;

	w->commits += now == w->now ? 1 : HEARD;
	w->cause = cause;
	w->only = only;
	gpurt_updated(s, now, 0);
}

static void on_event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 event, u64 now)
{
	struct world *w = s->host;

	if (w->n < HEARD && now == w->now) {
		w->heard[w->n].client = number(w, c);
		w->heard[w->n].event = event;
	}
	w->n += now == w->now ? 1 : HEARD + 1;
}

static void on_raise(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 level, u64 now)
{
	struct world *w = s->host;
	u32 *raised = &w->raised[number(w, c)];

	w->again = w->again || *raised == level || now != w->now;
	*raised = level;
}

static const struct gpurt_sched_ops ops = { .commit = on_commit, .event = on_event, .raise = on_raise };

void world_init(struct world *w)
{
	int i;

	*w = (struct world){ .now = 0 };
	gpurt_sched_init(&w->s, &ops, w, 0);
	for (i = 0; i < CLIENTS; i++) {
		gpurt_sched_client_init(&w->c[i]);
		gpurt_join_budget(&w->s, &w->c[i], &w->b[i], 0);
	}
	model_init(&w->m);
}

static int act(struct world *w, const struct event *e)
{
	struct gpurt_sched_client *c = &w->c[e->client];

	switch (e->op) {
	case OP_BEGIN:
		return gpurt_begin(&w->s, c, e->a, e->b, w->now);
	case OP_END:
		return gpurt_end(&w->s, c, w->now);
	case OP_GONE:
		gpurt_gone(&w->s, c, w->now);
		gpurt_sched_client_init(c);
		w->b[e->client] = (struct gpurt_budget){ .limit = 0 };
		c->budget = &w->b[e->client];
		return 0;
	case OP_PRIORITY:
		return gpurt_set_priority(&w->s, c, e->a, w->now);
	case OP_JOB:
		return gpurt_job(&w->s, c, e->a, e->b, w->now);
	case OP_OPEN:
		gpurt_tsg_opened(&w->s, c, w->now);
		return 0;
	case OP_CLOSE:
		gpurt_tsg_closed(&w->s, c, w->now);
		return 0;
	case OP_EXEMPT:
		gpurt_set_exempt(&w->s, c, e->a, w->now);
		return 0;
	case OP_BUDGET:
		return gpurt_set_budget(&w->s, c->budget, e->a, model_period(e->a), e->b, w->now);
	case OP_POLICY:
		return gpurt_set_policy(&w->s, e->a, w->now);
	case OP_FORM:
		return gpurt_boost_form(c, e->a);
	case OP_ASK:
		gpurt_boost_ask(&w->s, c, e->a, w->now);
		return 0;
	case OP_TURN:
		gpurt_boost_turn(&w->s, c, e->a, w->now);
		return 0;
	case OP_OVER:
		gpurt_boost_over(&w->s, c, w->now);
		return 0;
	case OP_LOST:
		gpurt_boost_lost(&w->s, w->now);
		return 0;
	case OP_WORK:
		gpurt_boost_work(&w->s, c, e->a, w->now);
		return 0;
	}
	gpurt_tick(&w->s, w->now);
	return 0;
}

/* How often the step said @event of @client. */
static u32 said(const struct world *w, int client, u32 event)
{
	u32 i, times = 0;

	for (i = 0; i < w->n; i++)
		times += w->heard[i].client == client && w->heard[i].event == event;
	return times;
}

static u64 later(u64 one, u64 other)
{
	return one > other ? one : other;
}

static const char *check_client(const struct world *w, int i)
{
	const struct gpurt_sched_client *c = &w->c[i];
	const struct facts *f = &w->m.c[i];
	u32 state = !model_asks(&w->m, i) ? GPURT_STATE_IDLE :
		    model_on(&w->m, i) ? GPURT_STATE_RUNNING : GPURT_STATE_PENDING;

	CHECK(c->depth == f->depth && c->tsgs == f->tsgs);
	CHECK(c->own == f->own && c->hint == f->hint && c->set == f->set);
	CHECK(c->level == model_level(f));
	CHECK(c->runnable == f->runnable && c->exempt == f->exempt);
	CHECK(c->demoted == f->demoted);
	CHECK(c->budget->used == f->used && c->budget->overrun == f->overrun);
	/* Updates take no time here, but a period that is over can be said to have ended at one.  It renews all the same. */
	CHECK(later(c->budget->ends, w->now) == later(f->ends, w->now));
	CHECK(c->budget->queued == (model_in_segment(f) || model_in_job(f)));
	CHECK(c->held_ns == f->held);
	CHECK(c->segments == f->segments && c->overruns == f->overruns);
	CHECK(c->preemptions == w->preempted[i]);
	CHECK(w->raised[i] == model_raised(&w->m, i) && !w->again);
	CHECK(c->boost.form == f->form && c->boost.asked == f->asked && c->boost.turn == f->turn);
	CHECK(c->boost.self == f->self && c->boost.working == f->working);
	CHECK(gpurt_state_of(&w->s, c) == state);
	CHECK(gpurt_on_runlist(&w->s, c) == model_on(&w->m, i));
	CHECK(!list_empty(&c->in_segments) == model_in_segment(f));
	CHECK(!list_empty(&c->in_order) == model_in_segment(f));
	CHECK(!list_empty(&c->in_jobs) == model_in_job(f));
	return NULL;
}

/*
 * Every list holds exactly the clients that it should, in order, each once.  A client in a list that the bitmap
 * does not show is found missing, because the counts differ.
 */
static const char *check_queue(const struct world *w, const struct gpurt_queue *q, bool jobs)
{
	const struct list_head *pos;
	const struct facts *f, *last;
	u32 level, found = 0, due = 0, i;

	for (level = 0; level < GPURT_LEVELS; level++) {
		if (!(q->filled[level / 64] & 1ULL << level % 64))
			continue;
		CHECK(!list_empty(&q->level[level]));
		last = NULL;
		list_for_each(pos, &q->level[level]) {
			i = (u32)(((const char *)pos - (const char *)w->c) / (ptrdiff_t)sizeof(w->c[0]));
			f = &w->m.c[i];
			CHECK(pos->next->prev == pos && ++found <= CLIENTS);
			CHECK(pos == (jobs ? &w->c[i].in_jobs : &w->c[i].in_segments));
			CHECK(model_level(f) == level);
			CHECK(!last || (jobs ? last->job_came < f->job_came : last->came < f->came));
			last = f;
		}
	}
	for (i = 0; i < CLIENTS; i++)
		due += jobs ? model_in_job(&w->m.c[i]) : model_in_segment(&w->m.c[i]);
	CHECK(found == due);
	return NULL;
}

static const char *check_order(const struct world *w)
{
	const struct list_head *pos;
	int last = 0, i, found = 0;

	list_for_each(pos, &w->s.order) {
		i = number(w, list_entry(pos, struct gpurt_sched_client, in_order));
		CHECK(model_in_segment(&w->m.c[i]) && w->m.c[i].began > last && ++found <= CLIENTS);
		last = w->m.c[i].began;
	}
	for (i = 0; i < CLIENTS; i++)
		found -= model_in_segment(&w->m.c[i]);
	CHECK(!found);
	return NULL;
}

/* The runlist changed where it had to, and nowhere else. */
static const char *check_commits(const struct world *w, const struct event *e, const struct before *b, bool exempt)
{
	bool changed = b->runner != w->m.runner;
	bool joined = e->op == OP_EXEMPT && exempt != (bool)e->a && b->runner != NOBODY && b->runner != (int)e->client;

	CHECK(number(w, w->s.runner) == w->m.runner);
	CHECK(number(w, w->only) == w->m.runner);
	CHECK(w->commits == (u32)(changed || joined));
	CHECK(!joined || w->cause == GPURT_CAUSE_EXEMPT);
	CHECK(w->s.policy == w->m.policy);
	CHECK(w->s.deadline == model_deadline(&w->m));
	return NULL;
}

/* Events of one client follow from what became of the client, and a listener can understand them. */
static const char *check_events(struct world *w, const struct before *b, int i)
{
	static const u32 facts[] = { GPURT_EVENT_BEGIN, GPURT_EVENT_END, GPURT_EVENT_GONE, GPURT_EVENT_OVERRUN };
	bool on = model_on(&w->m, i), asks = model_asks(&w->m, i), began = w->m.c[i].said & 1u << GPURT_EVENT_BEGIN;
	u32 grants = said(w, i, GPURT_EVENT_GRANT), resumes = said(w, i, GPURT_EVENT_RESUME), k;
	u32 preempts = said(w, i, GPURT_EVENT_PREEMPT);
	bool job = model_asks(&w->m, i) && w->m.policy == GPURT_POLICY_JOB && w->m.c[i].runnable && w->m.c[i].tsgs;

	for (k = 0; k < sizeof(facts) / sizeof(facts[0]); k++)
		CHECK(said(w, i, facts[k]) == !!(w->m.c[i].said & 1u << facts[k]));
	if (began || said(w, i, GPURT_EVENT_GONE) || (job && !b->job[i] && b->policy == GPURT_POLICY_JOB))
		w->granted[i] = false;
	CHECK(grants + resumes <= 1);
	CHECK(!(grants + resumes) || (asks && on));
	CHECK(!resumes || (w->granted[i] && !b->on[i]));
	CHECK(!grants || !w->granted[i] || w->idle[i]);
	w->granted[i] = w->granted[i] || grants;
	w->idle[i] = !asks || (w->idle[i] && !grants && !began);
	CHECK(!began || grants == on);
	CHECK(w->m.runner != i || w->granted[i]);
	if (asks && b->asks[i] && !b->on[i] && on)
		CHECK(grants + resumes || said(w, NOBODY, GPURT_EVENT_RESUME));
	CHECK(preempts == (b->asks[i] && asks && b->on[i] && !on && !said(w, NOBODY, GPURT_EVENT_PREEMPT)));
	w->preempted[i] += preempts;
	if (said(w, i, GPURT_EVENT_GONE))
		w->preempted[i] = 0;
	return NULL;
}

static const char *check_all(struct world *w, const struct before *b)
{
	const char *wrong = NULL;
	u32 i, k;

	CHECK(w->n <= HEARD);
	CHECK(said(w, NOBODY, GPURT_EVENT_PREEMPT) == (b->runner == NOBODY && w->m.runner != NOBODY));
	CHECK(said(w, NOBODY, GPURT_EVENT_RESUME) == (b->runner != NOBODY && w->m.runner == NOBODY));
	for (i = 0; i < w->n; i++)
		for (k = 0; k < i; k++)
			CHECK(w->heard[i].event != GPURT_EVENT_BEGIN || w->heard[k].event != GPURT_EVENT_GRANT);
	for (i = 0; i < CLIENTS && !wrong; i++)
		wrong = check_events(w, b, (int)i);
	for (i = 0; i < CLIENTS && !wrong; i++)
		wrong = check_client(w, (int)i);
	return wrong;
}

const char *world_step(struct world *w, const struct event *e, u64 passed)
{
	struct before b = { .runner = w->m.runner, .policy = w->m.policy };
	bool exempt = w->m.c[e->client].exempt;
	const char *wrong;
	int i, result;

	for (i = 0; i < CLIENTS; i++) {
		b.on[i] = model_on(&w->m, i);
		b.asks[i] = model_asks(&w->m, i);
		b.job[i] = w->m.c[i].runnable && w->m.c[i].tsgs;
	}
	w->now += passed;
	w->commits = 0;
	w->n = 0;
	result = act(w, e);
	CHECK(model_step(&w->m, e, w->now) == result);
	wrong = check_commits(w, e, &b, exempt);
	wrong = wrong ? wrong : check_all(w, &b);
	wrong = wrong ? wrong : check_queue(w, &w->s.segments, false);
	wrong = wrong ? wrong : check_queue(w, &w->s.jobs, true);
	return wrong ? wrong : check_order(w);
}

const char *world_name(u32 op)
{
	static const char *const names[OP_COUNT] = {
		"begin", "end", "gone", "priority", "job", "open", "close", "exempt", "budget", "policy", "tick",
		"form", "ask", "turn", "over", "work",
	};

	return op < OP_COUNT ? names[op] : "?";
}

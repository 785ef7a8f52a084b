// SPDX-License-Identifier: GPL-2.0
#include "model.h"

/* The period of a budget of that limit. */
u64 model_period(u64 limit)
{
	return limit ? limit + 3 : 0;
}

static bool locks(const struct model *m)
{
	return m->policy == GPURT_POLICY_LOCK_PRIORITY || m->policy == GPURT_POLICY_LOCK_FIFO;
}

static bool job(const struct facts *f)
{
	return f->runnable && f->tsgs;
}

u32 model_level(const struct facts *f)
{
	if (f->demoted)
		return 0;
	if (f->set != GPURT_PRIORITY_OWN)
		return f->set;
	return f->hint ? f->hint : f->own;
}

bool model_in_segment(const struct facts *f)
{
	return f->depth && !f->demoted;
}

bool model_in_job(const struct facts *f)
{
	return job(f) && !f->demoted;
}

bool model_asks(const struct model *m, int i)
{
	return m->c[i].depth || (m->policy == GPURT_POLICY_JOB && job(&m->c[i]));
}

bool model_on(const struct model *m, int i)
{
	return m->runner == NOBODY || m->runner == i || m->c[i].exempt;
}

/* The client owns the GPU from @t to @end, one unit after the other; whether it overran its budget on the way. */
static bool use(struct facts *f, u64 t, u64 end)
{
	bool over = false;

	if (!f->limit)
		return false;
	do {
		if (t >= f->ends) {
			f->used = 0;
			f->overrun = false;
			f->ends = t + f->period;
		}
		f->used += t < end;
		if (f->used >= f->limit && !f->overrun)
			f->overrun = over = true;
	} while (++t < end);
	return over;
}

static void charge_budget(struct facts *f, u64 from, u64 to)
{
	if (!use(f, from, to))
		return;
	f->overruns++;
	f->said |= 1u << GPURT_EVENT_OVERRUN;
}

static bool spent(const struct facts *f)
{
	return f->limit && f->overrun && f->action == GPURT_OVERRUN_DEMOTE;
}

static u32 demotion(const struct model *m)
{
	return m->policy == GPURT_POLICY_JOB ? GPURT_DEMOTED_JOB : GPURT_DEMOTED_SEGMENT;
}

u64 model_deadline(const struct model *m)
{
	struct facts f = m->c[m->runner == NOBODY ? 0 : m->runner];
	u64 t = m->since;

	if (m->runner == NOBODY || !f.limit)
		return U64_MAX;
	while (!use(&f, t, t))
		if (use(&f, t, t + 1))
			return t + 1;
		else
			t++;
	return t;
}

/* How a thread has to execute (kmod/core/boost.h). */
u32 model_raised(const struct model *m, int i)
{
	const struct facts *f = &m->c[i];
	bool boosted = m->policy == GPURT_POLICY_BOOSTED, owns = boosted && m->runner == i && !m->updating;

	switch (f->form) {
	case GPURT_FORM_SELF:
		return !f->self ? 0 : f->depth ? model_level(f) : f->asked;
	case GPURT_FORM_FENCE:
		owns = owns && !f->working;
	}
	return f->turn ? GPURT_RAISED_TOP : owns ? model_level(f) : 0;
}

/* Whether @a is to run rather than @b, both of them candidates. */
static bool before(const struct model *m, const struct facts *a, const struct facts *b)
{
	if (m->policy == GPURT_POLICY_LOCK_FIFO)
		return a->began < b->began;
	if (model_level(a) != model_level(b))
		return model_level(a) > model_level(b);
	return m->policy == GPURT_POLICY_JOB ? a->job_came < b->job_came : a->came < b->came;
}

/* The table of policies in docs/policies.md, and "Algorithm 1" in docs/readings.md. */
static int wanted(const struct model *m)
{
	int best = NOBODY, i;

	if (m->policy == GPURT_POLICY_TIMESLICED)
		return NOBODY;
	if (locks(m) && m->runner != NOBODY && model_in_segment(&m->c[m->runner]))
		return m->runner;
	for (i = 0; i < CLIENTS; i++) {
		const struct facts *f = &m->c[i];

		if (m->policy == GPURT_POLICY_JOB ? !model_in_job(f) : !model_in_segment(f))
			continue;
		if (!locks(m) && !model_level(f))
			continue;
		if (best == NOBODY || before(m, f, &m->c[best]))
			best = i;
	}
	return best;
}

/* The runner's time up to @now. */
static void charge(struct model *m, u64 now)
{
	struct facts *f = &m->c[m->runner == NOBODY ? 0 : m->runner];
	u64 since = m->since;

	m->since = now;
	if (m->runner == NOBODY || since == now)
		return;
	f->held += now - since;
	charge_budget(f, since, now);
	if (spent(f))
		f->demoted = demotion(m);
}

/* Client @i, which was @old, comes to other places: last there; the runner stays ahead of its new equals. */
static void arrive(struct model *m, int i, const struct facts *old)
{
	struct facts *f = &m->c[i];
	bool moved = model_level(f) != model_level(old);
	int last = ++m->stamp, stays = m->runner == i ? -last : last;

	if (model_in_segment(f) && !model_in_segment(old))
		f->came = f->began = last;
	else if (moved)
		f->came = stays;
	if (model_in_job(f) && !model_in_job(old))
		f->job_came = last;
	else if (moved)
		f->job_came = stays;
}

static void fresh(struct model *m, struct facts *f)
{
	charge_budget(f, m->since, m->since);
	f->demoted = spent(f) ? demotion(m) : GPURT_NOT_DEMOTED;
}

static void begin(struct model *m, struct facts *f, const struct event *e)
{
	if (f->depth++)
		return;
	if (m->policy != GPURT_POLICY_JOB)
		fresh(m, f);
	f->own = e->a;
	f->hint = e->b;
	f->working = false;
	f->segments++;
	f->said |= 1u << GPURT_EVENT_BEGIN;
}

static void end(struct facts *f)
{
	f->depth = 0;
	f->hint = 0;
	if (f->demoted == GPURT_DEMOTED_SEGMENT)
		f->demoted = GPURT_NOT_DEMOTED;
	f->said |= 1u << GPURT_EVENT_END;
}

/* A job begins or ends where @had says whether there was one. */
static void rejob(struct model *m, struct facts *f, bool had)
{
	if (job(f) && !had && m->policy == GPURT_POLICY_JOB)
		fresh(m, f);
	if (!job(f) && f->demoted == GPURT_DEMOTED_JOB)
		f->demoted = GPURT_NOT_DEMOTED;
}

static void apply(struct model *m, struct facts *f, const struct event *e)
{
	bool had = job(f);

	switch (e->op) {
	case OP_BEGIN:
		begin(m, f, e);
		break;
	case OP_END:
		if (f->depth > 1)
			f->depth--;
		else
			end(f);
		break;
	case OP_PRIORITY:
		f->set = e->a;
		break;
	case OP_JOB:
		f->own = e->a;
		f->runnable = e->b;
		rejob(m, f, had);
		break;
	case OP_OPEN:
		f->tsgs++;
		rejob(m, f, had);
		break;
	case OP_CLOSE:
		f->tsgs--;
		rejob(m, f, had);
		if (!f->tsgs && f->depth)
			end(f);
		break;
	case OP_BUDGET:
		f->limit = e->a;
		f->period = model_period(e->a);
		f->action = e->b;
		f->used = f->ends = 0;
		f->overrun = false;
		break;
	case OP_FORM:
		f->form = e->a;
		break;
	case OP_ASK:
		f->asked = e->a;
		if (!f->depth)
			f->self = m->policy == GPURT_POLICY_BOOSTED && f->form == GPURT_FORM_SELF && e->a;
		break;
	case OP_TURN:
		f->turn = e->a && f->asked && m->policy == GPURT_POLICY_BOOSTED;
		break;
	case OP_OVER:
		f->asked = 0;
		f->turn = false;
		m->updating = false;
		break;
	case OP_LOST:
		m->updating = m->policy == GPURT_POLICY_BOOSTED;
		break;
	case OP_WORK:
		f->working = e->a;
		break;
	case OP_GONE:
		*f = (struct facts){ .set = GPURT_PRIORITY_OWN, .said = f->said | 1u << GPURT_EVENT_GONE };
		break;
	}
}

static void policy(struct model *m, u32 to)
{
	m->policy = to;
	if (m->runner == NOBODY)
		return;
	m->c[m->runner].came = -++m->stamp;
	m->c[m->runner].job_came = -++m->stamp;
}

void model_init(struct model *m)
{
	*m = (struct model){ .policy = GPURT_POLICY_TIMESLICED, .runner = NOBODY };
	for (int i = 0; i < CLIENTS; i++)
		m->c[i].set = GPURT_PRIORITY_OWN;
}

/* Carries out @e; returns what the core must return. */
int model_step(struct model *m, const struct event *e, u64 now)
{
	struct facts *f = &m->c[e->client], old;
	int i, runner = m->runner;

	for (i = 0; i < CLIENTS; i++)
		m->c[i].said = 0;
	if (e->op == OP_END && !f->depth)
		return -ENOENT;
	if (e->op == OP_FORM && (f->depth || f->asked || f->turn))
		return -EBUSY;
	if (e->op == OP_EXEMPT)
		f->exempt = e->a;
	if (e->op >= OP_FORM) {
		apply(m, f, e);
		f->self = f->self && (f->depth || f->asked);
		return 0;
	}
	if (e->op == OP_EXEMPT || (e->op == OP_CLOSE && !f->tsgs) || (e->op == OP_POLICY && e->a == m->policy))
		return 0;
	charge(m, now);
	old = *f;
	if (e->op == OP_POLICY)
		policy(m, e->a);
	else
		apply(m, f, e);
	arrive(m, (int)e->client, &old);
	/* A client whose budget was spent before is demoted when it would run; one at a time, for that takes its turn. */
	while ((i = wanted(m)) != NOBODY) {
		charge_budget(&m->c[i], now, now);
		if (!spent(&m->c[i]))
			break;
		old = m->c[i];
		m->c[i].demoted = demotion(m);
		arrive(m, i, &old);
	}
	m->runner = i;
	if (m->runner != runner)
		m->updating = m->policy == GPURT_POLICY_BOOSTED;
	f->self = f->self && (f->depth || f->asked);
	return 0;
}

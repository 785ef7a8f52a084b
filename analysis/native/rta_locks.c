// SPDX-License-Identifier: GPL-2.0
/* MPCP and FMLP+ on the GPU as one lock: analysis/papers/mpcp.py, fmlp.py and locks_published.py, term by term. */
#include "rta_internal.h"

/* Best-effort tasks hold the GPU too, so that loops over its users include them. */

static bool is_lower(const struct rta_task *j, const struct rta_task *t)
{
	return j->cpu == t->cpu && j->priority < t->priority;
}

static int64_t held(const struct rta *s, const struct rta_task *t)
{
	return t->eta * s->theta;
}

static int64_t request(const struct rta *s, const struct rta_task *t)
{
	return s->batch->longest[t->at] + s->theta;
}

static void recurring(struct rta *s, int64_t amount, const struct rta_task *h)
{
	rta_push(s, amount, h, rta_jitter(h, amount));
}

static int64_t bounded(struct rta *s, int64_t amount, int64_t cap, const struct rta_task *h)
{
	return rta_push_capped(s, amount, cap, h, rta_jitter(h, amount));
}

static int64_t own(const struct rta *s, const struct rta_task *t)
{
	return t->cpu_time + t->misc + t->pure + held(s, t);
}

/* Lower tasks of the CPU execute boosted above @t: whole requests if they spin, G^m if they sleep. */
static int64_t boosted(struct rta *s, const struct rta_task *t, bool busy)
{
	const struct rta_task *j;
	int64_t constant = 0, times = (int64_t)t->eta + 1;
	u32 u;

	rta_for_each_user(s, u, j) {
		if (!is_lower(j, t))
			continue;
		if (busy)
			constant += bounded(s, j->misc + j->pure + held(s, j), times * request(s, j), j);
		else
			constant += bounded(s, j->misc, times * s->batch->longest_misc[j->at], j);
	}
	return constant;
}

/* The queue of MPCP.  Each own request waits for the longest lower one, and for higher ones of other CPUs by jobs. */
static int64_t by_priority(struct rta *s, const struct rta_task *t)
{
	const struct rta_task *h;
	int64_t longest = 0;
	u32 u;

	if (!t->eta)
		return 0;
	rta_for_each_user(s, u, h) {
		if (h->gpu_priority < t->gpu_priority)
			longest = rta_max(longest, request(s, h));
		else if (h->cpu != t->cpu && h->priority)
			recurring(s, h->misc + h->pure + held(s, h), h);
	}
	return t->eta * longest;
}

/* The task @h, above on the CPU, preempts for @amount.  A task that never sleeps needs no jitter. */
static void preemption(struct rta *s, int64_t amount, const struct rta_task *h)
{
	rta_push(s, amount, h, h->eta ? rta_jitter(h, amount) : 0);
}

/*
 * The end of @t's previous job: @amount.  This end executes boosted although CPU-only tasks above @t are pending since
 * before @t's release.  Returns 0 if @t has no such tasks above it.
 */
static int64_t carried(const struct rta *s, const struct rta_task *t, int64_t amount)
{
	const struct rta_task *h;

	rta_for_each_hpp(s, t, h)
		if (!h->eta)
			return amount;
	return 0;
}

int64_t rta_mpcp_suspend(struct rta *s, const struct rta_task *t)
{
	int64_t constant = own(s, t) + by_priority(s, t) + boosted(s, t, false) + carried(s, t, s->batch->last_misc[t->at]);
	const struct rta_task *h;

	rta_for_each_hpp(s, t, h)
		preemption(s, h->cpu_time + h->misc + (t->eta ? h->pure + held(s, h) : 0), h);
	return constant;
}

/* Holders that spin take from the CPU: tasks above, lower tasks for one request each, and the previous job. */
static int64_t spun(struct rta *s, const struct rta_task *t)
{
	const struct rta_task *h;

	rta_for_each_hpp(s, t, h)
		preemption(s, h->cpu_time + h->misc + h->pure + held(s, h), h);
	int64_t last = s->batch->last[t->at];

	return boosted(s, t, true) + carried(s, t, last ? last + s->theta : 0);
}

int64_t rta_mpcp_busy(struct rta *s, const struct rta_task *t)
{
	return own(s, t) + by_priority(s, t) + spun(s, t);
}

/* The queue of FMLP+: each own request waits for one request of each task of another CPU. */
static int64_t first_come(struct rta *s, const struct rta_task *t)
{
	const struct rta_task *h;
	int64_t constant = 0;
	u32 u;

	rta_for_each_user(s, u, h)
		if (t->eta && h->cpu != t->cpu)
			constant += bounded(s, h->misc + h->pure + held(s, h), t->eta * request(s, h), h);
	return constant;
}

/* Lower tasks of the CPU: a request of each for every own request, and the boosted G^m of one more after the last. */
static int64_t local(struct rta *s, const struct rta_task *t)
{
	const struct rta_task *j;
	int64_t constant = 0;
	u32 u;

	rta_for_each_user(s, u, j) {
		int64_t amount = t->eta ? j->misc + j->pure + held(s, j) : j->misc;

		if (is_lower(j, t))
			constant += bounded(s, amount, t->eta * request(s, j) + s->batch->longest_misc[j->at], j);
	}
	return constant;
}

int64_t rta_fmlp_suspend(struct rta *s, const struct rta_task *t)
{
	int64_t constant = own(s, t) + first_come(s, t) + local(s, t) + carried(s, t, s->batch->last_misc[t->at]);
	const struct rta_task *h;

	rta_for_each_hpp(s, t, h) {
		preemption(s, h->cpu_time + h->misc, h);
		if (t->eta && h->eta)
			constant += bounded(s, h->pure + held(s, h), t->eta * (s->batch->longest_pure[h->at] + s->theta), h);
	}
	return constant;
}

int64_t rta_fmlp_busy(struct rta *s, const struct rta_task *t)
{
	return own(s, t) + first_come(s, t) + spun(s, t);
}

/* locks_published.py: what the evaluation published with GCAPS charges. */

static void preemption_published(struct rta *s, const struct rta_task *t, bool busy)
{
	const struct rta_task *h;

	rta_for_each_hpp(s, t, h)
		recurring(s, h->cpu_time + h->misc + (busy ? h->pure : 0), h);
}

/* The sum of the longest requests of all tasks above @level: what each response of a task at @level is charged. */
static int64_t added(const struct rta *s, u32 level)
{
	int64_t sum = 0;
	u32 u;

	for (u = 0; u < s->user_count; u++)
		if (s->tasks[s->users[u]].gpu_priority > level)
			sum += s->batch->longest[s->tasks[s->users[u]].at];
	return sum;
}

static int64_t queue_published(struct rta *s, const struct rta_task *t)
{
	const struct rta_task *h;
	int64_t longest = 0, more;
	u32 u;

	rta_for_each_user(s, u, h) {
		if (h == t)
			continue;
		more = added(s, h->gpu_priority);
		if (h->gpu_priority < t->gpu_priority)
			longest = rta_max(longest, s->batch->longest[h->at] + more);
		else if (h->priority)
			rta_push(s, h->misc + h->pure + h->eta * more, h, rta_jitter(h, h->cpu_time + h->misc));
	}
	return t->eta * longest;
}

static int64_t mpcp_published(struct rta *s, const struct rta_task *t, bool busy)
{
	int64_t constant = t->cpu_time + t->misc + t->pure;
	const struct rta_task *j;
	u32 u;

	preemption_published(s, t, busy);
	rta_for_each_user(s, u, j) {
		int64_t cap = (t->eta + 1) * s->batch->longest_misc[j->at];
		int64_t jitter = rta_max(j->period - j->cpu_time - j->misc, 0);

		if (is_lower(j, t))
			constant += rta_push_capped(s, j->misc, cap, j, jitter);
	}
	return constant + (t->eta ? queue_published(s, t) : 0);
}

int64_t rta_mpcp_suspend_published(struct rta *s, const struct rta_task *t)
{
	return mpcp_published(s, t, false);
}

int64_t rta_mpcp_busy_published(struct rta *s, const struct rta_task *t)
{
	return mpcp_published(s, t, true);
}

static int64_t fmlp_published(struct rta *s, const struct rta_task *t, bool busy)
{
	int64_t constant = t->cpu_time + t->misc + t->pure;
	const struct rta_task *h;
	u32 u;

	preemption_published(s, t, busy);
	rta_for_each_user(s, u, h) {
		int64_t longest = s->batch->longest[h->at];
		bool lower = is_lower(h, t);

		if (lower || (t->eta && h->cpu != t->cpu))
			constant += rta_push_capped(s, h->eta * longest, ((int64_t)t->eta + lower) * longest, h,
						    h->period);
	}
	return constant;
}

int64_t rta_fmlp_suspend_published(struct rta *s, const struct rta_task *t)
{
	return fmlp_published(s, t, false);
}

int64_t rta_fmlp_busy_published(struct rta *s, const struct rta_task *t)
{
	return fmlp_published(s, t, true);
}

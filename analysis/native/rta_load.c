// SPDX-License-Identifier: GPL-2.0
/* Converts flat arrays to a taskset by CPU and priority. */
#include <stdlib.h>

#include "rta_internal.h"

#define LARGEST (1LL << 58)
#define COUNTED 0x1p46		/* jobs of one task in one window */

/* Allocates a taskset; NULL if there is no memory. */
static struct rta *make(u32 tasks, u32 cpus)
{
	struct rta *s = calloc(1, sizeof(*s));
	size_t room = 4 * (size_t)tasks + 4, few = tasks < RTA_WINDOWED ? tasks : RTA_WINDOWED;

	if (!s)
		return NULL;
	s->room = (u32)room;
	s->tasks = calloc(tasks + 1, sizeof(*s->tasks));
	s->cpu = calloc(cpus + 1, sizeof(*s->cpu));
	s->order = calloc(2 * (size_t)tasks + 2, sizeof(*s->order));
	s->users = calloc(tasks + 1, sizeof(*s->users));
	s->amount = calloc(4 * room, sizeof(*s->amount));
	s->part = calloc(2 * room, sizeof(*s->part));
	s->part_of = malloc((room + few * few) * sizeof(*s->part_of));
	s->owners = rta_owners_new(tasks);
	s->served = calloc(tasks + 1, sizeof(*s->served));
	s->chain = calloc(tasks + 1, sizeof(*s->chain));
	s->cpus = cpus;
	if (s->tasks && s->cpu && s->order && s->users && s->amount && s->part && s->part_of &&
	    s->owners && s->served && s->chain) {
		s->period = s->amount + room;
		s->jitter = s->period + room;
		s->base = s->jitter + room;
		s->parts = s->part + room;
		return s;
	}
	rta_free(s);
	return NULL;
}

/* A number above all CPU numbers; 0 if a CPU number is too large: RTA_CPUS is a power of 2. */
static u32 cpus_of(const struct gpurt_columns *b)
{
	u32 i, most = 0;

	for (i = 0; i < b->count; i++)
		most |= b->cpu[i];
	return most < RTA_CPUS ? most + 1 : 0;
}

void rta_free(struct rta *s)
{
	if (!s)
		return;
	free(s->tasks);
	free(s->cpu);
	free(s->order);
	free(s->users);
	free(s->amount);
	free(s->part);
	free(s->part_of);
	free(s->served);
	free(s->chain);
	rta_owners_free(s->owners);
	free(s);
}

/* Indices of the taskset, most urgent first, ties in their order; best effort comes last. */
static void by_priority(const u32 *priority, u32 count, u32 *ranked)
{
	u32 i, j;

	for (i = 0; i < count; i++) {
		u32 own = priority[i];

		for (j = i; j && priority[ranked[j - 1]] < own; j--)
			ranked[j] = ranked[j - 1];
		ranked[j] = i;
	}
}

/* Fills an entry.  The struct is not cleared first: clearing would take longer than all other work. */
static void fill(struct rta_task *t, const struct gpurt_columns *b, u32 index)
{
	t->period = b->period[index];
	t->deadline = b->deadline[index];
	t->response = t->end = t->deadline;
	t->found = -1;
	t->cpu_time = b->cpu_time[index];
	t->misc = b->misc[index];
	t->pure = b->pure[index];
	t->cpu = b->cpu[index];
	t->priority = b->priority[index];
	t->gpu_priority = b->gpu_priority[index];
	t->eta = b->eta[index];
	t->busy = b->busy[index];
	t->thread = b->thread[index];
	t->sleeps = t->eta > 0;
	t->chained = false;
	t->index = index;
	t->gpu_busy = t->misc + t->pure + 2 * (b->alpha + b->theta) * t->eta;
}

/* Places the ranked tasks by CPU.  Tasks of one CPU keep their order. */
static void place(struct rta *s, const struct gpurt_columns *b, const u32 *ranked)
{
	const u32 *cpu = b->cpu;
	struct rta_cpu *on = s->cpu;
	u32 i, c, sum = 0, above = UINT32_MAX, real_time = s->real_time, count = s->count;
	bool ties = false, threads = false;

	for (c = 0; c < s->cpus; c++)
		on[c].end = 0;
	for (i = 0; i < real_time; i++)
		on[cpu[ranked[i]]].end++;
	for (c = 0; c < s->cpus; c++) {
		on[c].begin = sum;
		sum += on[c].end;
		on[c].end = on[c].begin;
	}
	for (i = 0; i < count; i++) {
		u32 index = ranked[i], entry = i < real_time ? on[cpu[index]].end++ : i;
		struct rta_task *t = &s->tasks[entry];

		s->order[i] = entry;
		fill(t, b, index);
		threads |= t->thread > 0;
		ties |= t->priority == above;
		above = t->priority ? t->priority : UINT32_MAX;		/* best-effort tasks never count as ties */
	}
	s->ties = ties;
	s->threads = threads;
}

static void find_users(struct rta *s)
{
	u32 c, i;

	s->user_count = 0;
	for (c = 0; c < s->cpus; c++) {
		s->cpu[c].first_user = s->user_count;
		for (i = s->cpu[c].begin; i < s->cpu[c].end; i++) {
			s->users[s->user_count] = i;
			s->tasks[i].user = s->user_count;
			s->user_count += s->tasks[i].eta > 0;	/* without a branch, which no processor could predict */
		}
		s->cpu[c].end_user = s->user_count;
	}
}

/*
 * An upper bound of any formula's charges for one job.  If small() accepts the sum of this bound over all
 * jobs, no sum of the formula exceeds 63 bits.  A window plus a jitter is at most twice the longest deadline or period.
 * A formula charges a job's own demand, and overheads for each of its segments, or of the waiting task's segments.  A
 * formula with windows charges all of that once for each such segment.  Rounding errors of doubles are far below the
 * margin of LARGEST to 2^63.
 */
static double charged(const struct rta_formula *formula, double demand, double segments, double overhead)
{
	return (formula->windows ? segments + 2 : 1) * (6 * demand + (segments + 2) * overhead);
}

/* Whether a period or a deadline is in the range that the formulas accept. */
static bool in_range(int64_t time, int64_t least)
{
	return time >= least && time < LARGEST;
}

/*
 * Whether no sum over the taskset can exceed 63 bits.  A thread that serves several tasks executes a chain of jobs.
 * The chain has at most the segments and the demand of all jobs in a window.
 */
static bool small(const struct rta *s, const struct gpurt_columns *b, const struct rta_formula *formula)
{
	double longest = 1, most = 0, sum = 0, eta = 0, overhead = 6 * ((double)b->alpha + 2 * (double)b->theta);
	u32 i;

	for (i = 0; i < s->count; i++) {
		const struct rta_task *t = &s->tasks[i];

		if (!in_range(t->period, 1) || !in_range(t->deadline, 0))
			return false;
		longest = (double)rta_max((int64_t)longest, rta_max(t->deadline, t->period));
		eta = t->eta > eta ? t->eta : eta;
	}
	for (i = 0; i < s->count && s->threads; i++)
		eta += (2 * longest / (double)s->tasks[i].period + 2) * s->tasks[i].eta;
	for (i = 0; i < s->count; i++) {
		const struct rta_task *t = &s->tasks[i];
		double demand = (double)t->cpu_time + (double)t->misc + (double)t->pure;
		double jobs = 2 * longest / (double)t->period + 2;

		most = jobs > most ? jobs : most;
		sum += jobs * charged(formula, demand, t->eta + eta, overhead);
	}
	return most < COUNTED && sum < (double)LARGEST;
}

/* Whether the formula knows threads that serve several tasks. */
static bool knows_threads(const struct rta_formula *formula)
{
	return formula->demands == rta_gcaps_suspend || formula->demands == rta_boosted_suspend;
}

int rta_load(const struct gpurt_columns *b, u32 number, const struct rta_formula **found, struct rta **made)
{
	const struct rta_formula *formula = rta_formula(number);
	u32 cpus = cpus_of(b), *ranked;
	struct rta *s = NULL;

	*made = NULL;
	*found = formula;
	if (!formula || !cpus)
		return GPURT_RTA_EINVAL;
	*made = s = make(b->count, cpus);
	if (!s)
		return GPURT_RTA_ENOMEM;
	ranked = s->order + s->room / 4;
	s->count = b->count;
	by_priority(b->priority, s->count, ranked);
	for (s->real_time = s->count; s->real_time; s->real_time--)
		if (b->priority[ranked[s->real_time - 1]])
			break;
	s->columns = b;
	s->alpha = b->alpha;
	s->theta = b->theta;
	s->epsilon = b->alpha + b->theta;
	s->longest_switch = b->longest_switch;
	place(s, b, ranked);
	find_users(s);
	rta_forget_windows(s);
	if (s->threads) {
		if (!knows_threads(formula))
			return GPURT_RTA_REFUSED;
		rta_find_threads(s);
	}
	return small(s, b, formula) ? 0 : GPURT_RTA_REFUSED;
}

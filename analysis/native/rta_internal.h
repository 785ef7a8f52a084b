/* SPDX-License-Identifier: GPL-2.0 */
/* A taskset during its analysis, and the rows of one recurrence R = constant + sum of ceil((R + J) / T) e. */
#ifndef GPURT_RTA_INTERNAL_H
#define GPURT_RTA_INTERNAL_H

#include "rta.h"

#define RTA_CPUS 4096	/* CPU numbers are less than this */
#define RTA_WINDOWED 99	/* with more GPU users, windows of other tasks are not used (analysis/rta/windows.py) */

struct rta_task {
	int64_t period, deadline;
	int64_t response;	/* R if it is known, else D */
	int64_t found;		/* R; no other task's jitter uses it yet */
	int64_t end;		/* of a job's last GPU segment, if it is known, else D */
	int64_t found_end;
	int64_t cpu_time, misc, pure;
	int64_t gpu_busy;	/* G + 2 epsilon eta: the time that a job owns the GPU if no task delays it */
	u32 cpu, priority, gpu_priority, eta;
	u32 busy;		/* the task waits busily, if each task has its own mode */
	u32 index;		/* in the columns, which also have single segments */
	u32 short_sleep;	/* its sleep counts as sleep, not as jitter, for the analysed task (analysis/rta/short.py) */
	u32 user;		/* its place in `users`, if it is real-time and uses the GPU */
	u32 thread, rank, order;	/* as in the columns */
	bool sleeps;		/* its thread can sleep while one of its jobs is pending, if no task waits busily */
	bool chained;		/* for now the entry stands for the jobs of `chain`, executed one after another */
	int64_t claim;		/* rta_threads.c: a response time that no job exceeds; -1: none; RTA_UNKNOWN: not searched */
};

/* @amount for every job in the window, in total at most @most. */
struct rta_part {
	int64_t amount, period, jitter, most;
};

/* The real-time tasks of a CPU: entries begin to end - 1, most urgent first. */
struct rta_cpu {
	u32 begin, end;
	u32 first_user, end_user;	/* those that use the GPU: places in `users` */
};

/* A number of jobs of a task. */
struct rta_jobs {
	const struct rta_task *task;
	int64_t count;
};

struct rta {
	const struct gpurt_columns *columns;
	u32 count, real_time, cpus;	/* real-time tasks come first */
	struct rta_task *tasks;
	struct rta_cpu *cpu;
	u32 *order;			/* real-time entries, most urgent first, ties by index */
	u32 *users;			/* real-time entries that use the GPU, by CPU */
	u32 user_count;
	int64_t alpha, theta, epsilon;
	int64_t longest_switch;		/* as in the columns */
	bool ties;			/* real-time tasks have equal priorities */
	bool threads;			/* some thread serves several tasks */
	u32 *served, serving;		/* entries of tasks of such threads, by thread and rank; how many */
	struct rta_jobs *chain;		/* of the analysed task */
	u32 chained;			/* how many entries `chain` has */
	/* of the recurrence that is being solved */
	u32 room, rows, capped;
	int64_t *amount, *period, *jitter;	/* of each row */
	/* of capped rows: the total is at most `base` plus the total of `parts` parts from `part` on */
	int64_t *base;
	u32 *part, *parts;
	struct rta_part *part_of;
	u32 used;			/* parts */
	int64_t constant;
	u32 lower;			/* capped rows of lower tasks, which come first */
	struct rta_owners *owners;	/* rta_windows.c */
	uint64_t *needs;		/* collects the tasks that the bound rests on, unless NULL */
	uint64_t *needs_of;		/* by index, these sets for each task: `words` words each, and two rows more; or NULL */
	u32 words;
};

/* Pushes the recurring demands of a task as rows; returns the constant ones. */
typedef int64_t rta_demands(struct rta *s, const struct rta_task *t);

/* Functions of a formula that uses single segments. */
struct rta_segmented {
	/* Changes the rows of a job, just pushed, into the rows of a job up to the end of its last GPU segment. */
	rta_demands *end;
	/* The rows of another bound, used if the first has no solution; -1: it has none here.  NULL: no other bound. */
	rta_demands *instead;
};

struct rta_formula {
	const char *name;
	rta_demands *demands;
	const struct rta_segmented *segmented;	/* NULL: bounds do not use single segments */
	bool windows;	/* it charges other tasks' demands once for each segment of the task, not once in all */
};

/* The formula at index @place of the table; NULL beyond the last. */
const struct rta_formula *rta_formula(u32 place);

rta_demands rta_gcaps_suspend, rta_gcaps_busy, rta_boosted_suspend, rta_boosted_busy, rta_boosted_fence,
	    rta_boosted_mixed;
extern const struct rta_segmented rta_boosted_suspend_segments, rta_boosted_busy_segments, rta_boosted_fence_segments,
	rta_boosted_mixed_segments;

static inline int64_t rta_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The number of jobs released in a window of @time ns, which includes their jitter. */
static inline int64_t rta_jobs_in(int64_t time, int64_t period)
{
	return (time + period - 1) / period;
}

/* The steps after which a search gives up, as in the readable version. */
#define RTA_STEPS 1000000
/* One minus far more than the relative error of a sum of up to 2^15 rounded rows. */
#define RTA_SLACK (1.0 - 0x1p-36)

/*
 * A lower bound of a solution: (@constant + @carried) / (1 - @rate), rounded down by more than the rounding errors.
 * Returns -1 if it exceeds @limit.  From every lower bound, the search ends at the same value.
 */
static inline int64_t rta_below(int64_t constant, double carried, double rate, int64_t limit)
{
	double x;

	rate *= RTA_SLACK;
	if (rate >= 1)
		return -1;
	x = ((double)constant + carried) * RTA_SLACK / (1 - rate) * RTA_SLACK;
	if (x >= (double)limit * (1 + 0x1p-36) + 2)
		return -1;
	return rta_max(constant, (int64_t)x < limit ? (int64_t)x : limit);
}

/* The longest response that counts as a solution. */
static inline int64_t rta_limit(const struct rta_task *t)
{
	return t->deadline < t->period ? t->deadline : t->period;
}

/* R_h - @execution, at least 0: the longest time from the release of a job of @h to its last @execution. */
static inline int64_t rta_jitter(const struct rta_task *h, int64_t execution)
{
	return rta_max(h->response - execution, 0);
}

/* Whether both tasks have the same thread, which serves several tasks; @t and @h may be the same task. */
static inline bool rta_sibling(const struct rta_task *h, const struct rta_task *t)
{
	return h->thread && h->thread == t->thread;
}

/*
 * The entry of hpp(t) after @h, or the first if @h is NULL; NULL after the last.  The set hpp(t) has the tasks above @t
 * on its CPU, and those of its priority, except tasks that its own thread serves.
 */
static inline const struct rta_task *rta_hpp_next(const struct rta *s, const struct rta_task *t, const struct rta_task *h)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];

	h = h ? h + 1 : s->tasks + cpu->begin;
	h += h == t;
	while (s->threads && h < s->tasks + cpu->end && rta_sibling(h, t))
		h++;
	if (h < t || (s->ties && h < s->tasks + cpu->end && h->priority == t->priority))
		return h;
	return NULL;
}

#define rta_for_each_hpp(s, t, h) for (h = rta_hpp_next(s, t, NULL); h; h = rta_hpp_next(s, t, h))

static inline void rta_need(struct rta *s, const struct rta_task *h, bool needed)
{
	if (s->needs && needed)
		s->needs[h->index / 64] |= 1ULL << h->index % 64;
}

/*
 * Charges @amount for every job of @h that can execute in the window.  Always writes the row, and counts it if @amount
 * is not 0: a branch on it would often be predicted wrongly.
 */
static inline void rta_push(struct rta *s, int64_t amount, const struct rta_task *h, int64_t jitter)
{
	u32 r = s->rows;

	s->amount[r] = amount;
	s->period[r] = h->period;
	s->jitter[r] = jitter;
	s->rows = r + (amount != 0);
	rta_need(s, h, amount != 0);
}

/*
 * Charges @amount for every job of @h that can execute in the window, in total at most @cap.  Returns the constant
 * part: the cap of a best-effort task, whose jobs cannot be counted because it has no response time.  Capped rows are
 * stored from the other end of the arrays.
 */
static inline int64_t rta_push_capped(struct rta *s, int64_t amount, int64_t cap, const struct rta_task *h,
				      int64_t jitter)
{
	u32 r;

	if (!h->priority || !cap)
		return cap;
	if (!amount)
		return 0;
	r = s->room - ++s->capped;
	s->amount[r] = amount;
	s->base[r] = cap;
	s->parts[r] = 0;
	s->period[r] = h->period;
	s->jitter[r] = jitter;
	rta_need(s, h, true);
	return 0;
}

/* Begins a row that is capped by @base plus the parts that are added next.  @amount is not 0. */
static inline u32 rta_push_either(struct rta *s, int64_t amount, const struct rta_task *h, int64_t jitter, int64_t base)
{
	u32 r = s->room - ++s->capped;

	s->amount[r] = amount;
	s->base[r] = base;
	s->part[r] = s->used;
	s->parts[r] = 0;
	s->period[r] = h->period;
	s->jitter[r] = jitter;
	rta_need(s, h, true);
	return r;
}

/* Adds to the cap of the row that was pushed last: @amount for every job of @h, in total at most @most. */
static inline void rta_add_part(struct rta *s, u32 r, int64_t amount, const struct rta_task *h, int64_t jitter,
				int64_t most)
{
	s->part_of[s->used++] = (struct rta_part){ amount, h->period, jitter, most };
	s->parts[r]++;
}

/* rta_windows.c: the time that tasks own the GPU while others are inside their segments. */
struct rta_owners *rta_owners_new(u32 tasks);
void rta_owners_free(struct rta_owners *o);
/* Forgets the windows found so far: responses have changed. */
void rta_forget_windows(struct rta *s);
/*
 * The time, by place in `users`, that owners of at least GPU priority @level take inside the segments of a job of @p.
 * NULL: a segment is longer than the deadline.  If @keep, the previous result is returned.
 */
const int64_t *rta_inside(struct rta *s, const struct rta_task *p, u32 level, bool keep);
/* The longest time that a job of @p is inside its segments, at its own priority. */
int64_t rta_inside_length(struct rta *s, const struct rta_task *p, bool keep);
/* The time that each segment of @t has besides its length: its updates, a switch, and an update in flight. */
int64_t rta_update(const struct rta *s, const struct rta_task *t);
/*
 * Finds the formula at @place, and reads a taskset.  Returns 0, GPURT_RTA_REFUSED if sums could exceed 63 bits, or an
 * error.  In every case the caller passes @made to rta_free().
 */
int rta_load(const struct gpurt_columns *columns, u32 place, const struct rta_formula **found, struct rta **made);
void rta_free(struct rta *s);

/* The least solution of a task's recurrence, or -1 if there is none within its deadline and period. */
int64_t rta_solve(struct rta *s, const struct rta_formula *formula, const struct rta_task *t);
/* rta_solve() for a job up to the end of its last GPU segment.  rta_solve() has just solved the task. */
int64_t rta_solve_end(struct rta *s, const struct rta_formula *formula, const struct rta_task *t);
/*
 * rta_solve() by the other formula, for use if rta_solve() finds no solution; -1 if this finds none either.
 */
int64_t rta_solve_instead(struct rta *s, const struct rta_formula *formula, const struct rta_task *t);
#define RTA_UNKNOWN (-2)

/* Lists the tasks of threads that serve several tasks. */
void rta_find_threads(struct rta *s);
/* The bound of a task whose thread serves several, or -1.  Adds the tasks that the bound rests on to `needs_of`. */
int64_t rta_serve(struct rta *s, const struct rta_formula *formula, struct rta_task *t);

#endif

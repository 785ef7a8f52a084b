/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* gpurt_task: what a periodic task does, and what it reports.  Times are in nanoseconds. */
#ifndef GPURT_TASK_H
#define GPURT_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TASK_MAX_SEGMENTS	64
#define TASK_MAX_JOBS		1000000ULL
#define TASK_MAX_PRIORITY	98	/* the watcher of a busy wait runs one level above */
#define TASK_FOREVER		UINT64_MAX
#define TASK_MAX_SERVED		64

/* How a thread that serves several tasks chooses the next pending job (docs/readings/threads.md). */
enum task_order { TASK_FIFO, TASK_PRIORITY, TASK_ROS2, TASK_LIVE_TIMERS };

struct task_segment {
	bool gpu;
	uint64_t cpu;			/* a CPU segment's time, a GPU segment's G^m */
	uint64_t pure;			/* G^e */
};

struct task_args {
	const char *name;
	const char *report;		/* path */
	uint64_t period;
	uint64_t deadline;
	uint64_t start_at;		/* CLOCK_MONOTONIC; 0: 10 ms from now */
	uint64_t until;			/* no job is released at or after this time */
	uint64_t jobs;
	int cpu;			/* -1: any */
	int priority;			/* 0: best effort */
	int gpu_priority;		/* 0: the task's own */
	int parent;			/* 0: none */
	bool busy;
	bool wait;			/* start_at and until are read from stdin */
	bool unmanaged;			/* it neither begins nor ends segments */
	bool tell;			/* it announces begin and end of its jobs */
	int order;			/* of the thread, if it serves several tasks: an enum task_order */
	int rank;			/* in that order, 0 first */
	bool timer;			/* it skips releases when late; `ros2-live-timers` looks at timers first */
	unsigned int segments;
	struct task_segment segment[TASK_MAX_SEGMENTS];
	char **command;			/* execute this instead */
};

/*
 * Fills in @args.  After a mistake, prints one line on stderr and exits with 2.  After --help, exits with 0.  @before:
 * the previous task of the same thread, from which it takes options that are missing; NULL for the first.  Returns the
 * index of the --also before the next task's options; 0: this is the last task.
 */
int task_parse(struct task_args *args, const struct task_args *before, int argc, char **argv);

/* How many points in time a report has for each GPU segment, and for a job besides its segments. */
enum { GPU_STAMPS = 2, JOB_STAMPS = 4 };

/* Notes: options that the system did not permit to carry out.  @code: an errno. */
void report_note(const char *what, int code);
void report_notes(FILE *out, const char *prefix);

/* Stores why the run failed and returns @code, a negative errno.  report_failed(): NULL if the run did not fail. */
int report_error(const char *what, int code);
const char *report_failed(void);

/* Selects the task that the functions below apply to, at first the first task. */
void report_use(unsigned int task);

/* Allocates room for all jobs, before the first job runs.  Returns 0 or -ENOMEM. */
int report_prepare(const struct task_args *args);
uint64_t report_capacity(void);
uint64_t *report_job(uint64_t job);

/* Writes the report of the @done finished jobs.  Returns 0 or -errno. */
int report_write(const struct task_args *args, uint64_t done);

#endif /* GPURT_TASK_H */

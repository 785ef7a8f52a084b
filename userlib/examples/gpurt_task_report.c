// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * gpurt_task's report.  It is kept in memory while jobs run and written at the end, also after SIGTERM and SIGINT.
 *
 *	gpurt-task 3
 *	task NAME
 *	note TEXT				what the options ask for and the system does not permit
 *	job K RELEASE START FINISH EXECUTED	CLOCK_MONOTONIC ns, and of CPU time; then of each GPU segment
 *	     SUBMIT COMPLETED
 *	error TEXT
 *	end DONE UNFINISHED			numbers of jobs; a report without this line is incomplete
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpurt_task.h"

static char notes[4][160];
static unsigned int note_count;
static char error[160];

/* The reports of the tasks that the thread serves. */
static struct {
	uint64_t *stamps;		/* job by job */
	size_t stamps_per_job;
	uint64_t capacity;		/* jobs */
} reports[TASK_MAX_SERVED];
static unsigned int current;

void report_use(unsigned int task)
{
	current = task;
}

void report_note(const char *what, int code)
{
	if (note_count < sizeof(notes) / sizeof(notes[0]))
		snprintf(notes[note_count++], sizeof(notes[0]), "%s: %s", what, strerror(code));
}

void report_notes(FILE *out, const char *prefix)
{
	unsigned int i;

	for (i = 0; i < note_count; i++)
		fprintf(out, "%s %s\n", prefix, notes[i]);
}

int report_error(const char *what, int code)
{
	snprintf(error, sizeof(error), "%s: %s", what, strerror(-code));
	return code;
}

const char *report_failed(void)
{
	return *error ? error : NULL;
}

int report_prepare(const struct task_args *args)
{
	uint64_t capacity = args->jobs;
	size_t each = JOB_STAMPS;
	unsigned int i;

	if (args->until != TASK_FOREVER && capacity > TASK_MAX_JOBS)
		capacity = args->until > args->start_at ? (args->until - args->start_at) / args->period + 1 : 0;
	if (capacity > TASK_MAX_JOBS)
		capacity = TASK_MAX_JOBS;
	for (i = 0; i < args->segments; i++)
		each += args->segment[i].gpu ? GPU_STAMPS : 0;
	reports[current].capacity = capacity;
	reports[current].stamps_per_job = each;
	reports[current].stamps = calloc(capacity + 1, each * sizeof(uint64_t));
	return reports[current].stamps ? 0 : -ENOMEM;
}

uint64_t report_capacity(void)
{
	return reports[current].capacity;
}

uint64_t *report_job(uint64_t job)
{
	return reports[current].stamps + job * reports[current].stamps_per_job;
}

/* The number of the release, from 0, at which the job began.  Releases that a late timer skipped count. */
static uint64_t number(const struct task_args *args, uint64_t job)
{
	return (*report_job(job) - args->start_at) / args->period;
}

/* How many jobs were released after the last finished job, by now or by the end of the run. */
static uint64_t unfinished(const struct task_args *args, uint64_t finished)
{
	uint64_t done = finished ? number(args, finished - 1) + 1 : 0;
	uint64_t first = args->start_at, end, released;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (args->until < end)
		end = args->until;
	released = end > first ? (end - first - 1) / args->period + 1 : 0;
	if (released > args->jobs)
		released = args->jobs;
	return released > done ? released - done : 0;
}

static void write_job(FILE *out, const struct task_args *args, uint64_t job)
{
	const uint64_t *stamp = report_job(job), *end = stamp + reports[current].stamps_per_job;

	fprintf(out, "job %llu", (unsigned long long)number(args, job));
	while (stamp < end)
		fprintf(out, " %llu", (unsigned long long)*stamp++);
	fputc('\n', out);
}

int report_write(const struct task_args *args, uint64_t done)
{
	FILE *out = fopen(args->report, "we");
	uint64_t job;

	if (!out)
		return -errno;
	fprintf(out, "gpurt-task 3\ntask %s\n", args->name);
	report_notes(out, "note");
	for (job = 0; job < done; job++)
		write_job(out, args, job);
	if (*error)
		fprintf(out, "error %s\n", error);
	fprintf(out, "end %llu %llu\n", (unsigned long long)done, (unsigned long long)unfinished(args, done));
	free(reports[current].stamps);
	return fclose(out) ? -errno : 0;
}

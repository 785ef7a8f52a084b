/* SPDX-License-Identifier: GPL-2.0 */
/* The description that runner.c reads: see there. */
#ifndef DESCRIPTION_H
#define DESCRIPTION_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define TASKS 16
#define SEGMENTS 16
#define JOBS 256

#define MUST(x) do { \
	if (!(x)) { \
		fprintf(stderr, "runner: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); \
		exit(1); \
	} \
} while (0)

struct segment {
	int gpu;
	uint64_t cpu, pure;
};

struct task {
	char name[32], form[8];
	unsigned int priority, gpu_priority, jobs, segments;
	uint64_t offset, period;
	uint64_t budget;
	int busy, demote;
	pid_t pid;
	struct segment segment[SEGMENTS];
};

static struct task tasks[TASKS];
static unsigned int count;
static char calls[16] = "segment", notice[16];
static unsigned long poll_ns;

static void parse_task(const char *line)
{
	struct task *t = &tasks[count++];
	char waiting[16];

	MUST(count <= TASKS);
	MUST(sscanf(line, "task %31s %u %u %lu %lu %u %15s %7s", t->name, &t->priority, &t->gpu_priority, &t->offset,
		    &t->period, &t->jobs, waiting, t->form) == 8);
	MUST(t->jobs <= JOBS);
	t->busy = !strcmp(waiting, "busy");
}

static void parse_budget(const char *line)
{
	struct task *t = &tasks[count - 1];
	char action[16];

	MUST(count && sscanf(line, "budget %lu %15s", &t->budget, action) == 2);
	t->demote = !strcmp(action, "demote");
}

static void parse_segment(const char *line)
{
	struct task *t = &tasks[count - 1];
	struct segment *s;

	MUST(count && t->segments < SEGMENTS);
	s = &t->segment[t->segments++];
	s->gpu = *line == 'g';
	if (s->gpu)
		MUST(sscanf(line, "gpu %lu %lu", &s->cpu, &s->pure) == 2);
	else
		MUST(sscanf(line, "cpu %lu", &s->cpu) == 1);
}

static void parse(FILE *file)
{
	char line[600];

	while (fgets(line, sizeof(line), file)) {
		if (*line == '#' || *line == '\n')
			continue;
		if (!strncmp(line, "task ", 5))
			parse_task(line);
		else if (!strncmp(line, "calls ", 6))
			MUST(sscanf(line, "calls %15s", calls) == 1);
		else if (!strncmp(line, "job ", 4))
			MUST(sscanf(line, "job %15s %lu", notice, &poll_ns) == 2);
		else if (!strncmp(line, "budget ", 7))
			parse_budget(line);
		else
			parse_segment(line);
	}
}

#endif

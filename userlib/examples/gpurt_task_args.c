// SPDX-License-Identifier: GPL-2.0 OR MIT
/* gpurt_task's command line, which `gpurt run' makes (pycontrol/act/run/task_program.py). */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpurt_task.h"

static const char usage[] =
"Usage: gpurt_task [OPTION...]\n"
"       gpurt_task [--cpu N] [--priority P] --exec COMMAND [ARGUMENT...]\n"
"Executes one periodic task with GPU segments on gpurt's virtual GPU for `gpurt run', and reports its jobs.\n"
"\n"
"  --name NAME          of the task, for the report\n"
"  --segments LIST      cpu:NS or gpu:NS+NS (G^m, then G^e), separated by commas\n"
"  --period NS          between releases\n"
"  --deadline NS        after each release; the period unless given\n"
"  --cpu N              the CPU to stay on\n"
"  --priority P         SCHED_FIFO priority 1..98, 0 for best effort\n"
"  --gpu-priority P     of the GPU segments, where it differs\n"
"  --busy               spin while the GPU works\n"
"  --no-segments        do not tell gpurt's host where GPU segments begin and end\n"
"  --tell               tell the readers of the host's events when each job begins and ends\n"
"  --also               the options of another task follow, whose jobs the same thread executes\n"
"  --order N            of their jobs: 0 fifo, 1 priority, 2 ros2, 3 ros2-live-timers\n"
"  --rank N             of the task in that order, 0 first\n"
"  --timer              its jobs are a timer's, which skips releases when it is late\n"
"  --jobs N             how many to execute\n"
"  --wait               write `ready' to standard output, and read the times `START UNTIL' from standard input\n"
"  --report FILE        where the report goes at the end; standard output unless given\n"
"  --parent PID         end when this process, which started us, does\n"
"\n"
"Exit status: 0 done, 2 usage, 4 no host, 6 failed while running.\n";

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fputs("gpurt_task: ", stderr);
	vfprintf(stderr, format, list);
	fputs("\n", stderr);
	va_end(list);
	exit(2);
}

static uint64_t number(const char *option, const char *text, uint64_t low, uint64_t high)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < low || value > high)
		fail("--%s: expected a number from %llu to %llu, not \"%s\"", option, (unsigned long long)low,
		     (unsigned long long)high, text);
	return value;
}

static void parse_segments(struct task_args *args, const char *text)
{
	args->segments = 0;
	do {
		struct task_segment *segment = &args->segment[args->segments];
		int length = 0;

		if (args->segments++ == TASK_MAX_SEGMENTS)
			fail("--segments: more than %d segments", TASK_MAX_SEGMENTS);
		segment->gpu = *text == 'g';
		if (sscanf(text, "cpu:%" SCNu64 "%n", &segment->cpu, &length) < 1 &&
		    sscanf(text, "gpu:%" SCNu64 "+%" SCNu64 "%n", &segment->cpu, &segment->pure, &length) < 2)
			fail("--segments: expected cpu:NS or gpu:NS+NS at \"%s\"", text);
		text += length;
	} while (*text++ == ',');
	if (text[-1])
		fail("--segments: expected a comma at \"%s\"", text - 1);
}

/* The type of an option's value and of its field.  FLAG and the kinds after it have no value. */
enum kind { TEXT, INTEGER, COUNT, SEGMENTS, FLAG, HELP, ALSO, EXEC };

static const struct rule {
	const char *name;
	enum kind kind;
	size_t at;		/* the field in struct task_args */
	uint64_t low, high;
} rules[] = {
#define FIELD(name) offsetof(struct task_args, name)
	{ "name", TEXT, FIELD(name), 0, 0 },
	{ "segments", SEGMENTS, 0, 0, 0 },
	{ "period", COUNT, FIELD(period), 1, INT64_MAX },
	{ "deadline", COUNT, FIELD(deadline), 1, INT64_MAX },
	{ "cpu", INTEGER, FIELD(cpu), 0, 65535 },
	{ "priority", INTEGER, FIELD(priority), 0, TASK_MAX_PRIORITY },
	{ "gpu-priority", INTEGER, FIELD(gpu_priority), 0, 99 },
	{ "busy", FLAG, FIELD(busy), 0, 0 },
	{ "no-segments", FLAG, FIELD(unmanaged), 0, 0 },
	{ "tell", FLAG, FIELD(tell), 0, 0 },
	{ "also", ALSO, 0, 0, 0 },
	{ "order", INTEGER, FIELD(order), 0, TASK_LIVE_TIMERS },
	{ "rank", INTEGER, FIELD(rank), 0, 9999 },
	{ "timer", FLAG, FIELD(timer), 0, 0 },
	{ "jobs", COUNT, FIELD(jobs), 1, TASK_MAX_JOBS },
	{ "wait", FLAG, FIELD(wait), 0, 0 },
	{ "report", TEXT, FIELD(report), 0, 0 },
	{ "parent", INTEGER, FIELD(parent), 1, 1 << 30 },
	{ "exec", EXEC, 0, 0, 0 },
	{ "help", HELP, 0, 0, 0 },
#undef FIELD
};
#define RULE_COUNT (sizeof(rules) / sizeof(rules[0]))
#define FIRST_CODE 256		/* of getopt_long(), whose other codes are characters */

static void parse_option(struct task_args *args, const struct rule *rule, const char *text)
{
	void *field = (char *)args + rule->at;

	switch (rule->kind) {
	case TEXT:
		*(const char **)field = text;
		break;
	case INTEGER:
		*(int *)field = (int)number(rule->name, text, rule->low, rule->high);
		break;
	case COUNT:
		*(uint64_t *)field = number(rule->name, text, rule->low, rule->high);
		break;
	case SEGMENTS:
		parse_segments(args, text);
		break;
	case FLAG:
		*(bool *)field = true;
		break;
	case HELP:
		fputs(usage, stdout);
		exit(0);
	case ALSO:
	case EXEC:
		break;
	}
}

/* Reads options up to --also or --exec, or the last one.  Returns which of these it was; FLAG: the last one. */
static enum kind parse_options(struct task_args *args, int argc, char **argv)
{
	struct option options[RULE_COUNT + 1] = { { NULL, 0, NULL, 0 } };
	const struct rule *rule;
	int code, i;

	for (i = 0; i < (int)RULE_COUNT; i++)
		options[i] = (struct option){ rules[i].name, rules[i].kind < FLAG, NULL, FIRST_CODE + i };
	optind = 0;
	while ((code = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (code < FIRST_CODE)
			fail("see gpurt_task --help");
		rule = &rules[code - FIRST_CODE];
		if (rule->kind == ALSO || rule->kind == EXEC)
			return rule->kind;
		parse_option(args, rule, optarg);
	}
	return FLAG;
}

static void check(struct task_args *args)
{
	if (!args->segments || !args->period)
		fail("--segments and --period must be given; see gpurt_task --help");
	if (!args->deadline)
		args->deadline = args->period;
	if (args->jobs == TASK_FOREVER && !args->wait)
		fail("--jobs or --wait must say when to stop");
}

int task_parse(struct task_args *args, const struct task_args *before, int argc, char **argv)
{
	enum kind ended;

	*args = (struct task_args){
		.name = "task", .report = "/dev/stdout", .until = TASK_FOREVER, .jobs = TASK_FOREVER, .cpu = -1,
	};
	if (before) {
		*args = *before;
		args->segments = 0;
		args->period = args->deadline = 0;
		args->timer = false;
	}
	ended = parse_options(args, argc, argv);
	if (ended == EXEC && optind == argc)
		fail("--exec: a command must follow");
	if (ended == EXEC) {
		args->command = &argv[optind];
		return 0;
	}
	if (ended != ALSO && optind != argc)
		fail("unexpected argument \"%s\"", argv[optind]);
	check(args);
	return ended == ALSO ? optind - 1 : 0;
}

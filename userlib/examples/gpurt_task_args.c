// SPDX-License-Identifier: GPL-2.0 OR MIT
/* gpurt_task's command line. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpurt_task.h"

#define MAX_TIME_NS	3600e9

static const char usage[] =
"Usage: gpurt_task [OPTION...]\n"
"       gpurt_task [--cpu N] [--priority P] --exec COMMAND [ARGUMENT...]\n"
"Executes one periodic task with GPU segments on gpurt's virtual GPU, and reports when its jobs finished.\n"
"\n"
"  --name NAME          of the task, for the report\n"
"  --segments LIST      cpu:TIME or gpu:TIME+TIME (G^m, then G^e), separated by commas; TIME is like 1.5ms,\n"
"                       or BEST..WORST like 1ms..2ms; units ns, us, ms, s\n"
"  --period TIME        between releases\n"
"  --deadline TIME      after each release; the period unless given\n"
"  --offset TIME        of the first release after the start\n"
"  --cpu N              the CPU to stay on\n"
"  --priority P         SCHED_FIFO priority 1..98, 0 for best effort\n"
"  --gpu-priority P     of the GPU segments, where it differs\n"
"  --waiting MODE       suspend or busy, while the GPU works\n"
"  --no-segments        do not tell gpurt's host where GPU segments begin and end\n"
"  --tell               tell the readers of the host's events when each job begins and ends\n"
"  --scale LOW..HIGH    each time is drawn between LOW and HIGH percent of the way from best to worst;\n"
"                       100..100 unless given\n"
"  --seed N             of these draws\n"
"  --also               the options of another task follow, whose jobs the same thread executes\n"
"  --order ORDER        of their jobs: fifo, priority, ros2 or ros2-live-timers\n"
"  --rank N             of the task in that order, 0 first\n"
"  --timer              its jobs are a timer's, which skips releases when it is late\n"
"  --jobs N             how many to execute\n"
"  --until NS           release no job at or after this CLOCK_MONOTONIC time\n"
"  --start-at NS        CLOCK_MONOTONIC time from which releases count\n"
"  --start-fd FD        read the two times `START UNTIL' from there instead, when ready\n"
"  --ready-fd FD        write `ready' there when ready\n"
"  --report FILE        where the report goes at the end; - is standard output\n"
"  --device PATH        of gpurt's host\n"
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

/* Reads a time with its unit and moves @text behind it. */
static uint64_t time_at(const char *option, const char **text)
{
	static const struct { const char *name; double ns; } units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 },
	};
	size_t digits = strspn(*text, "0123456789");
	double value;
	char *end;
	size_t i;

	if (digits && (*text)[digits] == '.' && (*text)[digits + 1] != '.')
		digits += 1 + strspn(*text + digits + 1, "0123456789");
	value = digits && digits < 32 ? strtod(strndupa(*text, digits), &end) : -1;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].name);

		if (value < 0 || strncmp(*text + digits, units[i].name, length))
			continue;
		if (value * units[i].ns > MAX_TIME_NS)
			break;
		*text += digits + length;
		return (uint64_t)(value * units[i].ns + 0.5);
	}
	fail("--%s: expected a time like 1.5ms, at most one hour, at \"%s\"", option, *text);
}

static uint64_t whole_time(const char *option, const char *text)
{
	uint64_t time = time_at(option, &text);

	if (*text)
		fail("--%s: expected nothing after the time, found \"%s\"", option, text);
	return time;
}

static struct task_span span_at(const char **text)
{
	struct task_span span;

	span.best = time_at("segments", text);
	span.worst = span.best;
	if (!strncmp(*text, "..", 2)) {
		*text += 2;
		span.worst = time_at("segments", text);
	}
	if (span.worst < span.best)
		fail("--segments: the best time comes first, as in 1ms..2ms");
	return span;
}

static void parse_segments(struct task_args *args, const char *text)
{
	args->segments = 0;
	while (*text || !args->segments) {
		struct task_segment *segment = &args->segment[args->segments];

		if (args->segments++ == TASK_MAX_SEGMENTS)
			fail("--segments: more than %d segments", TASK_MAX_SEGMENTS);
		segment->gpu = !strncmp(text, "gpu:", 4);
		if (!segment->gpu && strncmp(text, "cpu:", 4))
			fail("--segments: expected cpu: or gpu: at \"%s\"", text);
		text += 4;
		segment->cpu = span_at(&text);
		if (segment->gpu && *text++ != '+')
			fail("--segments: a GPU segment is G^m+G^e, as in gpu:1ms+9ms");
		if (segment->gpu)
			segment->pure = span_at(&text);
		if (*text && *text++ != ',')
			fail("--segments: expected a comma before \"%s\"", text - 1);
		else if (text[-1] == ',' && !*text)
			fail("--segments: nothing follows the last comma");
	}
}

static void parse_scale(struct task_args *args, const char *text)
{
	if (sscanf(text, "%3u..%3u", &args->scale_low, &args->scale_high) != 2 ||
	    args->scale_low > args->scale_high || args->scale_high > 100)
		fail("--scale: expected percentages LOW..HIGH such as 0..100, not \"%s\"", text);
}

static void parse_waiting(struct task_args *args, const char *text)
{
	args->busy = !strcmp(text, "busy");
	if (!args->busy && strcmp(text, "suspend"))
		fail("--waiting: expected busy or suspend, not \"%s\"", text);
}

static void parse_order(struct task_args *args, const char *text)
{
	static const char *const orders[] = { "fifo", "priority", "ros2", "ros2-live-timers" };
	unsigned int i;

	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		if (!strcmp(text, orders[i])) {
			args->order = (enum task_order)i;
			return;
		}
	fail("--order: expected fifo, priority, ros2 or ros2-live-timers, not \"%s\"", text);
}

static void print_usage(struct task_args *args, const char *text)
{
	(void)args, (void)text;
	fputs(usage, stdout);
	exit(0);
}

/* What an option is followed by, and so what its field is.  FLAG and those after it: nothing follows. */
enum kind { TEXT, INTEGER, COUNT, TIME, OWN, FLAG, HELP, ALSO, EXEC };

static const struct rule {
	const char *name;
	enum kind kind;
	size_t at;		/* the field in struct task_args; OWN and HELP: @read fills it in */
	uint64_t low, high;
	void (*read)(struct task_args *args, const char *text);
} rules[] = {
#define FIELD(name) offsetof(struct task_args, name)
	{ "name", TEXT, FIELD(name), 0, 0, NULL },
	{ "segments", OWN, 0, 0, 0, parse_segments },
	{ "period", TIME, FIELD(period), 0, 0, NULL },
	{ "deadline", TIME, FIELD(deadline), 0, 0, NULL },
	{ "offset", TIME, FIELD(offset), 0, 0, NULL },
	{ "cpu", INTEGER, FIELD(cpu), 0, 65535, NULL },
	{ "priority", INTEGER, FIELD(priority), 0, TASK_MAX_PRIORITY, NULL },
	{ "gpu-priority", INTEGER, FIELD(gpu_priority), 0, 99, NULL },
	{ "waiting", OWN, 0, 0, 0, parse_waiting },
	{ "no-segments", FLAG, FIELD(unmanaged), 0, 0, NULL },
	{ "tell", FLAG, FIELD(tell), 0, 0, NULL },
	{ "scale", OWN, 0, 0, 0, parse_scale },
	{ "seed", COUNT, FIELD(seed), 0, UINT64_MAX, NULL },
	{ "also", ALSO, 0, 0, 0, NULL },
	{ "order", OWN, 0, 0, 0, parse_order },
	{ "rank", INTEGER, FIELD(rank), 0, 9999, NULL },
	{ "timer", FLAG, FIELD(timer), 0, 0, NULL },
	{ "jobs", COUNT, FIELD(jobs), 1, TASK_MAX_JOBS, NULL },
	{ "until", COUNT, FIELD(until), 1, INT64_MAX, NULL },
	{ "start-at", COUNT, FIELD(start_at), 1, INT64_MAX, NULL },
	{ "start-fd", INTEGER, FIELD(start_fd), 0, 1 << 20, NULL },
	{ "ready-fd", INTEGER, FIELD(ready_fd), 0, 1 << 20, NULL },
	{ "report", TEXT, FIELD(report), 0, 0, NULL },
	{ "device", TEXT, FIELD(device), 0, 0, NULL },
	{ "parent", INTEGER, FIELD(parent), 1, 1 << 30, NULL },
	{ "exec", EXEC, 0, 0, 0, NULL },
	{ "help", HELP, 0, 0, 0, print_usage },
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
	case TIME:
		*(uint64_t *)field = whole_time(rule->name, text);
		break;
	case FLAG:
		*(bool *)field = true;
		break;
	case OWN:
	case HELP:
		rule->read(args, text);
		break;
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
	if (args->jobs == TASK_FOREVER && args->until == TASK_FOREVER && args->start_fd < 0)
		fail("--jobs or --until must say when to stop");
	if (strpbrk(args->name, " \t\n"))
		fail("--name: no blanks, please");
}

int task_parse(struct task_args *args, const struct task_args *before, int argc, char **argv)
{
	enum kind ended;

	*args = (struct task_args){
		.name = "task", .report = "-", .until = TASK_FOREVER, .jobs = TASK_FOREVER, .scale_low = 100,
		.scale_high = 100, .cpu = -1, .ready_fd = -1, .start_fd = -1,
	};
	if (before) {
		*args = *before;
		args->segments = 0;
		args->period = args->deadline = args->offset = 0;
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

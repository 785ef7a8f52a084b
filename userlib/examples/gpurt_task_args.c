// SPDX-License-Identifier: GPL-2.0 OR MIT
/* gpurt_task's command line. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
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

enum option_code {
	OPT_NAME = 256, OPT_SEGMENTS, OPT_PERIOD, OPT_DEADLINE, OPT_OFFSET, OPT_CPU, OPT_PRIORITY, OPT_GPU_PRIORITY,
	OPT_WAITING, OPT_NO_SEGMENTS, OPT_TELL, OPT_SCALE, OPT_SEED, OPT_ALSO, OPT_ORDER, OPT_RANK, OPT_TIMER, OPT_JOBS, OPT_UNTIL, OPT_START_AT, OPT_START_FD,
	OPT_READY_FD, OPT_REPORT, OPT_DEVICE, OPT_PARENT, OPT_EXEC, OPT_HELP,
};

static const struct option options[] = {
	{ "name", required_argument, NULL, OPT_NAME },
	{ "segments", required_argument, NULL, OPT_SEGMENTS },
	{ "period", required_argument, NULL, OPT_PERIOD },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "offset", required_argument, NULL, OPT_OFFSET },
	{ "cpu", required_argument, NULL, OPT_CPU },
	{ "priority", required_argument, NULL, OPT_PRIORITY },
	{ "gpu-priority", required_argument, NULL, OPT_GPU_PRIORITY },
	{ "waiting", required_argument, NULL, OPT_WAITING },
	{ "no-segments", no_argument, NULL, OPT_NO_SEGMENTS },
	{ "tell", no_argument, NULL, OPT_TELL },
	{ "scale", required_argument, NULL, OPT_SCALE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "also", no_argument, NULL, OPT_ALSO },
	{ "order", required_argument, NULL, OPT_ORDER },
	{ "rank", required_argument, NULL, OPT_RANK },
	{ "timer", no_argument, NULL, OPT_TIMER },
	{ "jobs", required_argument, NULL, OPT_JOBS },
	{ "until", required_argument, NULL, OPT_UNTIL },
	{ "start-at", required_argument, NULL, OPT_START_AT },
	{ "start-fd", required_argument, NULL, OPT_START_FD },
	{ "ready-fd", required_argument, NULL, OPT_READY_FD },
	{ "report", required_argument, NULL, OPT_REPORT },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "parent", required_argument, NULL, OPT_PARENT },
	{ "exec", no_argument, NULL, OPT_EXEC },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static enum task_order parse_order(const char *value)
{
	static const char *const orders[] = { "fifo", "priority", "ros2", "ros2-live-timers" };
	unsigned int i;

	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		if (!strcmp(value, orders[i]))
			return (enum task_order)i;
	fail("--order: expected fifo, priority, ros2 or ros2-live-timers, not \"%s\"", value);
}

/* Options of what a job does.  Returns false for any other option. */
static bool parse_job_option(struct task_args *args, int code, const char *value)
{
	switch (code) {
	case OPT_SEGMENTS:
		args->segments = 0;
		parse_segments(args, value);
		return true;
	case OPT_WAITING:
		args->busy = !strcmp(value, "busy");
		if (!args->busy && strcmp(value, "suspend"))
			fail("--waiting: expected busy or suspend, not \"%s\"", value);
		return true;
	case OPT_NO_SEGMENTS:
		args->managed = false;
		return true;
	case OPT_TELL:
		args->tell = true;
		return true;
	case OPT_ORDER:
		args->order = parse_order(value);
		return true;
	case OPT_RANK:
		args->rank = (unsigned int)number("rank", value, 0, 9999);
		return true;
	case OPT_TIMER:
		args->timer = true;
		return true;
	case OPT_SCALE:
		parse_scale(args, value);
		return true;
	case OPT_SEED:
		args->seed = number("seed", value, 0, UINT64_MAX);
		return true;
	case OPT_GPU_PRIORITY:
		args->gpu_priority = (int)number("gpu-priority", value, 0, 99);
		return true;
	default:
		return false;
	}
}

/* Options of when jobs are released.  Returns false for any other option. */
static bool parse_time_option(struct task_args *args, int code, const char *value)
{
	switch (code) {
	case OPT_PERIOD:
		args->period = whole_time("period", value);
		return true;
	case OPT_DEADLINE:
		args->deadline = whole_time("deadline", value);
		return true;
	case OPT_OFFSET:
		args->offset = whole_time("offset", value);
		return true;
	case OPT_JOBS:
		args->jobs = number("jobs", value, 1, TASK_MAX_JOBS);
		return true;
	case OPT_UNTIL:
		args->until = number("until", value, 1, INT64_MAX);
		return true;
	case OPT_START_AT:
		args->start_at = number("start-at", value, 1, INT64_MAX);
		return true;
	default:
		return false;
	}
}

/* All other options: where the task runs, and its host, report and parent. */
static void parse_option(struct task_args *args, int code, const char *value)
{
	switch (code) {
	case OPT_NAME:
		args->name = value;
		break;
	case OPT_CPU:
		args->cpu = (int)number("cpu", value, 0, 65535);
		break;
	case OPT_PRIORITY:
		args->priority = (int)number("priority", value, 0, TASK_MAX_PRIORITY);
		break;
	case OPT_START_FD:
		args->start_fd = (int)number("start-fd", value, 0, 1 << 20);
		break;
	case OPT_READY_FD:
		args->ready_fd = (int)number("ready-fd", value, 0, 1 << 20);
		break;
	case OPT_REPORT:
		args->report = value;
		break;
	case OPT_DEVICE:
		args->device = value;
		break;
	case OPT_PARENT:
		args->parent = (int)number("parent", value, 1, 1 << 30);
		break;
	case OPT_HELP:
		fputs(usage, stdout);
		exit(0);
	default:
		fail("see gpurt_task --help");
	}
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
	int code;

	*args = (struct task_args){
		.name = "task", .report = "-", .until = TASK_FOREVER, .jobs = TASK_FOREVER, .scale_low = 100,
		.scale_high = 100, .cpu = -1, .ready_fd = -1, .start_fd = -1, .managed = true,
	};
	if (before) {
		*args = *before;
		args->segments = 0;
		args->period = args->deadline = args->offset = 0;
		args->timer = false;
	}
	optind = 0;
	while ((code = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (code == OPT_EXEC || code == OPT_ALSO)
			break;
		if (!parse_job_option(args, code, optarg) && !parse_time_option(args, code, optarg))
			parse_option(args, code, optarg);
	}
	if (code == OPT_EXEC && optind == argc)
		fail("--exec: a command must follow");
	if (code == OPT_EXEC) {
		args->command = &argv[optind];
		return 0;
	}
	if (code != OPT_ALSO && optind != argc)
		fail("unexpected argument \"%s\"", argv[optind]);
	check(args);
	return code == OPT_ALSO ? optind - 1 : 0;
}

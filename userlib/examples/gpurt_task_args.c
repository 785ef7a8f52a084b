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

/* What an option's argument is, and what becomes of it. */
enum kind { TEXT, NUMBER, TIME, CHOICE, OF_ITS_OWN, SET, CLEAR, ALSO, EXEC, HELP };

#define AT(member) offsetof(struct task_args, member), sizeof(((struct task_args *)0)->member)
#define NONE 0, 0
#define INDENT "                       "

static const struct known {
	const char *name, *argument;
	enum kind kind;
	size_t at, size;		/* the member that it sets */
	uint64_t low, high;
	const char *help;
	const char *const *choices;	/* the member is the place in them */
	void (*parse)(struct task_args *args, const char *text);
} known[] = {
	{ "name", "NAME", TEXT, AT(name), .help = "of the task, for the report" },
	{ "segments", "LIST", OF_ITS_OWN, NONE, .parse = parse_segments,
	  .help = "cpu:TIME or gpu:TIME+TIME (G^m, then G^e), separated by commas; TIME is like 1.5ms,\n"
		  INDENT "or BEST..WORST like 1ms..2ms; units ns, us, ms, s" },
	{ "period", "TIME", TIME, AT(period), .help = "between releases" },
	{ "deadline", "TIME", TIME, AT(deadline), .help = "after each release; the period unless given" },
	{ "offset", "TIME", TIME, AT(offset), .help = "of the first release after the start" },
	{ "cpu", "N", NUMBER, AT(cpu), 0, 65535, .help = "the CPU to stay on" },
	{ "priority", "P", NUMBER, AT(priority), 0, TASK_MAX_PRIORITY, .help = "SCHED_FIFO priority 1..98, 0 for best effort" },
	{ "gpu-priority", "P", NUMBER, AT(gpu_priority), 0, 99, .help = "of the GPU segments, where it differs" },
	{ "waiting", "MODE", CHOICE, AT(busy), .choices = (const char *const[]){ "suspend", "busy", NULL },
	  .help = "suspend or busy, while the GPU works" },
	{ "no-segments", NULL, CLEAR, AT(managed), .help = "do not tell gpurt's host where GPU segments begin and end" },
	{ "tell", NULL, SET, AT(tell), .help = "tell the readers of the host's events when each job begins and ends" },
	{ "scale", "LOW..HIGH", OF_ITS_OWN, NONE, .parse = parse_scale,
	  .help = "each time is drawn between LOW and HIGH percent of the way from best to worst;\n" INDENT "100..100 unless given" },
	{ "seed", "N", NUMBER, AT(seed), 0, UINT64_MAX, .help = "of these draws" },
	{ "also", NULL, ALSO, NONE, .help = "the options of another task follow, whose jobs the same thread executes" },
	{ "order", "ORDER", CHOICE, AT(order), .help = "of their jobs: fifo, priority, ros2 or ros2-live-timers",
	  .choices = (const char *const[]){ "fifo", "priority", "ros2", "ros2-live-timers", NULL } },
	{ "rank", "N", NUMBER, AT(rank), 0, 9999, .help = "of the task in that order, 0 first" },
	{ "timer", NULL, SET, AT(timer), .help = "its jobs are a timer's, which skips releases when it is late" },
	{ "jobs", "N", NUMBER, AT(jobs), 1, TASK_MAX_JOBS, .help = "how many to execute" },
	{ "until", "NS", NUMBER, AT(until), 1, INT64_MAX, .help = "release no job at or after this CLOCK_MONOTONIC time" },
	{ "start-at", "NS", NUMBER, AT(start_at), 1, INT64_MAX, .help = "CLOCK_MONOTONIC time from which releases count" },
	{ "start-fd", "FD", NUMBER, AT(start_fd), 0, 1 << 20,
	  .help = "read the two times `START UNTIL' from there instead, when ready" },
	{ "ready-fd", "FD", NUMBER, AT(ready_fd), 0, 1 << 20, .help = "write `ready' there when ready" },
	{ "report", "FILE", TEXT, AT(report), .help = "where the report goes at the end; - is standard output" },
	{ "device", "PATH", TEXT, AT(device), .help = "of gpurt's host" },
	{ "parent", "PID", NUMBER, AT(parent), 1, 1 << 30, .help = "end when this process, which started us, does" },
	{ "exec", NULL, EXEC, NONE, .help = NULL }, { "help", NULL, HELP, NONE, .help = NULL },
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

static void __attribute__((noreturn)) help(void)
{
	size_t i;

	puts("Usage: gpurt_task [OPTION...]\n"
	     "       gpurt_task [--cpu N] [--priority P] --exec COMMAND [ARGUMENT...]\n"
	     "Executes one periodic task with GPU segments on gpurt's virtual GPU, and reports when its jobs finished.\n");
	for (i = 0; i < KNOWN && known[i].help; i++)
		printf("  --%s %-*s%s\n", known[i].name, (int)(18 - strlen(known[i].name)),
		       known[i].argument ? known[i].argument : "", known[i].help);
	puts("\nExit status: 0 done, 2 usage, 4 no host, 6 failed while running.");
	exit(0);
}

/* Puts a number into a member of this size. */
static void put(struct task_args *args, const struct known *option, uint64_t value)
{
	void *member = (char *)args + option->at;

	if (option->size == sizeof(uint64_t))
		*(uint64_t *)member = value;
	else if (option->size == sizeof(int))
		*(int *)member = (int)value;
	else
		*(bool *)member = value;
}

static uint64_t choice(const struct known *option, const char *text)
{
	char all[80] = "";
	uint64_t i;

	for (i = 0; option->choices[i]; i++) {
		if (!strcmp(text, option->choices[i]))
			return i;
		strcat(strcat(all, i ? ", " : ""), option->choices[i]);
	}
	fail("--%s: expected one of %s, not \"%s\"", option->name, all, text);
}

static void parse(struct task_args *args, const struct known *option, const char *value)
{
	switch (option->kind) {
	case TEXT:
		*(const char **)((char *)args + option->at) = value;
		break;
	case NUMBER:
		put(args, option, number(option->name, value, option->low, option->high));
		break;
	case TIME:
		put(args, option, whole_time(option->name, value));
		break;
	case CHOICE:
		put(args, option, choice(option, value));
		break;
	case OF_ITS_OWN:
		option->parse(args, value);
		break;
	case SET:
	case CLEAR:
		put(args, option, option->kind == SET);
		break;
	default:
		help();
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
	struct option options[KNOWN + 1] = { { 0 } };
	enum kind kind = HELP;
	size_t i;
	int at;

	for (i = 0; i < KNOWN; i++)
		options[i] = (struct option){ known[i].name, known[i].argument != NULL, NULL, 'o' };
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
	while (kind != EXEC && kind != ALSO) {
		int code = getopt_long(argc, argv, "+", options, &at);

		if (code == -1)
			break;
		if (code != 'o')
			fail("see gpurt_task --help");
		kind = known[at].kind;
		if (kind != EXEC && kind != ALSO)
			parse(args, &known[at], optarg);
	}
	if (kind == EXEC && optind == argc)
		fail("--exec: a command must follow");
	if (kind == EXEC) {
		args->command = &argv[optind];
		return 0;
	}
	if (kind != ALSO && optind != argc)
		fail("unexpected argument \"%s\"", argv[optind]);
	check(args);
	return kind == ALSO ? optind - 1 : 0;
}

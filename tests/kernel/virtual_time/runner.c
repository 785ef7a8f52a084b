// SPDX-License-Identifier: GPL-2.0
/*
 * runner FILE: executes a taskset against the real module, one process a task, where time is virtual, and prints
 * one line a job: the task's name, the job's number, its release and its completion, in ns since the first instant.
 *
 * The file says, a line each (times in ns; empty lines and those that begin with # are skipped):
 *
 *	calls none|segment|wait		what programs call: nothing, begin and end, or begin and wait and end
 *	hook COMMAND			is run by a shell HOOK_AHEAD before the first instant; must take no time
 *	task NAME PRIORITY GPU_PRIORITY OFFSET PERIOD JOBS busy|suspend
 *	cpu TIME			the task's next segment, of the CPU
 *	gpu MISC PURE			of the GPU
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gpurt.h>

#include "burn/burn.h"

#define TASKS 16
#define SEGMENTS 16
#define JOBS 256
#define START_AHEAD 100000000ULL
#define HOOK_AHEAD 50000000ULL
#define INSTANT_GRID 10000000ULL

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
	char name[32];
	unsigned int priority, gpu_priority, jobs, segments;
	uint64_t offset, period;
	int busy;
	struct segment segment[SEGMENTS];
};

/* What the processes share. */
struct shared {
	volatile uint64_t base;
	uint64_t completion[TASKS][JOBS];
};

static struct task tasks[TASKS];
static unsigned int count;
static char calls[16] = "segment", hook[512];
static struct shared *shared;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t when)
{
	struct timespec ts = { .tv_sec = (time_t)(when / 1000000000), .tv_nsec = (long)(when % 1000000000) };

	MUST(!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL));
}

/* Reading the description. */

static void parse_task(const char *line)
{
	struct task *t = &tasks[count++];
	char waiting[16];

	MUST(count <= TASKS);
	MUST(sscanf(line, "task %31s %u %u %lu %lu %u %15s", t->name, &t->priority, &t->gpu_priority, &t->offset,
		    &t->period, &t->jobs, waiting) == 7);
	MUST(t->jobs <= JOBS);
	t->busy = !strcmp(waiting, "busy");
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
		else if (!strncmp(line, "hook ", 5))
			strcpy(hook, line + 5);
		else
			parse_segment(line);
	}
}

/* A task. */

struct job_state {
	const struct task *task;
	int gpu, burn;
	uint32_t tsg;
};

static void execute(const struct job_state *s, uint64_t ns)
{
	if (ns)
		MUST(!ioctl(s->burn, BURN_RUN, &ns));
}

static void begin(const struct job_state *s)
{
	struct gpurt_begin b = { .size = sizeof(b), .priority = s->task->gpu_priority };

	if (!strcmp(calls, "none"))
		return;
	b.flags = !strcmp(calls, "wait") ? GPURT_BEGIN_WAIT : 0;
	MUST(!ioctl(s->gpu, GPURT_IOC_BEGIN, &b));
}

static void end(const struct job_state *s)
{
	struct gpurt_end e = { .size = sizeof(e) };

	if (strcmp(calls, "none"))
		MUST(!ioctl(s->gpu, GPURT_IOC_END, &e));
}

static void use_gpu(const struct job_state *s, uint64_t ns)
{
	struct gpurt_submit submit = { .size = sizeof(submit), .tsg = s->tsg, .duration_ns = ns };
	struct gpurt_wait wait = { .size = sizeof(wait), .what = GPURT_WAIT_WORK, .tsg = s->tsg,
				   .timeout_ns = GPURT_FOREVER };
	__u64 gpu = (__u64)s->gpu;

	MUST(!ioctl(s->gpu, GPURT_IOC_SUBMIT, &submit));
	if (s->task->busy)
		MUST(!ioctl(s->burn, BURN_SPIN, &gpu));
	wait.work = submit.work;
	MUST(!ioctl(s->gpu, GPURT_IOC_WAIT, &wait));
}

static void run_job(const struct job_state *s)
{
	unsigned int i;

	for (i = 0; i < s->task->segments; i++) {
		const struct segment *segment = &s->task->segment[i];

		if (segment->gpu)
			begin(s);
		execute(s, segment->cpu);
		if (segment->gpu) {
			use_gpu(s, segment->pure);
			end(s);
		}
	}
}

static void prepare(struct job_state *s)
{
	struct sched_param param = { .sched_priority = (int)s->task->priority };
	struct gpurt_tsg tsg = { .size = sizeof(tsg) };
	unsigned int i;

	s->gpu = open("/dev/gpurt", O_RDWR);
	s->burn = open("/dev/burn", O_RDWR);
	MUST(s->gpu >= 0 && s->burn >= 0);
	for (i = 0; i < s->task->segments && !s->task->segment[i].gpu; i++)
		;
	if (i < s->task->segments) {
		MUST(!ioctl(s->gpu, GPURT_IOC_TSG_OPEN, &tsg));
		s->tsg = tsg.tsg;
	}
	/* A best-effort task's timers go off up to so much later; see below. */
	MUST(!prctl(PR_SET_TIMERSLACK, 1));
	if (s->task->priority)
		MUST(!sched_setscheduler(0, SCHED_FIFO, &param));
}

static void be_task(unsigned int index, int ready, int go)
{
	struct job_state s = { .task = &tasks[index] };
	uint64_t release;
	unsigned int job;
	char byte;

	prepare(&s);
	MUST(write(ready, "", 1) == 1);
	MUST(read(go, &byte, 1) == 0);
	for (job = 0; job < s.task->jobs; job++) {
		release = shared->base + s.task->offset + job * s.task->period;
		sleep_until(s.task->priority ? release : release - 1);
		run_job(&s);
		shared->completion[index][job] = now() - shared->base;
	}
	exit(0);
}

/* All of them. */

/* In order, for the TSGs' order is the rotation's. */
static void start_tasks(int go[2])
{
	int ready[2];
	unsigned int i;
	char byte;

	MUST(!pipe(ready) && !pipe(go));
	for (i = 0; i < count; i++) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (!pid) {
			close(go[1]);
			be_task(i, ready[1], go[0]);
		}
		MUST(read(ready[0], &byte, 1) == 1);
	}
}

static void run_hook(void)
{
	uint64_t when = shared->base - HOOK_AHEAD;
	struct sched_param param = { .sched_priority = 98 };

	if (!*hook)
		return;
	MUST(!sched_setscheduler(0, SCHED_FIFO, &param));
	sleep_until(when);
	MUST(!system(hook));
	if (now() != when) {
		fprintf(stderr, "runner: the hook took %lu ns\n", now() - when);
		exit(1);
	}
}

static void print_jobs(void)
{
	unsigned int i, job;

	for (i = 0; i < count; i++)
		for (job = 0; job < tasks[i].jobs; job++)
			printf("%s %u %lu %lu\n", tasks[i].name, job, tasks[i].offset + job * tasks[i].period,
			       shared->completion[i][job]);
}

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	int go[2], status;
	unsigned int i;

	MUST(file);
	parse(file);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED);
	start_tasks(go);
	shared->base = (now() + START_AHEAD) / INSTANT_GRID * INSTANT_GRID;
	close(go[1]);
	run_hook();
	for (i = 0; i < count; i++)
		MUST(wait(&status) > 0 && !status);
	printf("base %lu\n", shared->base);
	print_jobs();
	return 0;
}

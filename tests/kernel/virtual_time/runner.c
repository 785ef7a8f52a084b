// SPDX-License-Identifier: GPL-2.0
/*
 * runner FILE: executes a taskset against the real module, one process a task, where time is virtual.  The runner
 * prints one line a job: the task's name, the job's number, its release and its completion, in ns since the first
 * instant.
 *
 * The file says, a line each (times in ns; empty lines and those that begin with # are skipped):
 *
 *	calls none|segment|wait		what programs call: nothing, begin and end, or begin and wait and end
 *	job poll|notify PERIOD		policy `job` is set POLICY_AHEAD before the first instant
 *	task NAME PRIORITY GPU_PRIORITY OFFSET PERIOD JOBS busy|suspend self|owner|fence
 *	budget TIME report|demote	of the task; what happens when a segment takes longer
 *	cpu TIME			the task's next segment, of the CPU
 *	gpu MISC PURE			of the GPU
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "../debug/genl.h"
#include "burn/burn.h"
#include "description.h"

#define START_AHEAD 100000000ULL
#define POLICY_AHEAD 50000000ULL
#define INSTANT_GRID 10000000ULL

/* The memory that the processes share. */
struct shared {
	uint64_t base;
	uint64_t completion[TASKS][JOBS];
};

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

static int has_form(const struct job_state *s, const char *form)
{
	return !strcmp(s->task->form, form);
}

static void begin(const struct job_state *s)
{
	struct gpurt_begin b = { .size = sizeof(b), .priority = s->task->gpu_priority };

	if (!strcmp(calls, "none"))
		return;
	b.flags = !strcmp(calls, "wait") ? GPURT_BEGIN_WAIT : 0;
	b.flags |= has_form(s, "owner") ? GPURT_BEGIN_OWNER : has_form(s, "fence") ? GPURT_BEGIN_FENCE : 0;
	MUST(!ioctl(s->gpu, GPURT_IOC_BEGIN, &b));
}

static void end(const struct job_state *s)
{
	struct gpurt_end e = { .size = sizeof(e) };

	if (strcmp(calls, "none"))
		MUST(!ioctl(s->gpu, GPURT_IOC_END, &e));
}

/* A job of form fence says that it begins to spin for that work.  Returns whether there is nothing to spin for. */
static int is_over(const struct job_state *s, const struct gpurt_wait *wait)
{
	struct gpurt_wait look = *wait;

	look.timeout_ns = 0;
	if (!has_form(s, "fence"))
		return 0;
	if (!ioctl(s->gpu, GPURT_IOC_WAIT, &look))
		return 1;
	MUST(errno == ETIMEDOUT);
	return 0;
}

static void use_gpu(const struct job_state *s, uint64_t ns)
{
	struct gpurt_submit submit = { .size = sizeof(submit), .tsg = s->tsg, .duration_ns = ns };
	struct gpurt_wait wait = { .size = sizeof(wait), .what = GPURT_WAIT_WORK, .tsg = s->tsg,
				   .timeout_ns = GPURT_FOREVER };
	__u64 gpu = (__u64)s->gpu;

	MUST(!ioctl(s->gpu, GPURT_IOC_SUBMIT, &submit));
	wait.work = submit.work;
	if (s->task->busy && is_over(s, &wait))
		return;
	if (s->task->busy)
		MUST(!ioctl(s->burn, BURN_SPIN, &gpu));
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

/* Tells of its readiness and of its end, and stays: with a process its client would go, which no model knows. */
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
	MUST(write(ready, "", 1) == 1);
	pause();
}

/* All of them. */

/* Until one of the tasks says so; one that fails ends them all. */
static void await(int ready)
{
	char byte;

	MUST(read(ready, &byte, 1) == 1);
}

static void on_failure(int signal)
{
	(void)signal;
	_exit(1);
}

/* In order, for the TSGs' order is the rotation's. */
static void start_tasks(int ready[2], int go[2])
{
	unsigned int i;
	for (i = 0; i < count; i++) {
		tasks[i].pid = fork();
		MUST(tasks[i].pid >= 0);
		if (!tasks[i].pid) {
			close(go[1]);
			be_task(i, ready[1], go[0]);
		}
		await(ready[0]);
	}
}

/* The control plane. */

static void set_budget(int control, uint16_t family, const struct task *t)
{
	struct genl m;

	genl_start(&m, family, GPURT_CMD_SET_BUDGET, 0);
	genl_add_u32(&m, GPURT_A_PID, (uint32_t)t->pid);
	genl_add_u64(&m, GPURT_A_BUDGET_NS, t->budget);
	genl_add_u64(&m, GPURT_A_PERIOD_NS, t->period);
	genl_add_u32(&m, GPURT_A_OVERRUN, t->demote ? GPURT_OVERRUN_DEMOTE : GPURT_OVERRUN_REPORT);
	MUST(!genl_call(control, &m));
}

static void set_policy_job(int control, uint16_t family)
{
	struct genl m;

	genl_start(&m, family, GPURT_CMD_SET_POLICY, 0);
	genl_add_u32(&m, GPURT_A_POLICY, GPURT_POLICY_JOB);
	genl_add_u32(&m, GPURT_A_NOTICE, !strcmp(notice, "poll") ? GPURT_NOTICE_POLL : GPURT_NOTICE_NOTIFY);
	genl_add_u64(&m, GPURT_A_POLL_NS, poll_ns);
	MUST(!genl_call(control, &m));
}

/* The policy is set at the instant from which the polling periods count. */
static void administrate(void)
{
	int control = genl_open(), family = genl_family(control, NULL);
	struct sched_param param = { .sched_priority = 98 };
	uint64_t when = shared->base - POLICY_AHEAD;
	unsigned int i;

	MUST(family > 0 && !sched_setscheduler(0, SCHED_FIFO, &param));
	sleep_until(when);
	for (i = 0; i < count; i++)
		if (tasks[i].budget)
			set_budget(control, (uint16_t)family, &tasks[i]);
	if (!*notice)
		return;
	set_policy_job(control, (uint16_t)family);
	MUST(now() == when);
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
	int ready[2], go[2];
	unsigned int i;

	MUST(file);
	parse(file);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED);
	MUST(!pipe(ready) && !pipe(go));
	signal(SIGCHLD, on_failure);
	start_tasks(ready, go);
	shared->base = (now() + START_AHEAD) / INSTANT_GRID * INSTANT_GRID;
	close(go[1]);
	administrate();
	for (i = 0; i < count; i++)
		await(ready[0]);
	signal(SIGCHLD, SIG_DFL);
	for (i = 0; i < count; i++)
		kill(tasks[i].pid, SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("base %lu\n", shared->base);
	print_jobs();
	return 0;
}

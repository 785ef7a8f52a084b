// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * gpurt_task: one periodic task with CPU and GPU segments, as a real process.  CPU segments use up thread CPU
 * time.  GPU segments are work on the virtual GPU.  Nothing is printed while jobs run (gpurt_task_report.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <gpurt.h>

#include "gpurt_task.h"

static struct task_args args;
static struct gpurt_handle *host;
static uint32_t tsg;
static unsigned int begin_flags;
static bool fifo;
static volatile sig_atomic_t stop;

static uint64_t done_jobs;
static uint64_t random_state;

/* In waiting mode busy, this thread sleeps until the GPU is done while the task itself spins. */
static struct {
	pthread_t thread;
	sem_t asked;
	uint64_t work;
	uint64_t completed;
	int result;
	atomic_bool done;
} watcher;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static int sleep_until(uint64_t when)
{
	struct timespec at = { .tv_sec = (time_t)(when / 1000000000), .tv_nsec = (long)(when % 1000000000) };

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Draws the execution time of a piece for this job. */
static uint64_t length(const struct task_span *span)
{
	uint64_t permille = args.scale_low * 10, choices = (args.scale_high - args.scale_low) * 10 + 1;

	if (choices > 1)
		permille += draw() % choices;
	return span->best + (span->worst - span->best) / 1000 * permille +
	       (span->worst - span->best) % 1000 * permille / 1000;
}

/* Executes for @duration of this thread's CPU time. */
static void burn(uint64_t duration)
{
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + duration;

	while (!stop && clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 100; i++)
			;
}

static void *watch(void *unused)
{
	(void)unused;
	for (;;) {
		while (sem_wait(&watcher.asked))
			;
		watcher.result = gpurt_work_wait(host, tsg, watcher.work, GPURT_FOREVER, &watcher.completed);
		atomic_store(&watcher.done, true);
	}
	return NULL;
}

/* Waits for @work in the task's waiting mode. */
static int await(uint64_t work, uint64_t *completed)
{
	int result;

	if (!args.busy) {
		do
			result = gpurt_work_wait(host, tsg, work, GPURT_FOREVER, completed);
		while (result == -EINTR && !stop);
		return result;
	}
	atomic_store(&watcher.done, false);
	watcher.work = work;
	sem_post(&watcher.asked);
	while (!stop && !atomic_load(&watcher.done))
		if (!fifo)
			sched_yield();	/* without SCHED_FIFO the watcher has no higher priority */
	if (!atomic_load(&watcher.done))
		return -EINTR;
	*completed = watcher.completed;
	return watcher.result;
}

static int run_pure(uint64_t duration, uint64_t *stamp)
{
	uint64_t work;
	int result;

	stamp[0] = now_ns();
	stamp[1] = stamp[0];
	if (!duration)
		return 0;
	result = gpurt_submit_work(host, tsg, GPURT_ENGINE_EXEC, 0, duration, &work);
	if (result)
		return report_error("cannot submit GPU work", result);
	result = await(work, &stamp[1]);
	return result && !stop ? report_error("cannot wait for GPU work", result) : result;
}

static int run_gpu_segment(const struct task_segment *segment, uint64_t *stamp)
{
	int result = 0;

	stamp[0] = now_ns();
	if (args.managed)
		result = gpurt_segment_begin(host, begin_flags, (unsigned int)args.gpu_priority);
	if (result && stop)
		return result;
	if (result)
		return report_error("cannot begin a GPU segment", result);
	stamp[1] = now_ns();
	burn(length(&segment->cpu));
	result = run_pure(length(&segment->pure), &stamp[2]);
	if (result)
		return result;
	stamp[4] = now_ns();
	if (args.managed)
		result = gpurt_segment_end(host, 0);
	stamp[5] = now_ns();
	return result ? report_error("cannot end a GPU segment", result) : 0;
}

static int run_job(uint64_t release, uint64_t *stamp)
{
	uint64_t *next = stamp + JOB_STAMPS;
	unsigned int i;
	int result;

	stamp[0] = release;
	stamp[1] = now_ns();
	for (i = 0; i < args.segments && !stop; i++) {
		if (args.segment[i].gpu) {
			result = run_gpu_segment(&args.segment[i], next);
			if (result)
				return result;
			next += GPU_STAMPS;
			continue;
		}
		next[0] = now_ns();
		burn(length(&args.segment[i].cpu));
		next[1] = now_ns();
		next += CPU_STAMPS;
	}
	stamp[2] = now_ns();
	return stop ? -EINTR : 0;
}

/* A job that `stop` cuts short is not said to have ended. */
static int tell_job(uint64_t release, uint64_t *stamp)
{
	int result = args.tell ? gpurt_job_begin(host, args.name, done_jobs, release) : 0;

	if (result)
		return report_error("cannot tell of a job", result);
	result = run_job(release, stamp);
	if (!result && args.tell)
		result = gpurt_job_end(host);
	return result;
}

/* A job is not started at or after the end of the run, nor if the run ended more than a deadline ago. */
static bool too_late(uint64_t release)
{
	if (release >= args.until)
		return true;
	return args.until != TASK_FOREVER && now_ns() > args.until + args.deadline;
}

static void run_jobs(void)
{
	uint64_t release = args.start_at + args.offset;

	while (!stop && done_jobs < report_capacity() && !too_late(release)) {
		while (!stop && now_ns() < release)
			sleep_until(release);
		if (stop || tell_job(release, report_job(done_jobs)))
			return;
		done_jobs++;
		release += args.period;
	}
}

static void enter_class(void)
{
	struct sched_param param = { .sched_priority = args.priority };
	size_t count = (size_t)(args.cpu + 1);
	size_t size = CPU_ALLOC_SIZE(count);
	cpu_set_t *cpus = CPU_ALLOC(count);

	if (cpus && args.cpu >= 0) {
		CPU_ZERO_S(size, cpus);
		CPU_SET_S((size_t)args.cpu, size, cpus);
		if (sched_setaffinity(0, size, cpus)) {
			report_note("not pinned to its CPU", errno);
			args.cpu = -1;
		}
	}
	CPU_FREE(cpus);
	fifo = args.priority && !sched_setscheduler(0, SCHED_FIFO, &param);
	if (args.priority && !fifo)
		report_note("not at SCHED_FIFO", errno);
}

static void follow_parent(void)
{
	if (!args.parent)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != args.parent)
		_exit(6);
}

/* The watcher must run while the task spins, also where policy `boosted` has raised the task: above every raised thread. */
static int lift_watcher(bool boosted)
{
	struct sched_param param = { .sched_priority = boosted ? 99 : args.priority + 1 };
	struct rlimit limit;
	int result = pthread_setschedparam(watcher.thread, SCHED_FIFO, &param);

	if (result != EPERM || getrlimit(RLIMIT_RTPRIO, &limit) || limit.rlim_cur <= (rlim_t)args.priority)
		return -result;
	param.sched_priority = (int)limit.rlim_cur;
	return -pthread_setschedparam(watcher.thread, SCHED_FIFO, &param);
}

static int start_watcher(bool boosted)
{
	sigset_t all, old;
	int result;

	sem_init(&watcher.asked, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	result = pthread_create(&watcher.thread, NULL, watch, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return !result && fifo ? lift_watcher(boosted) : -result;
}

static bool uses_gpu(void)
{
	unsigned int i;

	for (i = 0; i < args.segments; i++)
		if (args.segment[i].gpu)
			return true;
	return false;
}

static int open_host(void)
{
	struct gpurt_query query = { .size = sizeof(query) };
	const char *form = getenv("GPURT_FORM");
	int result = gpurt_open(&host, args.device);

	if (!result)
		result = gpurt_query_host(host, &query);
	if (!result && uses_gpu())
		result = gpurt_tsg_open(host, &tsg);
	if (!result && args.busy && uses_gpu())
		result = start_watcher(query.policy == GPURT_POLICY_BOOSTED);
	if (query.policy == GPURT_POLICY_LOCK_PRIORITY || query.policy == GPURT_POLICY_LOCK_FIFO)
		begin_flags = GPURT_BEGIN_WAIT;		/* a lock is taken before the segment begins */
	/* By itself an owner spins while it waits, and the bounds for tasks that suspend themselves want it to sleep. */
	if (query.policy == GPURT_POLICY_BOOSTED && !args.busy && form && !strcmp(form, "owner"))
		begin_flags = GPURT_BEGIN_WAIT;
	return result;
}

/* Reports that the task is ready and reads when to start. */
static int rendezvous(void)
{
	char text[64] = "";
	unsigned long long start, until;
	ssize_t got;

	if (args.ready_fd >= 0 && write(args.ready_fd, "ready\n", 6) != 6)
		return -errno;
	if (args.start_fd >= 0) {
		got = read(args.start_fd, text, sizeof(text) - 1);
		if (got <= 0 || sscanf(text, "%llu %llu", &start, &until) != 2)
			return -ECANCELED;
		args.start_at = start;
		args.until = until;
	}
	if (!args.start_at)
		args.start_at = now_ns() + 10000000;
	return 0;
}

static void set_up_process(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	prctl(PR_SET_NAME, args.name);
	prctl(PR_SET_TIMERSLACK, 1);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		report_note("memory not locked", errno);
}

/* --exec: becomes a program of the user's, with CPU and priority set. */
static int execute(void)
{
	enter_class();
	report_notes(stderr, "gpurt_task:");
	execvp(args.command[0], args.command);
	fprintf(stderr, "gpurt_task: cannot execute %s: %s\n", args.command[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv)
{
	int result;

	task_parse(&args, argc, argv);
	follow_parent();
	if (args.command)
		return execute();
	random_state = args.seed;
	set_up_process();
	enter_class();
	result = uses_gpu() || args.tell ? open_host() : 0;
	if (result) {
		fprintf(stderr, "gpurt_task: %s: no use of gpurt's host: %s; is `gpurt emulate' running?\n", args.name,
			strerror(-result));
		return 4;
	}
	result = rendezvous();
	if (!result)
		result = report_prepare(&args);
	if (!result) {
		run_jobs();
		result = report_write(&args, fifo, done_jobs);
	}
	if (result && !(stop && result == -ECANCELED))
		fprintf(stderr, "gpurt_task: %s: %s\n", args.name, strerror(-result));
	if (report_failed())
		fprintf(stderr, "gpurt_task: %s: %s\n", args.name, report_failed());
	return result || report_failed() ? 6 : 0;
}

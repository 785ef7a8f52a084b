// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * gpurt_task: a real process with one periodic task of CPU and GPU segments; or with several tasks, and one thread
 * executes their jobs one at a time.  CPU segments use up thread CPU time.  GPU segments are work on the virtual GPU.
 * It prints nothing while jobs run (gpurt_task_report.c).
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

/* The thread's state of each task: how many jobs are done, and when the next one is released. */
static struct served {
	struct task_args args;
	uint64_t done;
	uint64_t release;
	uint64_t rest;			/* CPU time of its last job after that job's last burn() */
	bool polled;			/* its job is in the set of jobs that the thread executes (TASK_ROS2) */
} all[TASK_MAX_SERVED], *task = all;	/* `task` is the one whose job executes */
static unsigned int tasks;

#define for_each_task(t) for (t = all; t < all + tasks; t++)

static struct gpurt_handle *host;
static uint32_t tsg;
static unsigned int begin_flags;
static bool fifo;
static volatile sig_atomic_t stop;

/* In waiting mode busy, the task itself spins, and this thread sleeps until the GPU is done. */
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

/*
 * @burnt: this thread's CPU time at which the job's burns and calls so far must be over; the time after the last burn
 * is taken from the previous job.  @last: this thread's CPU time at the end of the last burn.
 */
static uint64_t burnt, last;

/* Executes until this thread's CPU time has grown by @duration, previous calls included. */
static void burn(uint64_t duration)
{
	burnt += duration;
	while (!stop && (last = clock_ns(CLOCK_THREAD_CPUTIME_ID)) < burnt)
		for (volatile int i = 0; i < 100; i++)
			;
}

static void *watch(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "gpurt-watcher");
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
	uint64_t spun;
	int result;

	if (!task->args.busy) {
		do
			result = gpurt_work_wait(host, tsg, work, GPURT_FOREVER, completed);
		while (result == -EINTR && !stop);
		return result;
	}
	spun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	atomic_store(&watcher.done, false);
	watcher.work = work;
	sem_post(&watcher.asked);
	while (!stop && !atomic_load(&watcher.done))
		if (!fifo)
			sched_yield();	/* without SCHED_FIFO the watcher has no higher priority */
	spun = clock_ns(CLOCK_THREAD_CPUTIME_ID) - spun;
	burnt += spun;
	last += spun;
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

	if (!task->args.unmanaged)
		result = gpurt_segment_begin(host, begin_flags, (unsigned int)task->args.gpu_priority);
	if (result && stop)
		return result;
	if (result)
		return report_error("cannot begin a GPU segment", result);
	burn(segment->cpu);
	result = run_pure(segment->pure, stamp);
	if (result)
		return result;
	if (!task->args.unmanaged)
		result = gpurt_segment_end(host, 0);
	return result ? report_error("cannot end a GPU segment", result) : 0;
}

static int run_job(uint64_t *stamp)
{
	uint64_t *next = stamp + JOB_STAMPS;
	const struct task_segment *segment = task->args.segment;
	int result;

	for (; segment < task->args.segment + task->args.segments && !stop; segment++) {
		if (!segment->gpu) {
			burn(segment->cpu);
			continue;
		}
		result = run_gpu_segment(segment, next);
		if (result)
			return result;
		next += GPU_STAMPS;
	}
	stamp[2] = now_ns();
	return stop ? -EINTR : 0;
}

/* The number of a release of its task, from 0 on. */
static uint64_t job_number(uint64_t release)
{
	return (release - task->args.start_at) / task->args.period;
}

/* If `stop` cuts a job short, its end is not announced.  The announcing calls count as the job's CPU time. */
static int tell_job(uint64_t release, uint64_t *stamp)
{
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), over;
	int result;

	burnt = before - task->rest;
	last = before;
	stamp[0] = release;
	stamp[1] = now_ns();
	result = task->args.tell ? gpurt_job_begin(host, task->args.name, job_number(release), release) : 0;
	if (result)
		return report_error("cannot tell of a job", result);
	result = run_job(stamp);
	if (!result && task->args.tell)
		result = gpurt_job_end(host);
	over = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	stamp[3] = over - before;
	task->rest = over - last;
	return result;
}

/* Whether the release is at or after the end of the run, or the run ended more than a deadline ago. */
static bool too_late(uint64_t release)
{
	if (release >= task->args.until)
		return true;
	return task->args.until != TASK_FOREVER && now_ns() > task->args.until + task->args.deadline;
}

static void use(struct served *t)
{
	task = t;
	report_use((unsigned int)(t - all));
}

/* Whether the thread takes the task's jobs from a set, which it fills when the set is empty.  Other tasks go first. */
static bool has_set(const struct served *t)
{
	return t->args.order == TASK_ROS2 || (t->args.order == TASK_LIVE_TIMERS && !t->args.timer);
}

/* Whether @t's job goes before @best's.  @best: may be NULL. */
static bool goes_before(const struct served *t, const struct served *best)
{
	if (!best)
		return true;
	return t->args.order == TASK_FIFO ? t->release < best->release : t->args.rank < best->args.rank;
}

/* The first task, of those in the set or of those without a set, that has a job released by @now; or NULL. */
static struct served *first(uint64_t now, bool set)
{
	struct served *best = NULL, *t;

	for_each_task(t)
		if (has_set(t) == set && t->release <= now && (!set || t->polled) && goes_before(t, best))
			best = t;
	return best;
}

/* The task whose job the thread executes now; NULL: no job is released. */
static struct served *next_task(uint64_t now)
{
	struct served *t = first(now, false);

	if (!t)
		t = first(now, true);
	if (t)
		return t;
	for_each_task(t)
		t->polled = has_set(t) && t->release <= now;
	return first(now, true);
}

/* When the next job is released; UINT64_MAX: no job is to come. */
static uint64_t next_release(void)
{
	uint64_t next = UINT64_MAX;
	struct served *t;

	for_each_task(t)
		next = t->release < next ? t->release : next;
	return next;
}

/* Whether the task has no more jobs. */
static bool over(const struct served *t)
{
	return t->done >= report_capacity() || too_late(t->release);
}

/* The task's next release.  A timer skips releases that are before its job @began. */
static uint64_t following(const struct served *t, uint64_t began)
{
	uint64_t next = t->release + t->args.period;

	if (tasks > 1 && t->args.timer && next < began)
		next += (began - next + t->args.period - 1) / t->args.period * t->args.period;
	return next;
}

/* Executes the task's next job.  Returns false after an error. */
static bool serve(struct served *t)
{
	uint64_t began = now_ns();

	use(t);
	t->polled = false;
	if (over(t)) {
		t->release = UINT64_MAX;
		return true;
	}
	if (tell_job(t->release, report_job(t->done)))
		return false;
	t->done++;
	t->release = following(t, began);
	if (over(t))
		t->release = UINT64_MAX;
	return true;
}

static void run_jobs(void)
{
	struct served *t;
	uint64_t at;

	for_each_task(t)
		t->release = t->args.start_at;
	while (!stop && (at = next_release()) != UINT64_MAX) {
		t = next_task(now_ns());
		if (!t)
			sleep_until(at);
		else if (!serve(t))
			return;
	}
}

static void enter_class(void)
{
	struct sched_param param = { .sched_priority = task->args.priority };
	size_t count = (size_t)(task->args.cpu + 1);
	size_t size = CPU_ALLOC_SIZE(count);
	cpu_set_t *cpus = CPU_ALLOC(count);

	if (cpus && task->args.cpu >= 0) {
		CPU_ZERO_S(size, cpus);
		CPU_SET_S((size_t)task->args.cpu, size, cpus);
		if (sched_setaffinity(0, size, cpus)) {
			report_note("not pinned to its CPU", errno);
			task->args.cpu = -1;
		}
	}
	CPU_FREE(cpus);
	fifo = task->args.priority && !sched_setscheduler(0, SCHED_FIFO, &param);
	if (task->args.priority && !fifo)
		report_note("not at SCHED_FIFO", errno);
}

static void follow_parent(void)
{
	if (!task->args.parent)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != task->args.parent)
		_exit(6);
}

/* The watcher must run while the task spins.  Policy `boosted` may raise the task: the watcher is above that. */
static int lift_watcher(bool boosted)
{
	struct sched_param param = { .sched_priority = boosted ? 99 : task->args.priority + 1 };
	struct rlimit limit;
	int result = pthread_setschedparam(watcher.thread, SCHED_FIFO, &param);

	if (result != EPERM || getrlimit(RLIMIT_RTPRIO, &limit) || limit.rlim_cur <= (rlim_t)task->args.priority)
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

/* Whether a job of any task has a GPU segment. */
static bool uses_gpu(void)
{
	const struct served *t;
	unsigned int i;

	for_each_task(t)
		for (i = 0; i < t->args.segments; i++)
			if (t->args.segment[i].gpu)
				return true;
	return false;
}

static int open_host(void)
{
	struct gpurt_query query = { .size = sizeof(query) };
	const char *form = getenv("GPURT_FORM");
	int result = gpurt_open(&host, NULL);

	if (!result)
		result = gpurt_query_host(host, &query);
	if (!result && uses_gpu())
		result = gpurt_tsg_open(host, &tsg);
	if (!result && task->args.busy && uses_gpu())
		result = start_watcher(query.policy == GPURT_POLICY_BOOSTED);
	if (query.policy == GPURT_POLICY_LOCK_PRIORITY || query.policy == GPURT_POLICY_LOCK_FIFO)
		begin_flags = GPURT_BEGIN_WAIT;		/* a lock is taken before the segment begins */
	/* Without this flag an owner spins while it waits.  Bounds for self-suspending tasks assume that it sleeps. */
	if (query.policy == GPURT_POLICY_BOOSTED && !task->args.busy && form && !strcmp(form, "owner"))
		begin_flags = GPURT_BEGIN_WAIT;
	return result;
}

/* All tasks take start and end of the first task. */
static void share_times(void)
{
	struct served *t;

	for_each_task(t) {
		t->args.start_at = task->args.start_at;
		t->args.until = task->args.until;
	}
}

/* Reports that the task is ready and reads when to start. */
static int rendezvous(void)
{
	char text[64] = "";
	unsigned long long start, until;

	if (task->args.wait) {
		if (write(STDOUT_FILENO, "ready\n", 6) != 6)
			return -errno;
		if (read(STDIN_FILENO, text, sizeof(text) - 1) <= 0 || sscanf(text, "%llu %llu", &start, &until) != 2)
			return -ECANCELED;
		task->args.start_at = start;
		task->args.until = until;
	} else {
		task->args.start_at = now_ns() + 10000000;
	}
	share_times();
	return 0;
}

/* Allocates room for the reports of all tasks, or writes them all. */
static int for_all_reports(bool write)
{
	struct served *t;
	int result = 0;

	for_each_task(t) {
		use(t);
		if (!result)
			result = write ? report_write(&task->args, t->done) : report_prepare(&task->args);
	}
	use(all);
	return result;
}

/* Reads the options of all tasks. */
static void parse_all(int argc, char **argv)
{
	int at = 0;

	do {
		at = task_parse(&all[tasks].args, tasks ? &all[tasks - 1].args : NULL, argc, argv);
		argc -= at;
		argv += at;
		tasks++;
	} while (at && tasks < TASK_MAX_SERVED);
	if (at) {
		fprintf(stderr, "gpurt_task: more than %d tasks\n", TASK_MAX_SERVED);
		exit(2);
	}
}

static void set_up_process(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	prctl(PR_SET_NAME, task->args.name);
	prctl(PR_SET_TIMERSLACK, 1);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		report_note("memory not locked", errno);
}

/* --exec: executes the user's program in place of this one, with CPU and priority set. */
static int execute(void)
{
	enter_class();
	report_notes(stderr, "gpurt_task:");
	execvp(task->args.command[0], task->args.command);
	fprintf(stderr, "gpurt_task: cannot execute %s: %s\n", task->args.command[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv)
{
	int result;

	parse_all(argc, argv);
	follow_parent();
	if (task->args.command)
		return execute();
	set_up_process();
	enter_class();
	result = uses_gpu() || task->args.tell ? open_host() : 0;
	if (result) {
		fprintf(stderr, "gpurt_task: %s: no use of gpurt's host: %s; is `gpurt emulate' running?\n", task->args.name,
			strerror(-result));
		return 4;
	}
	result = rendezvous();
	if (!result)
		result = for_all_reports(false);
	if (!result) {
		run_jobs();
		result = for_all_reports(true);
	}
	if (result && !(stop && result == -ECANCELED))
		fprintf(stderr, "gpurt_task: %s: %s\n", task->args.name, strerror(-result));
	if (report_failed())
		fprintf(stderr, "gpurt_task: %s: %s\n", task->args.name, report_failed());
	return result || report_failed() ? 6 : 0;
}

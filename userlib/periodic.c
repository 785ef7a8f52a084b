// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The jobs that a program reports to readers of events, and their periods. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpurt.h>

#include "handle.h"

#define NS_PER_S 1000000000ULL

/* The job that this thread has begun, and the thread's CPU time at its begin. */
static _Thread_local struct {
	bool open;
	pid_t owner;			/* a child process does not have its parent's job */
	struct gpurt_handle *handle;
	char task[GPURT_TASK_LEN];
	uint64_t job, release_ns, cpu_ns;
} own;

static uint64_t read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The task's name, from the program or else from the environment. */
static int name_of(const char *task, char name[GPURT_TASK_LEN])
{
	if (!task)
		task = getenv("GPURT_TASK_NAME");
	if (!task)
		task = program_invocation_short_name;
	if (!*task || strlen(task) >= GPURT_TASK_LEN)
		return -EINVAL;
	strcpy(name, task);
	return 0;
}

static int mark(struct gpurt_handle *h, uint32_t what, uint64_t cpu_ns)
{
	struct gpurt_job_mark m = {
		.size = sizeof(m), .what = what, .job = own.job, .release_ns = own.release_ns, .cpu_ns = cpu_ns,
		.when_ns = read_clock(CLOCK_MONOTONIC),
	};
	int err = gpurt_handle_gpu(h, &m.gpu);

	if (err)
		return err;
	memcpy(m.task, own.task, sizeof(m.task));
	return gpurt_call(h, GPURT_IOC_JOB_MARK, &m, false);
}

static bool has_job(void)
{
	return own.open && own.owner == gpurt_pid();
}

int gpurt_job_begin(struct gpurt_handle *h, const char *task, uint64_t job, uint64_t release_ns)
{
	int err;

	if (has_job())
		return -EBUSY;
	memset(own.task, 0, sizeof(own.task));
	err = name_of(task, own.task);
	if (err)
		return err;
	own.job = job;
	own.release_ns = release_ns ? release_ns : read_clock(CLOCK_MONOTONIC);
	own.cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
	err = mark(h, GPURT_MARK_BEGIN, 0);
	own.handle = h;
	own.owner = gpurt_pid();
	own.open = !err;
	return err;
}

void gpurt_job_forget(const struct gpurt_handle *h)
{
	if (own.handle == h)
		own.open = false;
}

int gpurt_job_end(struct gpurt_handle *h)
{
	if (!has_job() || own.handle != h)
		return -ENOENT;
	own.open = false;
	return mark(h, GPURT_MARK_END, read_clock(CLOCK_THREAD_CPUTIME_ID) - own.cpu_ns);
}

int gpurt_periodic_init(struct gpurt_periodic *p, struct gpurt_handle *h, const char *task, uint64_t period_ns,
			uint64_t first_ns)
{
	uint64_t now = read_clock(CLOCK_MONOTONIC);

	if (!period_ns || period_ns > GPURT_MAX_AHEAD_NS || (first_ns > now && first_ns - now > GPURT_MAX_AHEAD_NS))
		return -EINVAL;
	*p = (struct gpurt_periodic){ .handle = h, .period_ns = period_ns };
	p->next_ns = first_ns ? first_ns : now + period_ns;
	return name_of(task, p->task);
}

/* A program whose own handle has no host runs on unmanaged. */
static int unless_unmanaged(const struct gpurt_periodic *p, int err)
{
	return !p->handle && (err == -ENODEV || err == -EACCES) ? 0 : err;
}

static int end(struct gpurt_periodic *p)
{
	if (!p->open)
		return 0;
	p->open = false;
	return unless_unmanaged(p, gpurt_job_end(p->handle));
}

static int sleep_until(uint64_t when_ns)
{
	struct timespec t = { .tv_sec = (time_t)(when_ns / NS_PER_S), .tv_nsec = (long)(when_ns % NS_PER_S) };

	return -clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

int gpurt_periodic_next(struct gpurt_periodic *p)
{
	uint64_t now, jitter;
	bool behind;
	int err = end(p);

	if (err)
		return err;
	now = read_clock(CLOCK_MONOTONIC);
	behind = p->next_ns <= now && !p->slept;
	while (now < p->next_ns) {
		p->slept = 1;
		err = sleep_until(p->next_ns);
		if (err)
			return err;
		now = read_clock(CLOCK_MONOTONIC);
	}
	p->slept = 0;
	p->release_ns = p->next_ns;
	p->next_ns += p->period_ns;
	p->job = p->jobs++;
	if (behind) {
		p->behind++;
	} else {
		jitter = now - p->release_ns;
		p->jitter_sum_ns += jitter;
		p->jitter_max_ns = jitter > p->jitter_max_ns ? jitter : p->jitter_max_ns;
	}
	err = gpurt_job_begin(p->handle, p->task, p->job, p->release_ns);
	p->open = !err;
	return unless_unmanaged(p, err);
}

int gpurt_periodic_stop(struct gpurt_periodic *p)
{
	return end(p);
}

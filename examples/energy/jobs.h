/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The loop of a periodic task whose jobs get units from a host with policy sbeet and the like.  It announces a job, waits,
 * and executes on the units that were granted.  It says that the kernel has ended, copies out, and says that the job is done.
 *
 *	./program TASK PERIOD_US JOBS [START_NS]
 *
 * TASK is a task of the host's file.  START_NS is the first release (CLOCK_MONOTONIC); now unless given.  Prints a line for
 * each job.  Exit codes: 0 no job was skipped; 1 one was; 2 wrong usage; 4 no host, or it refuses; 5 the GPU fails.
 */
#ifndef EXAMPLES_ENERGY_JOBS_H
#define EXAMPLES_ENERGY_JOBS_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpurt.h>

#define JOBS_GPU_FAILED (-EIO)	/* what an execute function returns after it has said what is wrong with the GPU */

/* Makes the GPU ready, which takes longer than most periods: before the first job is announced.  0 or a negative errno. */
typedef int (*jobs_prepare)(void);
/* Copies in, executes the kernel on the units of the grant, and waits for its end.  0 or a negative errno. */
typedef int (*jobs_execute)(const struct gpurt_job_wait *grant);

static inline uint64_t jobs_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* One job: 0, -ETIME if it was skipped, or what failed. */
static inline int jobs_one(const char *task, uint64_t release, unsigned long number, jobs_execute execute)
{
	struct gpurt_job_wait grant;
	uint64_t job;
	int err = gpurt_job_ready(NULL, task, release, &job);

	if (err)
		return err;
	do
		err = gpurt_job_wait(NULL, job, GPURT_FOREVER, &grant);
	while (err == -EINTR);
	if (err == -ETIME)
		printf("%s %lu: skipped\n", task, number);
	if (err)
		return err;
	printf("%s %lu: GPU %" PRIu32 ", units %" PRIu32 " to %" PRIu32 ", partition %" PRIu32 "\n", task, number, grant.gpu,
	       grant.first, grant.first + grant.units - 1, grant.partition);
	err = execute(&grant);
	if (!err)
		err = gpurt_job_kernel_done(NULL, job);		/* others get the units; the copy out needs none */
	return err ? err : gpurt_job_done(NULL, job);
}

/* The program: returns its exit code. */
static inline int jobs_main(int argc, char **argv, jobs_prepare prepare, jobs_execute execute)
{
	const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	unsigned long period_us, jobs, i, skipped = 0;
	uint64_t start;

	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: %s TASK PERIOD_US JOBS [START_NS]\n", program);
		return 2;
	}
	if (prepare && prepare())
		return 5;
	period_us = strtoul(argv[2], NULL, 10);
	jobs = strtoul(argv[3], NULL, 10);
	start = argc == 5 ? strtoull(argv[4], NULL, 10) : jobs_now_ns();
	for (i = 0; i < jobs; i++) {
		int err = jobs_one(argv[1], start + i * period_us * 1000, i, execute);

		fflush(stdout);
		if (err == JOBS_GPU_FAILED)
			return 5;
		if (err && err != -ETIME) {
			fprintf(stderr, "%s: %s: %s\n", program, argv[1], strerror(-err));
			return 4;
		}
		skipped += err == -ETIME;
	}
	return skipped != 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A periodic task whose jobs get units of a GPU from `gpurt emulate --policy sbeet --taskset FILE`.
 *
 *	cc periodic.c -lgpurt -o periodic
 *	GPURT_DEVICE=SOCKET ./periodic TASK PERIOD_US JOBS [START_NS]
 *
 * TASK is a task of the host's file.  START_NS is the first release (CLOCK_MONOTONIC); now unless given.  Prints a line for
 * each job.  Exit codes: 0 no job was skipped; 1 one was; 2 wrong usage; 4 no host, or it refuses.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpurt.h>

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * What a program does with its units.  On a real GPU it launches the kernel here: with green contexts into that of number
 * grant->partition, with CU masks into a queue with gpurt_job_mask(), and waits for it.  A virtual GPU executes it.
 */
static int launch(const struct gpurt_job_wait *grant)
{
	return gpurt_job_run(NULL, grant->job, 0, 0, NULL);
}

/* One job: 0, -ETIME if it was skipped, or what failed. */
static int one_job(const char *task, uint64_t release, unsigned long number)
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
	err = launch(&grant);
	if (!err)
		err = gpurt_job_kernel_done(NULL, job);		/* others get the units; the copy out needs none */
	return err ? err : gpurt_job_done(NULL, job);
}

int main(int argc, char **argv)
{
	unsigned long period_us, jobs, i, skipped = 0;
	uint64_t start;

	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: periodic TASK PERIOD_US JOBS [START_NS]\n");
		return 2;
	}
	period_us = strtoul(argv[2], NULL, 10);
	jobs = strtoul(argv[3], NULL, 10);
	start = argc == 5 ? strtoull(argv[4], NULL, 10) : now_ns();
	for (i = 0; i < jobs; i++) {
		int err = one_job(argv[1], start + i * period_us * 1000, i);

		fflush(stdout);
		if (err && err != -ETIME) {
			fprintf(stderr, "periodic: %s: %s\n", argv[1], strerror(-err));
			return 4;
		}
		skipped += err == -ETIME;
	}
	return skipped != 0;
}

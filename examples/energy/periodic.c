/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A periodic task whose jobs get units of a virtual GPU from `gpurt emulate --policy sbeet --energy-file FILE`.
 *
 *	cc periodic.c -lgpurt -o periodic
 *	GPURT_DEVICE=SOCKET ./periodic TASK PERIOD_US JOBS [START_NS]
 *
 * jobs.h has the loop.  On a real GPU a program launches its kernel instead: green.cu into a green context, sm.cu on
 * SMs of its own.  With CU masks a program launches into a queue with gpurt_job_mask().
 */
#include "jobs.h"

static int execute(const struct gpurt_job_wait *grant)
{
	return gpurt_job_run(NULL, grant->job, 0, 0, NULL);
}

int main(int argc, char **argv)
{
	return jobs_main(argc, argv, NULL, execute);
}

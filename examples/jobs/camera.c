/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Template of a periodic task in C.
 *
 *	cc camera.c -lgpurt -o camera
 *	./camera [JOBS]			without JOBS: until Ctrl-C
 *
 * Each job is told to the readers of events: `gpurt watch camera.toml` judges it.  Exit codes: 0; 4 what failed is printed.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpurt.h>

#define PERIOD_NS UINT64_C(33000000)

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

/* The work of the job on the GPU, and the wait for it.  Replace both by launches and cudaStreamSynchronize(). */
static int work_on_gpu(uint32_t tsg)
{
	uint64_t work;
	int err = gpurt_submit_work(NULL, tsg, GPURT_ENGINE_EXEC, 0, 4000000, &work);

	while (!err || err == -EINTR) {
		err = gpurt_work_wait(NULL, tsg, work, GPURT_FOREVER, NULL);
		if (!err)
			break;
	}
	return err;
}

static int do_job(uint32_t tsg)
{
	int err = gpurt_segment_begin(NULL, 0, 0), end;

	if (err)
		return err;
	err = work_on_gpu(tsg);
	end = gpurt_segment_end(NULL, 0);
	return err ? err : end;
}

int main(int argc, char **argv)
{
	uint64_t jobs = argc > 1 ? strtoull(argv[1], NULL, 10) : UINT64_MAX;
	struct sigaction action = { .sa_handler = on_signal };
	struct gpurt_periodic camera;
	uint32_t tsg;
	int err = gpurt_tsg_open(NULL, &tsg);		/* for the virtual GPU; a real one's driver makes TSGs */

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!err)
		err = gpurt_periodic_init(&camera, NULL, "camera", PERIOD_NS, 0);
	while (!err && !stop && camera.jobs < jobs) {
		err = gpurt_periodic_next(&camera);
		if (err == -EINTR) {
			err = 0;
			continue;
		}
		if (!err)
			err = do_job(tsg);
	}
	if (!err)
		err = gpurt_periodic_stop(&camera);
	if (err) {
		fprintf(stderr, "camera: %s\n", strerror(-err));
		return 4;
	}
	printf("camera: %" PRIu64 " jobs, %" PRIu64 " released before the one before had ended, %" PRIu64
	       " us at most from release to wake-up\n", camera.jobs, camera.behind, camera.jitter_max_ns / 1000);
	return 0;
}

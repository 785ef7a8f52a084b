// SPDX-License-Identifier: GPL-2.0
/*
 * killed N SEED [boosted]: N times a client of priority 60 is killed at a random instant of its life.  The victim
 * spends most of its life in a segment with work queued.  A client of priority 50 waits for the GPU meanwhile and must
 * get it.  Every fourth victim executes another program instead, every fourth exits by itself.  Prints how many were
 * seen to have been killed; exits 1 when the GPU was not handed on, or anything is left.  With `boosted` the GPU
 * priorities are 20 and 15, and all are of FIFO priority 10, which the survivor must have after each of its segments.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { \
	printf("killed: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static unsigned int high = 60, low = 50;
static int boosted;

/* A child of a raised thread is not of its parent's priority. */
static void take_priority(void)
{
	struct sched_param param = { .sched_priority = 10 };

	if (boosted)
		MUST(!sched_setscheduler(0, SCHED_FIFO, &param));
}

static void check_priority(void)
{
	struct sched_param param;

	if (boosted)
		MUST(sched_getscheduler(0) == SCHED_FIFO && !sched_getparam(0, &param) && param.sched_priority == 10);
}

static int call(int fd, unsigned long code, void *argument)
{
	return ioctl(fd, code, argument);
}

static void segment(int fd, unsigned int priority)
{
	struct gpurt_begin begin = { .size = sizeof(begin), .priority = priority };

	MUST(!call(fd, GPURT_IOC_BEGIN, &begin));
}

/* Begins, works, ends, over and over, until it is killed. */
static void live(int what)
{
	struct gpurt_submit submit = { .size = sizeof(submit), .duration_ns = 20000000 };
	struct gpurt_wait wait = { .size = sizeof(wait), .what = GPURT_WAIT_WORK, .timeout_ns = 3000000 };
	struct gpurt_tsg tsg = { .size = sizeof(tsg) };
	struct gpurt_end end = { .size = sizeof(end) };
	int fd = open("/dev/gpurt", O_RDWR), i;

	MUST(fd >= 0);
	take_priority();
	MUST(!call(fd, GPURT_IOC_TSG_OPEN, &tsg));
	submit.tsg = wait.tsg = tsg.tsg;
	for (i = 0;; i++) {
		segment(fd, high);
		MUST(!call(fd, GPURT_IOC_SUBMIT, &submit) || errno == ENOBUFS);
		wait.work = submit.work;
		call(fd, GPURT_IOC_WAIT, &wait);
		if (what == 1 && i == 2)
			execl("/bin/sleep", "sleep", "100", NULL);
		if (what == 2 && i == 2)
			_exit(0);
		call(fd, GPURT_IOC_END, &end);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, fd = open("/dev/gpurt", O_RDWR), i;
	struct gpurt_wait grant = { .what = GPURT_WAIT_GRANT, .timeout_ns = 20000000000ULL };
	struct gpurt_end end = { .size = sizeof(end) };
	int status, killed = 0;

	boosted = argc > 3;
	if (boosted) {
		high = 20;
		low = 15;
	}
	take_priority();
	srandom(argc > 2 ? (unsigned int)atoi(argv[2]) : 1);
	MUST(fd >= 0);
	for (i = 0; i < rounds; i++) {
		int what = i % 4;
		pid_t victim;

		segment(fd, low);
		victim = fork();
		MUST(victim >= 0);
		if (!victim)
			live(what);
		usleep((unsigned int)(random() % 12000));
		if (what != 2)
			MUST(!kill(victim, SIGKILL));
		MUST(waitpid(victim, &status, 0) == victim);
		killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		/* A machine that prints nothing for long counts as hung. */
		if (i % 100 == 99)
			fprintf(stderr, "# %d victims\n", i + 1);
		/* Not ours any more when it is dead: the place of the dead is free. */
		grant.size = sizeof(grant);
		MUST(!call(fd, GPURT_IOC_WAIT, &grant));
		MUST(!call(fd, GPURT_IOC_END, &end));
		check_priority();
	}
	printf("killed: %d victims, %d of them killed, the GPU was handed on each time\n", rounds, killed);
	return 0;
}

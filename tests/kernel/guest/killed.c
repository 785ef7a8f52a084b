// SPDX-License-Identifier: GPL-2.0
/*
 * killed N SEED [boosted|grouped]: N times a client of priority 60 is killed at a random instant of its life.  The victim
 * spends most of its life in a segment with work queued.  A client of priority 50 waits for the GPU meanwhile and must
 * get it.  Every fourth victim executes another program instead, every fourth exits by itself.  Prints how many were
 * seen to have been killed; exits 1 when the GPU was not handed on, or anything is left.  With `boosted` the GPU
 * priorities are 20 and 15, and all are of FIFO priority 10, which the survivor must have after each of its segments.
 *
 * With `grouped` there are two victims at a time, a group of level 20 on two GPUs, and the survivor's priority is 15.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
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
static int boosted, grouped;

/* A child of a raised thread is not of its parent's priority. */
static void take_priority(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (boosted || grouped)
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

static void segment(int fd, unsigned int priority, uint32_t gpu)
{
	struct gpurt_begin begin = { .size = sizeof(begin), .gpu = gpu, .priority = priority };

	MUST(!call(fd, GPURT_IOC_BEGIN, &begin));
}

/* Begins, works, ends, over and over, until it is killed. */
static void live(int what)
{
	struct gpurt_submit submit = { .size = sizeof(submit), .duration_ns = 20000000 };
	struct gpurt_wait wait = { .size = sizeof(wait), .what = GPURT_WAIT_WORK, .timeout_ns = 3000000 };
	struct gpurt_tsg tsg = { .size = sizeof(tsg) };
	struct gpurt_end end = { .size = sizeof(end) };
	struct gpurt_group_join join = { .size = sizeof(join), .name = "killed" };
	int fd = open("/dev/gpurt", O_RDWR), i;

	MUST(fd >= 0);
	take_priority(grouped ? 20 : 10);
	if (grouped)
		MUST(!call(fd, GPURT_IOC_GROUP_JOIN, &join));
	MUST(!call(fd, GPURT_IOC_TSG_OPEN, &tsg));
	submit.tsg = wait.tsg = tsg.tsg;
	tsg.gpu = 1;
	tsg.tsg = 0;
	MUST(!grouped || !call(fd, GPURT_IOC_TSG_OPEN, &tsg));
	for (i = 0;; i++) {
		submit.gpu = wait.gpu = end.gpu = grouped ? (uint32_t)(i + what) % 2 : 0;
		segment(fd, high, end.gpu);
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

/* A victim dies at a random instant; whether it was killed. */
static int spoil(int what)
{
	pid_t victim = fork(), other = 0;
	int status, killed = 0;

	MUST(victim >= 0);
	if (!victim)
		live(what);
	if (grouped) {
		other = fork();
		MUST(other >= 0);
		if (!other)
			live(3);
	}
	usleep((unsigned int)(random() % 12000));
	if (what != 2)
		MUST(!kill(victim, SIGKILL));
	MUST(waitpid(victim, &status, 0) == victim);
	killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	if (grouped) {
		usleep((unsigned int)(random() % 3000));
		MUST(!kill(other, SIGKILL));
		MUST(waitpid(other, &status, 0) == other);
	}
	return killed;
}

/* Nobody keeps the GPU any more; the end follows. */
static void have(int fd, uint32_t gpu)
{
	struct gpurt_wait grant = { .size = sizeof(grant), .gpu = gpu, .what = GPURT_WAIT_GRANT,
				    .timeout_ns = 20000000000ULL };
	struct gpurt_end end = { .size = sizeof(end), .gpu = gpu };

	MUST(!call(fd, GPURT_IOC_WAIT, &grant));
	MUST(!call(fd, GPURT_IOC_END, &end));
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, fd = open("/dev/gpurt", O_RDWR), i, killed = 0;

	boosted = argc > 3 && !strcmp(argv[3], "boosted");
	grouped = argc > 3 && !strcmp(argv[3], "grouped");
	if (argc > 3) {
		high = 20;
		low = 15;
	}
	take_priority(10);
	srandom(argc > 2 ? (unsigned int)atoi(argv[2]) : 1);
	MUST(fd >= 0);
	for (i = 0; i < rounds; i++) {
		segment(fd, low, 0);
		if (grouped)
			segment(fd, low, 1);
		killed += spoil(i % 4);
		/* A machine that prints nothing for long counts as hung. */
		if (i % 100 == 99)
			fprintf(stderr, "# %d victims\n", i + 1);
		/* Not theirs any more when they are dead: the place of the dead is free. */
		have(fd, 0);
		if (grouped)
			have(fd, 1);
		check_priority();
	}
	printf("killed: %d victims, %d of them killed, the GPU was handed on each time\n", rounds, killed);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * copies N SEED [boosted]: N times a client that copies in chunks is killed at a random instant of its life.  Another
 * client copies too and wants the bus.  Every fourth victim executes another program instead, every fourth exits by
 * itself, and every third is best effort.  Every fifth victim has a child that keeps its descriptor.  Exits 1 if the
 * bus was not handed on, if two had it at once, or if anything is left.  With `boosted` all are of FIFO priority 10,
 * which the survivor must have after each of its copies.
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
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { \
	printf("copies: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)
#define PATIENCE 20000000000ULL

static int boosted;
static volatile pid_t *holder;		/* shared: who says that it has the bus */

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

static int copy(int fd, unsigned int what, unsigned int priority)
{
	struct gpurt_copy c = { .size = sizeof(c), .what = what, .priority = priority };

	c.timeout_ns = what == GPURT_COPY_END ? 0 : PATIENCE;
	return ioctl(fd, GPURT_IOC_COPY, &c);
}

/* Copies, over and over, until it is killed. */
static void live(int what, unsigned int priority, int keeps)
{
	int fd = open("/dev/gpurt", O_RDWR), i, chunk;

	MUST(fd >= 0);
	take_priority();
	if (keeps && !fork()) {
		usleep(200000);
		_exit(0);
	}
	for (i = 0;; i++) {
		MUST(!copy(fd, GPURT_COPY_BEGIN, priority));
		for (chunk = 0; chunk < 3; chunk++) {
			*holder = getpid();
			usleep(100);
			MUST(*holder == getpid());
			if (what == 1 && i == 2)
				execl("/bin/sleep", "sleep", "100", NULL);
			if (what == 2 && i == 2)
				_exit(0);
			MUST(!copy(fd, GPURT_COPY_NEXT, 0));
		}
		MUST(!copy(fd, GPURT_COPY_END, 0));
	}
}

/* The victim's memory is there no more once it has ended, and the bus is ours. */
static void copy_once(int fd, unsigned int priority)
{
	MUST(!copy(fd, GPURT_COPY_BEGIN, priority));
	*holder = getpid();
	MUST(!copy(fd, GPURT_COPY_END, 0));
	check_priority();
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, fd = open("/dev/gpurt", O_RDWR), i, status, killed = 0;

	boosted = argc > 3;
	take_priority();
	srandom(argc > 2 ? (unsigned int)atoi(argv[2]) : 1);
	holder = mmap(NULL, sizeof(*holder), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(fd >= 0 && (void *)holder != MAP_FAILED);
	for (i = 0; i < rounds; i++) {
		unsigned int mine = boosted ? 15 : 50, theirs = i % 3 ? (boosted ? 20 : 60) : 0;
		int what = i % 4;
		pid_t victim = fork();

		MUST(victim >= 0);
		if (!victim)
			live(what, theirs, i % 5 == 0);
		usleep((unsigned int)(random() % 3000));
		if (what == 0)
			copy_once(fd, mine);	/* between its chunks */
		if (what != 2)
			MUST(!kill(victim, SIGKILL));
		copy_once(fd, mine);	/* it may be dying still */
		MUST(waitpid(victim, &status, 0) == victim);
		MUST(!WIFEXITED(status) || !WEXITSTATUS(status));
		killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		copy_once(fd, mine);
		if ((i + 1) % 100 == 0)
			fprintf(stderr, "# %d victims\n", i + 1);
	}
	printf("copies: %d victims, %d of them killed, the bus was handed on each time\n", rounds, killed);
	while (wait(NULL) > 0)
		;
	return 0;
}

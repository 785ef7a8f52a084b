// SPDX-License-Identifier: GPL-2.0
/*
 * shared_copies N: six threads of FIFO priority 10 call GPURT_IOC_COPY at random, N times each.  Three threads call on
 * each of two descriptors, so that threads end, continue and withdraw each other's copies.  Exits 1 if a thread stays
 * above its priority once all copies have ended, or if the bus is not free then.  A thread that is never woken keeps
 * the program from ending, and the alarm kills it.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { \
	printf("shared_copies: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)
#define THREADS 6

static int fd[2];
static unsigned int rounds;
static atomic_int left = THREADS;
static pthread_barrier_t over;

static int copy(int on, unsigned int what, unsigned int priority, unsigned long long timeout)
{
	struct gpurt_copy c = { .size = sizeof(c), .what = what, .priority = priority, .timeout_ns = timeout };

	return ioctl(on, GPURT_IOC_COPY, &c);
}

static void *live(void *argument)
{
	unsigned int number = (unsigned int)(size_t)argument, i;
	int on = fd[number % 2];
	struct sched_param param = { .sched_priority = 10 };
	unsigned int random = number;

	MUST(!pthread_setschedparam(pthread_self(), SCHED_FIFO, &param));
	for (i = 0; i < rounds; i++) {
		unsigned int what = (unsigned int)rand_r(&random) % 3;
		unsigned long long timeout = rand_r(&random) % 2 ? GPURT_FOREVER : (unsigned int)rand_r(&random) % 50000;

		copy(on, what, what == GPURT_COPY_BEGIN ? 11 + number : 0, what == GPURT_COPY_END ? 0 : timeout);
	}
	left--;
	/* Requests that still wait are withdrawn; nobody is raised once all copies have ended. */
	while (left) {
		copy(on, GPURT_COPY_END, 0, 0);
		usleep(1000);
	}
	pthread_barrier_wait(&over);
	if (number < 2)
		copy(on, GPURT_COPY_END, 0, 0);
	pthread_barrier_wait(&over);
	MUST(!sched_getparam(0, &param) && param.sched_priority == 10);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];
	size_t i;

	rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 1000;
	alarm(200);
	pthread_barrier_init(&over, NULL, THREADS);
	for (i = 0; i < 2; i++)
		MUST((fd[i] = open("/dev/gpurt", O_RDWR)) >= 0);
	for (i = 0; i < THREADS; i++)
		MUST(!pthread_create(&thread[i], NULL, live, (void *)i));
	for (i = 0; i < THREADS; i++)
		MUST(!pthread_join(thread[i], NULL));
	for (i = 0; i < 2; i++)
		MUST(copy(fd[i], GPURT_COPY_END, 0, 0) == -1 && errno == ENOENT);
	printf("shared_copies: %u calls\n", THREADS * rounds);
	return 0;
}

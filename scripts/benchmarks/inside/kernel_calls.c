// SPDX-License-Identifier: GPL-2.0
/*
 * kernel_calls calls        nanoseconds of an ioctl on /dev/gpurt that does nothing (an end outside a segment), and of a
 *                           begin and an end, uncontended: the medians of many batches, interleaved
 * kernel_calls low [owner]  the same by a thread of a priority that policy `boosted` can raise, in form `self` or `owner`
 * kernel_calls clients PRIORITY    the same beside 1, 10, 100 and 1000 other clients in segments, all best effort
 *                           (PRIORITY 0), or all real-time and those others less urgent
 *                           (counted, without all else that scripts/bench kernel does: scripts/vm-test --counted --cpus 1
 *                           --program kernel_calls clients PRIORITY)
 * kernel_calls jobs COUNT   a real-time task with a TSG that works and sleeps in turn, at random lengths
 */
#include <fcntl.h>
#include <gpurt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#define BATCHES 301
#define BATCH 100

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000000000ULL + (unsigned long long)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, BATCHES, sizeof(*values), by_size);
	return values[BATCHES / 2];
}

static unsigned int form;	/* flags of begins */

static int calls(int fd, const char *label, unsigned int priority)
{
	struct gpurt_begin begin = { .size = sizeof(begin), .flags = form, .priority = priority };
	struct gpurt_end end = { .size = sizeof(end) };
	double noop[BATCHES], pair[BATCHES];
	unsigned long long start;
	int batch, i, failed = 0;

	for (batch = 0; batch < BATCHES; batch++) {
		start = now();
		/* Passes through the whole call, including its structure, and finds nothing to do. */
		for (i = 0; i < BATCH; i++)
			failed |= !ioctl(fd, GPURT_IOC_END, &end);
		noop[batch] = (double)(now() - start) / BATCH;
		start = now();
		for (i = 0; i < BATCH; i++) {
			failed |= ioctl(fd, GPURT_IOC_BEGIN, &begin) || begin.state != GPURT_STATE_RUNNING;
			failed |= ioctl(fd, GPURT_IOC_END, &end);
		}
		pair[batch] = (double)(now() - start) / BATCH;
	}
	printf("noop%s %.1f\nbegin_end%s %.1f\n", label, median(noop), label, median(pair));
	return failed;
}

static int clients(int fd, unsigned int priority)
{
	struct gpurt_begin begin = { .size = sizeof(begin), .priority = priority / 2 };
	struct rlimit limit = { 2048, 2048 };
	int most, count = 0, other;
	char label[16];

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 1;
	for (most = 1; most <= 1000; most *= 10) {
		for (; count < most; count++) {
			other = open(GPURT_DEFAULT_DEVICE, O_RDWR);
			if (other < 0 || ioctl(other, GPURT_IOC_BEGIN, &begin))
				return 1;
		}
		snprintf(label, sizeof(label), ".%d", most);
		if (calls(fd, label, priority))
			return 1;
	}
	return 0;
}

static void pause_for(unsigned long long ns)
{
	struct timespec t = { 0, (long)ns };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int jobs(int fd, int count)
{
	struct gpurt_tsg tsg = { .size = sizeof(tsg) };
	unsigned long long until;

	if (ioctl(fd, GPURT_IOC_TSG_OPEN, &tsg))
		return 1;
	srandom(1);
	prctl(PR_SET_NAME, "gpurt-jobs");	/* sleeps before the first job, or after the last, are not the jobs' */
	while (count--) {
		until = now() + 3000000 + (unsigned long long)random() % 3000000;
		while (now() < until)
			;
		pause_for(3000000 + (unsigned long long)random() % 3000000);
	}
	prctl(PR_SET_NAME, "kernel_calls");
	return 0;
}

int main(int argc, char **argv)
{
	int best_effort = argc == 3 && !strcmp(argv[1], "clients") && !atoi(argv[2]);
	int low = argc >= 2 && !strcmp(argv[1], "low");
	struct sched_param param = { .sched_priority = best_effort ? 0 : low ? 10 : 50 };
	int fd = open(GPURT_DEFAULT_DEVICE, O_RDWR);

	if (fd < 0 || sched_setscheduler(0, best_effort ? SCHED_OTHER : SCHED_FIFO, &param) || mlockall(MCL_CURRENT | MCL_FUTURE)) {
		perror("kernel_calls");
		return 1;
	}
	form = low && argc == 3 && !strcmp(argv[2], "owner") ? GPURT_BEGIN_OWNER : 0;
	if (argc == 3 && !strcmp(argv[1], "jobs"))
		return jobs(fd, atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "clients"))
		return clients(fd, (unsigned int)atoi(argv[2]));
	return calls(fd, "", (unsigned int)param.sched_priority);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * victim SECONDS: measures, as root, what others do to real-time tasks.  A thread of FIFO priority 90 on each CPU is
 * woken about each millisecond, and measures how late it executes.  Its wake-ups come at every phase of what happens
 * each millisecond.  A process of FIFO priority 80, on any CPU, takes every GPU in turn: it begins a segment, waits
 * for the GPU, and ends the segment.  Under policy `boosted` that priority is 20.  Under policy `job`, where runnable
 * tasks have the GPU, the process submits work of 100 us instead, and spins until that is done.  The process exits 1
 * if it waits for a minute.
 *
 * Prints NAME VALUE, a line each.  Lines "latency_ns", "latency_p999_ns" and "wakeups" are of all CPUs.  The line
 * "served" says how often the client had a GPU.  The line "begin_ns" is the longest time from a begin to the GPU (or
 * for how much longer than it takes work was not done).  The line "end_ns" is the longest time of an end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { \
	printf("victim: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)
#define MS 1000000ULL
#define MAX_CPUS 64
#define MAX_SECONDS 600
#define PATIENCE (60000 * MS)
#define WORK (MS / 10)
#define PERIOD (MS + 7000)

static unsigned long long until;
/* Latencies of all CPUs: each thread fills its part. */
static unsigned long long *late;
static size_t most, count[MAX_CPUS];

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000000000ULL + (unsigned long long)t.tv_nsec;
}

static void sleep_until(unsigned long long when)
{
	struct timespec t = { (time_t)(when / 1000000000ULL), (long)(when % 1000000000ULL) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void be_fifo(int priority)
{
	struct sched_param fifo = { .sched_priority = priority };

	MUST(!pthread_setschedparam(pthread_self(), SCHED_FIFO, &fifo));
}

static void *wake_up(void *number)
{
	size_t cpu = (size_t)number;
	unsigned long long next;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	MUST(!pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus));
	be_fifo(90);
	for (next = now() + PERIOD; (next < until || !count[cpu]) && count[cpu] < most; next += PERIOD) {
		unsigned long long at;

		sleep_until(next);
		at = now();
		late[cpu * most + count[cpu]++] = at - next;
		while (next + PERIOD < at)	/* those that it slept through were as late */
			next += PERIOD;
	}
	return NULL;
}

/* The longest times that one call took, or several. */
struct longest {
	unsigned long long begin, end;
};

static void note(unsigned long long *most, unsigned long long start, unsigned long long expected)
{
	unsigned long long took = now() - start;

	if (took > expected && took - expected > *most)
		*most = took - expected;
}

static void use_segment(int fd, unsigned int gpu, struct longest *most)
{
	struct gpurt_wait grant = { .size = sizeof(grant), .gpu = gpu, .what = GPURT_WAIT_GRANT, .timeout_ns = PATIENCE };
	struct gpurt_begin begin = { .size = sizeof(begin), .gpu = gpu };
	struct gpurt_end end = { .size = sizeof(end), .gpu = gpu };
	unsigned long long start = now();

	MUST(!ioctl(fd, GPURT_IOC_BEGIN, &begin));
	if (begin.state != GPURT_STATE_RUNNING)
		MUST(!ioctl(fd, GPURT_IOC_WAIT, &grant));
	note(&most->begin, start, 0);
	start = now();
	MUST(!ioctl(fd, GPURT_IOC_END, &end));
	note(&most->end, start, 0);
}

/* A task that sleeps would lose the GPU, so it spins. */
static void use_job(int fd, unsigned int gpu, unsigned int tsg, struct longest *most)
{
	struct gpurt_submit work = { .size = sizeof(work), .gpu = gpu, .tsg = tsg, .duration_ns = WORK };
	struct gpurt_wait done = { .size = sizeof(done), .gpu = gpu, .what = GPURT_WAIT_WORK, .tsg = tsg };
	struct pollfd file = { .fd = fd, .events = POLLIN };
	unsigned long long start = now();

	MUST(!ioctl(fd, GPURT_IOC_SUBMIT, &work));
	while (poll(&file, 1, 0) != 1)
		MUST(now() - start < PATIENCE);
	note(&most->begin, start, WORK);
	done.work = work.work;
	MUST(!ioctl(fd, GPURT_IOC_WAIT, &done));
}

static void use_gpus(void)
{
	struct gpurt_query query = { .size = sizeof(query) };
	int fd = open("/dev/gpurt", O_RDWR | O_CLOEXEC);
	struct gpurt_tsg tsg[GPURT_MAX_GPUS];
	struct longest most = { 0, 0 };
	unsigned long long next, served;
	unsigned int gpu;

	MUST(!ioctl(fd, GPURT_IOC_QUERY, &query));
	for (gpu = 0; gpu < query.gpus && query.policy == GPURT_POLICY_JOB; gpu++) {
		tsg[gpu] = (struct gpurt_tsg){ .size = sizeof(*tsg), .gpu = gpu };
		MUST(!ioctl(fd, GPURT_IOC_TSG_OPEN, &tsg[gpu]));
	}
	be_fifo(query.policy == GPURT_POLICY_BOOSTED ? 20 : 80);
	for (next = now(), served = 0; next < until || !served; next += 5 * MS, served++) {
		sleep_until(next);
		gpu = (unsigned int)(served % query.gpus);
		if (query.policy == GPURT_POLICY_JOB)
			use_job(fd, gpu, tsg[gpu].tsg, &most);
		else
			use_segment(fd, gpu, &most);
		next = now() > next ? now() : next;
	}
	printf("served %llu\nbegin_ns %llu\nend_ns %llu\n", served, most.begin, most.end);
}

/*
 * A process of its own: under policy `job` the states of all threads of a process count.  The process ends once @over
 * is closed.  Where the kernel is not preempted, a task of its CPU would wait until the process has torn down its
 * memory.
 */
static pid_t start_client(int *over)
{
	int ends[2];
	pid_t child;
	char byte;

	MUST(!pipe(ends));
	child = fork();
	MUST(child >= 0);
	*over = ends[1];
	if (child)
		return child;
	close(ends[1]);
	MUST(!mlockall(MCL_CURRENT | MCL_FUTURE));
	use_gpus();
	MUST(!read(ends[0], &byte, 1));
	exit(0);
}

static int by_size(const void *a, const void *b)
{
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;

	return (x > y) - (x < y);
}

static void report(size_t cpus)
{
	size_t cpu, all = 0;

	for (cpu = 0; cpu < cpus; cpu++) {
		memmove(late + all, late + cpu * most, count[cpu] * sizeof(*late));
		all += count[cpu];
	}
	MUST(all);
	qsort(late, all, sizeof(*late), by_size);
	printf("wakeups %zu\nlatency_ns %llu\nlatency_p999_ns %llu\n", all, late[all - 1], late[all - 1 - all / 1000]);
}

int main(int argc, char **argv)
{
	size_t cpus = (size_t)sysconf(_SC_NPROCESSORS_ONLN), cpu;
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	pthread_t threads[MAX_CPUS];
	int status, over;
	pid_t client;

	MUST(cpus <= MAX_CPUS && seconds > 0 && seconds <= MAX_SECONDS);
	most = (size_t)(seconds * 1000) + 1;
	late = calloc(cpus * most, sizeof(*late));
	MUST(late && !mlockall(MCL_CURRENT | MCL_FUTURE));
	until = now() + (unsigned long long)(seconds * 1e9);
	client = start_client(&over);
	for (cpu = 0; cpu < cpus; cpu++)
		MUST(!pthread_create(&threads[cpu], NULL, wake_up, (void *)cpu));
	for (cpu = 0; cpu < cpus; cpu++)
		MUST(!pthread_join(threads[cpu], NULL));
	close(over);
	if (waitpid(client, &status, 0) != client || status)
		return 1;	/* it has said why */
	report(cpus);
	return 0;
}

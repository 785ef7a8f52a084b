// SPDX-License-Identifier: GPL-2.0
/*
 * boosted: does what its input says, a line a command, and answers with a line of one number.  A command that begins
 * with "2 " is carried out by a second thread.  First it prints its process id, which is its first thread's, and the
 * second thread's id.
 *
 *	open				/dev/gpurt, as the descriptor of what follows: 0
 *	begin FLAGS PRIORITY, end	0 or -errno
 *	loop FLAGS COUNT		begins and ends so often: after how many ends it is not what it was before
 *	tsg, drop			a TSG of the client, opened or closed: 0
 *	submit NS			work for it: 0
 *	spin, wait			waits for that work, not at all or until it is done: 0 or -errno
 *	idle				waits for all of the client's work, looking again and again: 0 or -errno
 *	close				the last descriptor: 0
 *	sched POLICY PRIORITY		sched_setscheduler(2) of the thread: 0 or -errno
 *	param PRIORITY			sched_setparam(2)
 *	deadline			makes the thread SCHED_DEADLINE: 0 or -errno
 *	cpu NUMBER			keeps the thread on that CPU: 0
 *	user LIMIT			is nobody from now on, with that RLIMIT_RTPRIO: 0
 *	fork, thread			100 * policy + priority of a child or thread that was just made
 *	lock, unlock			a mutex with priority inheritance: 0
 *	hold				0; then keeps its CPU until the next command comes: 0, or -ETIME if none does
 *	wake FLAGS PROCESS		begins, continues that process, which was stopped, and ends: 0
 *	abort, exit, exec		no answer
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { \
	fprintf(stderr, "boosted: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static int fds[8], opened, commands[2];
static pthread_mutex_t mutex;

static int call(unsigned long code, void *argument)
{
	return ioctl(fds[opened - 1], code, argument) ? -errno : 0;
}

static int begin(const char *line)
{
	struct gpurt_begin b = { .size = sizeof(b) };

	MUST(sscanf(line, "begin %u %u", &b.flags, &b.priority) == 2);
	return call(GPURT_IOC_BEGIN, &b);
}

static int end(void)
{
	struct gpurt_end e = { .size = sizeof(e) };

	return call(GPURT_IOC_END, &e);
}

static struct gpurt_wait work = { .size = sizeof(work), .what = GPURT_WAIT_WORK };

static int change_tsg(unsigned long code)
{
	struct gpurt_tsg t = { .size = sizeof(t), .tsg = work.tsg };
	int result = call(code, &t);

	work.tsg = t.tsg;
	return result;
}

static int submit(const char *line)
{
	struct gpurt_submit s = { .size = sizeof(s), .tsg = work.tsg };
	unsigned long long ns;
	int result;

	MUST(sscanf(line, "submit %llu", &ns) == 1);
	s.duration_ns = ns;
	result = call(GPURT_IOC_SUBMIT, &s);
	work.work = s.work;
	return result;
}

static int wait_for_work(uint64_t timeout)
{
	work.timeout_ns = timeout;
	return call(GPURT_IOC_WAIT, &work);
}

static int spin_until_idle(void)
{
	struct gpurt_wait idle = { .size = sizeof(idle), .what = GPURT_WAIT_IDLE };
	int result;

	do
		result = call(GPURT_IOC_WAIT, &idle);
	while (result == -ETIMEDOUT);
	return result;
}

static int set_scheduler(const char *line)
{
	struct sched_param param;
	int policy;

	if (sscanf(line, "param %d", &param.sched_priority) == 1)
		return sched_setparam(0, &param) ? -errno : 0;
	MUST(sscanf(line, "sched %d %d", &policy, &param.sched_priority) == 2);
	return sched_setscheduler(0, policy, &param) ? -errno : 0;
}

static int be_deadline(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr), .policy = 6, .runtime = 10000000, .deadline = 100000000, .period = 100000000 };

	return syscall(SYS_sched_setattr, 0, &attr, 0) ? -errno : 0;
}

static int stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

static int be_user(rlim_t limit)
{
	struct rlimit l = { .rlim_cur = limit, .rlim_max = limit };

	MUST(!setrlimit(RLIMIT_RTPRIO, &l) && !setuid(65534));
	return 0;
}

static int scheduling(void)
{
	struct sched_param param;

	MUST(!sched_getparam(0, &param));
	return 100 * sched_getscheduler(0) + param.sched_priority;
}

static void *be_thread(void *seen)
{
	*(int *)seen = scheduling();
	return NULL;
}

static int make_thread(void)
{
	pthread_t thread;
	int seen;

	MUST(!pthread_create(&thread, NULL, be_thread, &seen) && !pthread_join(thread, NULL));
	return seen;
}

static int make_child(void)
{
	int pipes[2], seen;

	MUST(!pipe(pipes));
	if (!fork()) {
		seen = scheduling();
		_exit(write(pipes[1], &seen, sizeof(seen)) != sizeof(seen));
	}
	MUST(read(pipes[0], &seen, sizeof(seen)) == sizeof(seen) && wait(NULL) > 0);
	return seen;
}

static int loop(const char *line)
{
	struct gpurt_begin b = { .size = sizeof(b) };
	int before = scheduling(), left, wrong = 0;

	MUST(sscanf(line, "loop %u %d", &b.flags, &left) == 2);
	while (left--) {
		MUST(!call(GPURT_IOC_BEGIN, &b) && !end());
		wrong += scheduling() != before;
	}
	return wrong;
}

/* Says when it has its CPU.  It gives up after ten seconds in which it has executed. */
static int hold_cpu(void)
{
	struct pollfd next = { .fd = STDIN_FILENO, .events = POLLIN };
	struct timespec used = { 0 };

	MUST(printf("0\n") > 0 && !fflush(stdout));
	while (!poll(&next, 1, 0) && used.tv_sec < 10)
		MUST(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used));
	return used.tv_sec < 10 ? 0 : -ETIME;
}

static int wake(const char *line)
{
	struct gpurt_begin b = { .size = sizeof(b) };
	int pid;

	MUST(sscanf(line, "wake %u %d", &b.flags, &pid) == 2);
	MUST(!call(GPURT_IOC_BEGIN, &b) && !kill(pid, SIGCONT) && !end());
	return 0;
}

static int execute(const char *line)
{
	if (!strncmp(line, "open", 4)) {
		fds[opened] = open("/dev/gpurt", O_RDWR);
		return fds[opened++] < 0 ? -errno : 0;
	}
	if (!strncmp(line, "begin", 5))
		return begin(line);
	if (!strncmp(line, "end", 3))
		return end();
	if (!strncmp(line, "loop", 4))
		return loop(line);
	if (!strncmp(line, "tsg", 3))
		return change_tsg(GPURT_IOC_TSG_OPEN);
	if (!strncmp(line, "drop", 4))
		return change_tsg(GPURT_IOC_TSG_CLOSE);
	if (!strncmp(line, "submit", 6))
		return submit(line);
	if (!strncmp(line, "spin", 4))
		return wait_for_work(0);
	if (!strncmp(line, "idle", 4))
		return spin_until_idle();
	if (!strncmp(line, "wait", 4))
		return wait_for_work(GPURT_FOREVER);
	if (!strncmp(line, "close", 5))
		return close(fds[--opened]);
	if (!strncmp(line, "sched", 5) || !strncmp(line, "param", 5))
		return set_scheduler(line);
	if (!strncmp(line, "deadline", 8))
		return be_deadline();
	if (!strncmp(line, "cpu", 3))
		return stay_on(atoi(line + 4));
	if (!strncmp(line, "user", 4))
		return be_user((rlim_t)atoi(line + 5));
	if (!strncmp(line, "fork", 4))
		return make_child();
	if (!strncmp(line, "thread", 6))
		return make_thread();
	if (!strncmp(line, "lock", 4))
		return pthread_mutex_lock(&mutex);
	if (!strncmp(line, "unlock", 6))
		return pthread_mutex_unlock(&mutex);
	if (!strncmp(line, "hold", 4))
		return hold_cpu();
	if (!strncmp(line, "wake", 4))
		return wake(line);
	if (!strncmp(line, "abort", 5))
		abort();
	if (!strncmp(line, "exit", 4))
		exit(0);
	if (!strncmp(line, "exec", 4))
		execl("/bin/sleep", "sleep", "1000", NULL);
	fprintf(stderr, "boosted: what? %s", line);
	exit(1);
}

static void answer(const char *line)
{
	int result = execute(line);

	MUST(printf("%d\n", result) > 0 && !fflush(stdout));
}

static void *be_second(void *ready)
{
	char line[100];
	pid_t id = (pid_t)syscall(SYS_gettid);

	MUST(write(*(int *)ready, &id, sizeof(id)) == sizeof(id));
	while (read(commands[0], line, sizeof(line)) == sizeof(line))
		answer(line);
	return NULL;
}

int main(void)
{
	pthread_mutexattr_t inherits;
	char line[100] = "";
	pthread_t second;
	int ready[2];
	pid_t id;

	MUST(!pthread_mutexattr_init(&inherits) && !pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT));
	MUST(!pthread_mutex_init(&mutex, &inherits) && !pipe(commands) && !pipe(ready));
	MUST(!pthread_create(&second, NULL, be_second, &ready[1]) && read(ready[0], &id, sizeof(id)) == sizeof(id));
	MUST(printf("%d %d\n", getpid(), id) > 0 && !fflush(stdout));
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "2 ", 2)) {
			memmove(line, line + 2, sizeof(line) - 2);
			MUST(write(commands[1], line, sizeof(line)) == sizeof(line));
		} else {
			answer(line);
		}
	}
	return 0;
}

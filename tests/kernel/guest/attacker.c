// SPDX-License-Identifier: GPL-2.0
/*
 * attacker HOW [ATTACK...]: an unprivileged user who may open /dev/gpurt does his worst with it.  Attacks are those of
 * the table of attacks, or those that are named.  He is ready when he has tried each, or after two minutes, and stops
 * at SIGTERM.  With HOW "device" he attacks.  With "few" he does so with an eighth of the threads and descriptors, for
 * kernels that are slow.  With "nothing" he does the same with /dev/null, on which every call fails at once, and with
 * netlink and eventfds that are not gpurt's.  Attacks on nothing cost as much of the CPUs, and the module has no part
 * in them.
 *
 * Prints NAME DONE GOOD, a line each: how often the attack was tried, and how often it got what it tried.  With HOW
 * "names" he prints the names of all attacks.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "attacker.h"

static void *storm_thread(void *unused)
{
	int fd = device();

	(void)unused;
	for (;;)
		count(begin(fd, 0) & end(fd));
	return NULL;
}

/* Starts as many threads as he may have, 64. */
static void start_threads(void *(*act)(void *), void *argument)
{
	pthread_t thread;
	unsigned int i;

	for (i = 0; i < 64 / share; i++)
		if (pthread_create(&thread, NULL, act, argument))
			break;
}

/* Threads begin and end, each a client of its own. */
static void storm(void)
{
	start_threads(storm_thread, NULL);
	pause();
}

static void *wait_thread(void *unused)
{
	int fd = device();

	(void)unused;
	begin(fd, 0);
	for (;;)
		count(wait_for(fd, GPURT_WAIT_GRANT));
	return NULL;
}

/* Threads wait for the GPU in their segments, and have it whenever nobody more urgent does. */
static void waits(void)
{
	start_threads(wait_thread, NULL);
	pause();
}

/* The last member of a full group joins, and leaves, without a pause. */
static void joins(void)
{
	int i, fd;

	for (i = 0; i < GPURT_MAX_MEMBERS - 1; i++)
		join(device());
	for (;;) {
		fd = device();
		join(fd);
		count(begin(fd, 0));
		close(fd);
	}
}

/* Clients that end with much queued work in many TSGs. */
static void queues(void)
{
	unsigned int tsg, i;
	int fd;

	for (;;) {
		fd = device();
		begin(fd, 0);
		while (open_tsg(fd, &tsg) && tsg < GPURT_MAX_CLIENT_TSGS / share)
			for (i = 0; i < 16; i++)
				count(submit(fd, tsg, GPURT_MAX_WORK_NS));
		count(!close(fd));
	}
}

/* As many TSGs and as much tiny work as one may have. */
static void work(void)
{
	unsigned int tsg, tsgs = 0;
	int fd = device(), i;

	begin(fd, 0);
	while (tsgs < GPURT_MAX_CLIENT_TSGS && open_tsg(fd, &tsg))
		tsgs++;
	if (nothing)
		tsgs = GPURT_MAX_CLIENT_TSGS;
	for (tsg = 0;; tsg = (tsg + 1) % (tsgs ? tsgs : 1)) {
		for (i = 0; i < 32; i++)
			count(submit(fd, tsg, GPURT_MIN_WORK_NS));
		if (!(tsg % 64))
			query(fd);
	}
}

/* Clients die wherever they are. */
static void kills(void)
{
	unsigned int tsg;
	pid_t child;
	int fd;

	for (;;) {
		child = fork();
		if (!child) {
			fd = device();
			open_tsg(fd, &tsg);
			for (;;) {
				begin(fd, 0);
				submit(fd, tsg, 1000000);
				end(fd);
			}
		}
		usleep((unsigned int)(random() % 5000));
		kill(child, SIGKILL);
		count(waitpid(child, NULL, 0) == child);
	}
}

static void reopen(void)
{
	int fd;

	for (;;) {
		fd = device();
		count(begin(fd, 0));
		close(fd);
	}
}

/* Processes end with a client in a segment, without a pause. */
static void ends(void)
{
	pid_t child;

	for (;;) {
		child = fork();
		if (!child) {
			begin(device(), 0);
			_exit(0);
		}
		count(waitpid(child, NULL, 0) == child);
	}
}

/* A process that dies with as many clients as it may have descriptors; half of its clients have another holder. */
static void descriptors(void)
{
	pid_t child;
	int fd;

	for (;;) {
		child = fork();
		if (!child) {
			while ((fd = device()) >= 0)
				begin(fd, 0);
			if (!fork())
				usleep(20000);
			_exit(0);
		}
		count(waitpid(child, NULL, 0) == child);
	}
}

static int sibling(void *unused)
{
	(void)unused;
	usleep(1000);
	_exit(0);
}

/* Owners end whose memory others share. */
static void share_memory(void)
{
	static char stack[2][16384];
	int fd, status;
	pid_t child;

	for (;;) {
		child = fork();
		if (!child) {
			fd = device();
			begin(fd, 0);
			clone(sibling, stack[0] + sizeof(stack[0]), CLONE_VM | SIGCHLD, NULL);
			clone(sibling, stack[1] + sizeof(stack[1]), CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD, NULL);
			execl("/bin/true", "true", (char *)NULL);
			_exit(0);
		}
		count(waitpid(child, &status, 0) == child);
	}
}

/* Owners crash in a segment. */
static void crash(void)
{
	pid_t child;

	for (;;) {
		child = fork();
		if (!child) {
			begin(device(), 0);
			abort();
		}
		count(waitpid(child, NULL, 0) == child);
	}
}

/* Reads events, and asks for all that one can ask for. */
static void readers(void)
{
	int sockets[8], i;

	for (i = 0; i < 8; i++)
		sockets[i] = listen_to_events();
	for (;;) {
		for (i = 0; i < 8; i++)
			drain(sockets[i]);
		count(dump(GPURT_CMD_GET_CLIENTS) & dump(GPURT_CMD_GET_STATUS) & dump(GPURT_CMD_GET_LATENCY) &
		      dump(GPURT_CMD_GET_RULES));
	}
}

/* Very many epoll descriptors watch one that becomes ready all the time. */
static void watchers(void)
{
	int fd = device(), i, watched = watch_many(fd);
	unsigned int tsg = 0;

	open_tsg(fd, &tsg);
	for (;;) {
		for (i = 0; i < 16; i++)
			count(submit(fd, tsg, 1000 * GPURT_MIN_WORK_NS));
		look(watched);
		wait_for(fd, GPURT_WAIT_IDLE);
	}
}

static void *nested_thread(void *watcher)
{
	struct pollfd all[POLLED];
	unsigned int i;

	for (i = 0; i < POLLED / share; i++)
		all[i] = (struct pollfd){ .fd = *(int *)watcher, .events = POLLIN };
	for (;;) {
		poll(all, POLLED / share, -1);
		look(*(int *)watcher);
	}
	return NULL;
}

/*
 * An epoll descriptor watches one that becomes ready all the time, and very many calls of poll() wait for the epoll
 * descriptor.  The kernel wakes all of them in one go.
 */
static void nested(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int fd = nothing ? eventfd(0, EFD_NONBLOCK) : device(), watcher = epoll_create1(0);
	unsigned int tsg = 0;

	open_tsg(fd, &tsg);
	epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &event);
	start_threads(nested_thread, &watcher);
	for (;;) {
		usleep(1000);
		count(nothing ? !eventfd_write(fd, 1) : submit(fd, tsg, 1000 * GPURT_MIN_WORK_NS));
	}
}

/*
 * Agents that answer what is not true, or nothing: as many at a time as one may have, and more.  Each agent is a new
 * process, so that it is waited for.
 */
static void agents(void)
{
	pid_t child[AGENTS] = { 0 }, *next;
	unsigned int how;

	for (how = 0;; how++) {
		next = &child[how % AGENTS];
		if (*next) {
			kill(*next, SIGKILL);
			count(waitpid(*next, NULL, 0) == *next);
		}
		*next = fork();
		if (!*next)
			be_agent(how);
		usleep(5000);
	}
}

/* Asks for priorities that he must not have, and changes those that he may. */
static void priorities(void)
{
	struct sched_param none = { 0 };
	int fd = device(), i;

	for (i = 0;; i = (i + 1) % 100) {
		gains(begin(fd, (unsigned int)i % 99 + 1));
		sched_setscheduler(0, i % 3 ? i % 2 ? SCHED_IDLE : SCHED_BATCH : SCHED_OTHER, &none);
		count(begin(fd, 0) & end(fd));
		gains(administer(GPURT_CMD_SET_PRIORITY) | administer(GPURT_CMD_SET_EXEMPT) |
		      administer(GPURT_CMD_SET_BARRED));
	}
}

/* As root of a user namespace of his own. */
static void namespaces(void)
{
	pid_t child;

	for (;;) {
		child = fork();
		if (!child) {
			if (unshare(CLONE_NEWUSER) || (random() % 2 && unshare(CLONE_NEWPID)))
				_exit(1);
			gains(administer(GPURT_CMD_SET_POLICY) | begin(device(), 99));
			if (!unshare(CLONE_NEWNET))
				gains(administer(GPURT_CMD_SET_POLICY));
			_exit(0);
		}
		count(waitpid(child, NULL, 0) == child);
		usleep(2000);
	}
}

static const struct {
	const char *name;
	void (*act)(void);
} attacks[] = {
	{ "storm", storm }, { "work", work }, { "kills", kills }, { "reopen", reopen }, { "ends", ends },
	{ "descriptors", descriptors }, { "share_memory", share_memory }, { "crash", crash }, { "readers", readers },
	{ "watchers", watchers }, { "nested", nested }, { "agents", agents }, { "priorities", priorities },
	{ "namespaces", namespaces }, { "waits", waits }, { "joins", joins }, { "queues", queues },
};

#define ATTACKS (sizeof(attacks) / sizeof(attacks[0]))

/* Whether the command line names that attack, or none. */
static bool chosen(const char *name, char **names)
{
	bool any = *names;

	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return !any;
}

/* Waits, for two minutes at most, until every attack has been tried. */
static void see_each_tried(const struct counter *all, char **names)
{
	const struct timespec pause = { 0, 10000000 };
	size_t i, tries;

	for (i = tries = 0; i < ATTACKS && tries < 12000; tries++) {
		for (i = 0; i < ATTACKS; i++)
			if (chosen(attacks[i].name, names) && !__atomic_load_n(&all[i].done, __ATOMIC_RELAXED))
				break;
		if (i < ATTACKS)
			nanosleep(&pause, NULL);
	}
}

/* Does not return. */
static void carry_out(size_t number, struct counter *all)
{
	counter = &all[number];
	srandom((unsigned int)number);
	attacks[number].act();
	_exit(0);
}

int main(int argc, char **argv)
{
	const struct sched_param ordinary = { 0 };
	struct counter *all;
	sigset_t end;
	pid_t pack;
	size_t i;
	int got;

	if (argc < 2)
		return 2;
	nothing = !strcmp(argv[1], "nothing");
	share = strcmp(argv[1], "few") ? 1 : 8;
	for (i = 0; i < ATTACKS && !strcmp(argv[1], "names"); i++)
		puts(attacks[i].name);
	if (i == ATTACKS)
		return 0;
	all = mmap(NULL, ATTACKS * sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	prepare();
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigprocmask(SIG_BLOCK, &end, NULL);
	pack = fork();
	if (!pack) {
		setpgid(0, 0);
		sched_setscheduler(0, SCHED_OTHER, &ordinary);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_UNBLOCK, &end, NULL);
		for (i = 0; i < ATTACKS; i++)
			if (chosen(attacks[i].name, argv + 2) && !fork())
				carry_out(i, all);
		for (;;)
			pause();
	}
	see_each_tried(all, argv + 2);
	printf("ready\n");
	fflush(stdout);
	sigwait(&end, &got);
	kill(-pack, SIGKILL);
	waitpid(pack, NULL, 0);
	for (i = 0; i < ATTACKS; i++)
		if (chosen(attacks[i].name, argv + 2))
			printf("%s %lu %lu\n", attacks[i].name, all[i].done, all[i].good);
	return 0;
}

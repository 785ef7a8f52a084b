/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of attacker.c on a descriptor or a socket; each function says whether its call went well. */
#ifndef ATTACKER_H
#define ATTACKER_H

#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../debug/genl.h"

#define DESCRIPTORS 1024
#define WATCHERS 500
#define POLLED 256	/* by each thread that waits for a descriptor, that one so many times */
#define AGENTS 40	/* agent_limit is 32 */
#define FAMILIES GENL_ID_CTRL

struct counter {
	unsigned long done, good;
};

static struct counter *counter;
static bool nothing;		/* only make as much work */
static unsigned int share;	/* one of so many threads and descriptors */
static int family, group;	/* of the events */
static unsigned int gpu;	/* the virtual one is the last */

static void count(bool good)
{
	__atomic_add_fetch(&counter->done, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&counter->good, good, __ATOMIC_RELAXED);
}

/* Something that he must never get: then nothing of this attack counts as good, for ever. */
static void gains(bool got)
{
	if (got)
		__atomic_store_n(&counter->good, 1UL << 63, __ATOMIC_RELAXED);
}

static int device(void)
{
	return open(nothing ? "/dev/null" : "/dev/gpurt", O_RDWR);
}

static bool begin(int fd, unsigned int priority)
{
	struct gpurt_begin argument = { .size = sizeof(argument), .gpu = gpu, .priority = priority };

	return !ioctl(fd, GPURT_IOC_BEGIN, &argument);
}

static bool end(int fd)
{
	struct gpurt_end argument = { .size = sizeof(argument), .gpu = gpu };

	return !ioctl(fd, GPURT_IOC_END, &argument);
}

static bool query(int fd)
{
	struct gpurt_query argument = { .size = sizeof(argument), .gpu = gpu };

	if (ioctl(fd, GPURT_IOC_QUERY, &argument))
		return false;
	gpu = argument.gpus - 1;
	return true;
}

static bool open_tsg(int fd, unsigned int *tsg)
{
	struct gpurt_tsg argument = { .size = sizeof(argument), .gpu = gpu };

	if (ioctl(fd, GPURT_IOC_TSG_OPEN, &argument))
		return false;
	*tsg = argument.tsg;
	return true;
}

static bool submit(int fd, unsigned int tsg, unsigned long long ns)
{
	struct gpurt_submit argument = { .size = sizeof(argument), .gpu = gpu, .tsg = tsg, .duration_ns = ns };

	return !ioctl(fd, GPURT_IOC_SUBMIT, &argument);
}

static bool join(int fd)
{
	struct gpurt_group_join argument = { .size = sizeof(argument), .name = "attack" };

	begin(fd, 0);
	end(fd);
	return !ioctl(fd, GPURT_IOC_GROUP_JOIN, &argument);
}

static bool wait_for(int fd, unsigned int what)
{
	struct gpurt_wait argument = {
		.size = sizeof(argument), .gpu = gpu, .what = what, .timeout_ns = 10000000,
	};

	return !ioctl(fd, GPURT_IOC_WAIT, &argument);
}

/* Epoll descriptors that all watch @fd; the last one of them. */
static int watch_many(int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int i, watcher = -1;

	for (i = 0; i < WATCHERS / (int)share; i++) {
		watcher = epoll_create1(0);
		epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &event);
	}
	return watcher;
}

static void look(int watcher)
{
	struct epoll_event event;

	epoll_wait(watcher, &event, 1, 0);
}

/* An agent that lies (0), that refuses (1), that answers nothing (2), or that takes back what it answered (3). */
static void be_agent(unsigned int how)
{
	struct gpurt_agent agent = { .size = sizeof(agent), .tsgs = 1, .driver = "liar" };
	struct gpurt_order order = { .size = sizeof(order), .timeout_ns = 1000000 };
	int fd = device();

	if (ioctl(fd, GPURT_IOC_AGENT, &agent) && !nothing)
		pause();	/* there are none on this GPU */
	for (;;) {
		if (how % 4 == 2)
			pause();
		if (!ioctl(fd, GPURT_IOC_ORDER, &order))
			order.answered = order.sequence;
		order.result = how % 4 == 1 ? -EIO : how % 4 == 3 && !order.result ? -EIO : 0;
		if (how % 4 == 0)
			ioctl(fd, GPURT_IOC_AGENT, &agent);
	}
}

static bool dump(unsigned char command)
{
	int fd = genl_open();
	struct genl m;
	bool good;

	genl_start(&m, (uint16_t)(nothing ? FAMILIES : family), nothing ? CTRL_CMD_GETFAMILY : command, NLM_F_DUMP);
	good = fd >= 0 && !genl_call(fd, &m);
	close(fd);
	return good;
}

/* A command that needs privilege. */
static bool administer(unsigned char command)
{
	int fd = genl_open();
	struct genl m;
	bool good;

	genl_start(&m, (uint16_t)(nothing ? FAMILIES : family), nothing ? CTRL_CMD_UNSPEC : command, 0);
	if (command == GPURT_CMD_SET_POLICY)
		genl_add_u32(&m, GPURT_A_POLICY, GPURT_POLICY_TIMESLICED);
	else
		genl_add_u32(&m, GPURT_A_PID, (uint32_t)getpid());
	if (command == GPURT_CMD_SET_PRIORITY)
		genl_add_u32(&m, GPURT_A_PRIORITY, 99);
	else if (command == GPURT_CMD_SET_EXEMPT)
		genl_add_u32(&m, GPURT_A_EXEMPT, 1);
	else if (command == GPURT_CMD_SET_BARRED)
		genl_add_u32(&m, GPURT_A_BARRED, 0);
	else if (command == GPURT_CMD_SET_GROUP)
		genl_add(&m, GPURT_A_GROUP, "attack", sizeof("attack"));
	good = fd >= 0 && !genl_call(fd, &m);
	close(fd);
	return good;
}

static int listen_to_events(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_GENERIC);
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };

	bind(fd, (struct sockaddr *)&address, sizeof(address));
	if (!nothing)
		setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group));
	return fd;
}

static void drain(int fd)
{
	char buffer[4096];
	int i;

	for (i = 0; i < 100 && (recv(fd, buffer, sizeof(buffer), 0) >= 0 || errno == ENOBUFS); i++)
		;
}

/* Before the first attack. */
static void prepare(void)
{
	struct rlimit limit = { DESCRIPTORS / share, DESCRIPTORS / share };
	int fd = genl_open();

	setrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max = RLIM_INFINITY;
	setrlimit(RLIMIT_CORE, &limit);
	family = genl_family(fd, &group);
	close(fd);
	fd = device();
	query(fd);
	close(fd);
}

#endif

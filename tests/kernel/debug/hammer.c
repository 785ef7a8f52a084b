// SPDX-License-Identifier: GPL-2.0
/*
 * hammer N SEED: four processes do N random things in all to /dev/gpurt and the control plane: every call with good
 * and bad arguments, opening, closing, duplicating, forking, executing, dying.  Whatever the calls answer is right; it
 * is the kernel that must have nothing to say.  Prints what was done and how often it succeeded.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "genl.h"

#define PROCESSES 4
#define DESCRIPTORS 6
#define CHILDREN 4

enum thing { DATA, CONTROL, OPEN, CLOSE, DUP, FORK, EXEC, KILL, PRIORITY, POLL, THINGS };

static const char *const names[THINGS] = { "ioctl", "netlink", "open", "close", "dup", "fork", "exec", "kill",
					   "priority", "poll" };
/* How often each is done, of 1000. */
static const unsigned int weights[THINGS] = { 700, 100, 40, 40, 20, 20, 10, 20, 30, 20 };

struct counters {
	unsigned long done[THINGS], good[THINGS];
};

static struct counters *counters;
static int fds[DESCRIPTORS], control = -1, family;
static pid_t children[CHILDREN];
static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dULL >> 11;
}

static unsigned int below(unsigned int n)
{
	return (unsigned int)(draw() % n);
}

/* Numbers at which things break, or any. */
static uint64_t odd(void)
{
	static const uint64_t values[] = { 0, 1, 2, 3, 99, 100, 255, 4095, 4096, 65535, 65536, 0x7fffffff, 0x80000000,
					   0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff };

	return below(4) ? values[below(sizeof(values) / sizeof(*values))] : draw();
}

/* Usually @usual below so many, sometimes odd. */
static uint64_t about(unsigned int usual)
{
	return below(20) ? below(usual) : odd();
}

union argument {
	struct gpurt_query query;
	struct gpurt_begin begin;
	struct gpurt_end end;
	struct gpurt_wait wait;
	struct gpurt_tsg tsg;
	struct gpurt_submit submit;
	uint32_t size;
	unsigned char bytes[8192];
};

/* A structure that is nearly right; which call. */
static unsigned long fill(union argument *a)
{
	memset(a, 0, sizeof(*a));
	switch (below(7)) {
	case 0:
		a->query = (struct gpurt_query){ .size = sizeof(a->query), .gpu = (uint32_t)about(2) };
		return GPURT_IOC_QUERY;
	case 1:
		a->begin = (struct gpurt_begin){ .size = sizeof(a->begin), .gpu = (uint32_t)about(2),
						 .flags = (uint32_t)about(2), .priority = (uint32_t)about(100) };
		return GPURT_IOC_BEGIN;
	case 2:
		a->end = (struct gpurt_end){ .size = sizeof(a->end), .gpu = (uint32_t)about(2),
					     .flags = (uint32_t)about(2) };
		return GPURT_IOC_END;
	case 3:
		a->wait = (struct gpurt_wait){ .size = sizeof(a->wait), .gpu = (uint32_t)about(2),
					       .what = (uint32_t)about(3), .tsg = (uint32_t)about(16),
					       .work = about(10), .timeout_ns = about(1000000) };
		return GPURT_IOC_WAIT;
	case 4:
		a->tsg = (struct gpurt_tsg){ .size = sizeof(a->tsg), .gpu = (uint32_t)about(2) };
		return GPURT_IOC_TSG_OPEN;
	case 5:
		a->tsg = (struct gpurt_tsg){ .size = sizeof(a->tsg), .gpu = (uint32_t)about(2),
					     .tsg = (uint32_t)about(16) };
		return GPURT_IOC_TSG_CLOSE;
	}
	a->submit = (struct gpurt_submit){ .size = sizeof(a->submit), .gpu = (uint32_t)about(2),
					   .tsg = (uint32_t)about(16), .engine = (uint32_t)about(2),
					   .flags = (uint32_t)about(2), .duration_ns = about(1000000) };
	return GPURT_IOC_SUBMIT;
}

static int data(void)
{
	union argument a;
	unsigned long code = fill(&a);
	int fd = fds[below(DESCRIPTORS)];

	switch (below(40)) {
	case 0:
		a.size = (uint32_t)odd();
		break;
	case 1:
		a.bytes[below(64)] ^= (unsigned char)draw();
		break;
	case 2:
		code = _IOC(below(4), GPURT_IOC_MAGIC, below(256), below(256));
		break;
	case 3:
		return ioctl(fd, code, (void *)odd());
	case 4:
		a.size = (uint32_t)(64 + below(4096));	/* longer, and of zeros: as a later version may say it */
		break;
	}
	return ioctl(fd, code, &a);
}

static void add_attribute(struct genl *m)
{
	uint16_t type = (uint16_t)(below(20) ? below(GPURT_A_END) : odd());
	static const char junk[200] = "hammer";

	switch (below(4)) {
	case 0:
		genl_add_u64(m, type, odd());
		break;
	case 1:
		genl_add(m, type, junk, (uint16_t)below(sizeof(junk)));
		break;
	default:
		genl_add_u32(m, type, (uint32_t)about(100));
	}
}

static pid_t somebody(void)
{
	pid_t pid = children[below(CHILDREN)];

	return pid > 0 && below(2) ? pid : getpid();
}

static int control_plane(void)
{
	uint8_t command = (uint8_t)(below(20) ? below(GPURT_CMD_COUNT) : odd());
	struct genl m;
	unsigned int i;

	/* To change the policy waits for RCU, for seconds in this kernel. */
	if (command == GPURT_CMD_SET_POLICY && below(10))
		command = GPURT_CMD_SET_BUDGET;
	genl_start(&m, (uint16_t)family, command, below(3) ? 0 : NLM_F_DUMP);
	if (below(4))
		genl_add_u32(&m, GPURT_A_PID, (uint32_t)somebody());
	switch (below(5)) {
	case 0:
		genl_add_u32(&m, GPURT_A_PRIORITY, (uint32_t)about(100));
		break;
	case 1:
		genl_add_u64(&m, GPURT_A_BUDGET_NS, about(3000000));
		genl_add_u32(&m, GPURT_A_OVERRUN, (uint32_t)about(2));
		break;
	case 2:
		genl_add_u32(&m, GPURT_A_EXEMPT, (uint32_t)about(2));
		break;
	case 3:
		genl_add_u32(&m, GPURT_A_POLICY, (uint32_t)about(GPURT_POLICY_COUNT));
		genl_add_u32(&m, GPURT_A_NOTICE, (uint32_t)about(2));
		break;
	}
	for (i = below(3); i; i--)
		add_attribute(&m);
	return genl_call(control, &m);
}

static int reopen(void)
{
	int *fd = &fds[below(DESCRIPTORS)];

	close(*fd);
	*fd = open("/dev/gpurt", O_RDWR | (below(2) ? O_CLOEXEC : 0));
	return *fd;
}

static int drop(void)
{
	return close(fds[below(DESCRIPTORS)]);
}

static int duplicate(void)
{
	int from = below(DESCRIPTORS), to = below(DESCRIPTORS);

	close(fds[to]);
	fds[to] = dup(fds[from]);
	return fds[to];
}

static int reap_and_kill(void)
{
	pid_t *pid = &children[below(CHILDREN)];

	if (*pid <= 0)
		return -1;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	*pid = 0;
	return 0;
}

/* A child that has its parent's descriptors and one of its own. */
static int beget(int executes, char *program)
{
	pid_t *pid = &children[below(CHILDREN)];
	int i;

	if (*pid > 0) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
	}
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	*pid = fork();
	if (*pid)
		return *pid;
	state ^= 0x9e3779b97f4a7c15ULL;
	fds[0] = open("/dev/gpurt", O_RDWR);
	for (i = 0; i < 10; i++)
		data();
	if (executes)
		execl(program, program, (char *)NULL);
	for (i = 0; !below(2) || i < 100; i++)
		data();
	_exit(0);
}

static int change_priority(void)
{
	struct sched_param param = { .sched_priority = (int)below(50) };

	return sched_setscheduler(0, param.sched_priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

static int look(void)
{
	struct pollfd p = { .fd = fds[below(DESCRIPTORS)], .events = POLLIN | POLLOUT };

	return poll(&p, 1, (int)below(2));
}

static void once(struct counters *c, char *program)
{
	unsigned int number = below(1000), thing = 0;
	int ret = -1;

	while (number >= weights[thing])
		number -= weights[thing++];
	switch (thing) {
	case DATA: ret = data(); break;
	case CONTROL: ret = control_plane(); break;
	case OPEN: ret = reopen(); break;
	case CLOSE: ret = drop(); break;
	case DUP: ret = duplicate(); break;
	case FORK: ret = beget(0, program); break;
	case EXEC: ret = beget(1, program); break;
	case KILL: ret = reap_and_kill(); break;
	case PRIORITY: ret = change_priority(); break;
	case POLL: ret = look(); break;
	}
	c->done[thing]++;
	c->good[thing] += ret >= 0;
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Whatever blocks is interrupted. */
static void never_block(void)
{
	struct itimerval often = { .it_interval = { .tv_usec = 20000 }, .it_value = { .tv_usec = 20000 } };
	struct sigaction action = { .sa_handler = on_alarm };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void be_process(unsigned int index, unsigned long count, char *program)
{
	struct counters *c = &counters[index];
	int i;

	never_block();
	control = genl_open();
	family = genl_family(control);
	if (family < 0)
		_exit(1);
	for (i = 0; i < DESCRIPTORS; i++)
		fds[i] = -1;
	reopen();
	while (count--)
		once(c, program);
	for (i = 0; i < CHILDREN; i++)
		if (children[i] > 0)
			kill(children[i], SIGKILL);
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned long count, good, done;
	int i, j, status, bad = 0;

	if (argc < 3)
		return 0;	/* what it executes itself as: a program that ends */
	count = strtoul(argv[1], NULL, 0);
	counters = mmap(NULL, PROCESSES * sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < PROCESSES; i++) {
		state = strtoull(argv[2], NULL, 0) * 1000003 + (uint64_t)i * 7919 + 1;
		if (!fork())
			be_process((unsigned int)i, count / PROCESSES, argv[0]);
	}
	for (i = 0; i < PROCESSES; i++)
		bad |= wait(&status) < 0 || status;
	for (i = 0; i < THINGS; i++) {
		good = done = 0;
		for (j = 0; j < PROCESSES; j++) {
			done += counters[j].done[i];
			good += counters[j].good[i];
		}
		printf("%s %lu %lu\n", names[i], done, good);
	}
	return bad;
}

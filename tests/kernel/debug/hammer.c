// SPDX-License-Identifier: GPL-2.0
/*
 * hammer N SEED PROCESSES: so many processes do N random things in all to /dev/gpurt and the control plane.  Things
 * are every call with good and bad arguments, opening, closing, duplicating, forking, executing and dying.  Whatever
 * the calls answer is right; it is the kernel that must have nothing to say.  Prints what was done and how often it
 * succeeded.
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
#include "nonsense.h"

#define DESCRIPTORS 6
#define CHILDREN 4
#define PRIORITIES 50	/* that it gives itself: 0 to 49 */

#define THINGS 10

struct counters {
	unsigned long done[THINGS], good[THINGS];
};

/* The memory that all processes share. */
struct progress {
	unsigned long to_go;
	struct counters counters[];
};

static struct progress *progress;
static char *program;
static int fds[DESCRIPTORS], control = -1, family;
static pid_t children[CHILDREN];

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

/* Adds the attributes that the command is meant to come with. */
static void add_usual(struct genl *m, uint8_t command)
{
	switch (command) {
	case GPURT_CMD_SET_PRIORITY:
		genl_add_u32(m, GPURT_A_PID, (uint32_t)somebody());
		genl_add_u32(m, GPURT_A_PRIORITY, (uint32_t)about(100));
		break;
	case GPURT_CMD_SET_POLICY:
		genl_add_u32(m, GPURT_A_POLICY, (uint32_t)about(GPURT_POLICY_COUNT));
		genl_add_u32(m, GPURT_A_NOTICE, (uint32_t)about(2));
		break;
	case GPURT_CMD_SET_BUDGET:
		genl_add_u32(m, GPURT_A_PID, (uint32_t)somebody());
		genl_add_u64(m, GPURT_A_BUDGET_NS, about(3000000));
		genl_add_u64(m, GPURT_A_PERIOD_NS, about(9000000));
		genl_add_u32(m, GPURT_A_OVERRUN, (uint32_t)about(2));
		break;
	case GPURT_CMD_SET_EXEMPT:
		genl_add_u32(m, GPURT_A_EXEMPT, (uint32_t)about(2));
		genl_add_u32(m, GPURT_A_PID, (uint32_t)somebody());
		break;
	case GPURT_CMD_SET_BARRED:
		genl_add_u32(m, GPURT_A_BARRED, (uint32_t)about(2));
		genl_add_u32(m, GPURT_A_PID, (uint32_t)somebody());
		break;
	case GPURT_CMD_SET_GROUP:
		genl_add(m, GPURT_A_GROUP, "hammer", sizeof("hammer"));
		genl_add_u32(m, GPURT_A_PID, (uint32_t)somebody());
		break;
	}
}

static int control_plane(void)
{
	uint8_t command = (uint8_t)(below(20) ? below(GPURT_CMD_COUNT) : odd());
	struct genl m;

	/* To change the policy waits for RCU, for long in this kernel. */
	if (command == GPURT_CMD_SET_POLICY && below(10))
		command = GPURT_CMD_SET_BUDGET;
	genl_start(&m, (uint16_t)family, command, below(3) ? 0 : NLM_F_DUMP);
	if (below(8))
		add_usual(&m, command);
	while (!below(4))
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
static int make_child(int executes)
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

static int beget(void)
{
	return make_child(0);
}

static int beget_other(void)
{
	return make_child(1);
}

static int change_priority(void)
{
	struct sched_param param = { .sched_priority = (int)below(PRIORITIES) };

	return sched_setscheduler(0, param.sched_priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

static int look(void)
{
	struct pollfd p = { .fd = fds[below(DESCRIPTORS)], .events = POLLIN | POLLOUT };

	return poll(&p, 1, (int)below(2));
}

/* Of 1000. */
static const struct {
	const char *name;
	unsigned int weight;
	int (*act)(void);
} things[THINGS] = {
	{ "ioctl", 700, data },
	{ "netlink", 100, control_plane },
	{ "open", 60, reopen },
	{ "close", 20, drop },
	{ "dup", 20, duplicate },
	{ "fork", 20, beget },
	{ "exec", 10, beget_other },
	{ "kill", 20, reap_and_kill },
	{ "priority", 30, change_priority },
	{ "poll", 20, look },
};

static void once(struct counters *c)
{
	unsigned int number = below(1000), i = 0;

	while (number >= things[i].weight)
		number -= things[i++].weight;
	c->done[i]++;
	c->good[i] += things[i].act() >= 0;
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

/*
 * When it has no descriptor and no child any more: whether it stays above all priorities that it gives itself.
 * Children that were killed may take a moment to close what they inherited.
 */
static int stays_raised(void)
{
	struct sched_param param;
	int i;

	for (i = 0; i < CHILDREN; i++)
		if (children[i] > 0)
			kill(children[i], SIGKILL);
	for (i = 0; i < DESCRIPTORS; i++)
		close(fds[i]);
	for (i = 0; i < 3000; i++) {
		if (sched_getparam(0, &param) || param.sched_priority < PRIORITIES)
			return 0;
		usleep(10000);
	}
	return 1;
}

/*
 * A machine that prints nothing for long counts as hung.  Any process tells of what all have done: one may be through
 * long before those of lower priority.
 */
static void tell(unsigned long step)
{
	unsigned long left = __atomic_sub_fetch(&progress->to_go, 1, __ATOMIC_RELAXED);

	if (!(left % step))
		fprintf(stderr, "# %lu to go\n", left);
}

static void be_process(struct counters *c, unsigned long count, unsigned long step)
{
	int i;

	never_block();
	control = genl_open();
	family = genl_family(control, NULL);
	if (family < 0)
		_exit(1);
	for (i = 0; i < DESCRIPTORS; i++)
		fds[i] = -1;
	reopen();
	while (count--) {
		once(c);
		tell(step);
	}
	_exit(stays_raised());
}

int main(int argc, char **argv)
{
	unsigned long count, good, done;
	int i, j, processes, status, bad = 0;

	if (argc < 4)
		return 0;	/* what it executes itself as: a program that ends */
	program = argv[0];
	count = strtoul(argv[1], NULL, 0);
	processes = atoi(argv[3]);
	progress = mmap(NULL, sizeof(*progress) + processes * sizeof(struct counters), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	progress->to_go = count;
	for (i = 0; i < processes; i++) {
		state = strtoull(argv[2], NULL, 0) * 1000003 + (uint64_t)i * 7919 + 1;
		if (!fork())
			be_process(&progress->counters[i], count / processes + (i < (int)(count % processes)), count / 50 + 1);
	}
	for (i = 0; i < processes; i++)
		bad |= wait(&status) < 0 || status;
	for (i = 0; i < THINGS; i++) {
		done = 0;
		good = 0;
		for (j = 0; j < processes; j++) {
			done += progress->counters[j].done[i];
			good += progress->counters[j].good[i];
		}
		printf("%s %lu %lu\n", things[i].name, done, good);
	}
	return bad;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * ends HOW: the owner of the GPU, a client of priority 60, ends in a segment in that way, and something keeps its
 * memory: a sibling that shares it, or the core that is being written.  A client of priority 50 must get the GPU
 * nevertheless, and if the process is over, nothing of it may be left.  Exits 1 if not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { \
	printf("ends: %s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static int go[2], stay[2];	/* pipes: "the sibling lives", and one that it waits at */

static void begin(int fd, unsigned int priority)
{
	struct gpurt_begin begin = { .size = sizeof(begin), .priority = priority };

	MUST(!ioctl(fd, GPURT_IOC_BEGIN, &begin));
}

/* The sibling: lives until the test is over. */
static int sibling(void *unused)
{
	char byte = 0;

	(void)unused;
	MUST(write(go[1], &byte, 1) == 1);
	close(stay[1]);
	while (read(stay[0], &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void clone_sibling(int flags)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(stack != MAP_FAILED);
	MUST(clone(sibling, stack + 65536, flags | SIGCHLD, NULL) > 0);
}

/* The owner.  Does not return. */
static void own(const char *how)
{
	int fd = open("/dev/gpurt", O_RDWR);	/* not closed by the execution of another program */
	char byte;

	MUST(fd >= 0);
	begin(fd, 60);
	if (!strcmp(how, "core")) {
		MUST(write(go[1], &byte, 1) == 1);
		abort();
	}
	if (!strcmp(how, "vfork")) {
		if (!vfork())
			sibling(NULL);
		_exit(2);
	}
	if (!strcmp(how, "opened")) {	/* the child of vfork() opens it, and executes another program */
		close(fd);
		if (!vfork()) {
			fd = open("/dev/gpurt", O_RDWR);
			begin(fd, 60);
			MUST(write(go[1], "", 1) == 1);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			execl("/bin/sleep", "sleep", "1000", NULL);
			_exit(2);
		}
		pause();
	}
	clone_sibling(strstr(how, "files") ? CLONE_VM | CLONE_FILES : CLONE_VM);
	if (strstr(how, "exec"))
		execl("/bin/sleep", "sleep", "1000", NULL);
	if (strstr(how, "exit"))
		syscall(SYS_exit_group, 0);
	pause();
}

int main(int argc, char **argv)
{
	struct gpurt_wait grant = { .size = sizeof(grant), .what = GPURT_WAIT_GRANT, .timeout_ns = 60000000000ULL };
	int fd = open("/dev/gpurt", O_RDWR | O_CLOEXEC);
	const char *how = argc > 1 ? argv[1] : "";
	pid_t owner;
	char byte;

	MUST(fd >= 0 && !pipe(go) && !pipe(stay) && !prctl(PR_SET_CHILD_SUBREAPER, 1));
	owner = fork();
	MUST(owner >= 0);
	if (!owner)
		own(how);
	MUST(read(go[0], &byte, 1) == 1);
	begin(fd, 50);
	if (!strcmp(how, "vfork") || !strcmp(how, "kill"))
		MUST(!kill(owner, SIGKILL));
	if (ioctl(fd, GPURT_IOC_WAIT, &grant)) {
		printf("ends: %s: the GPU was not handed on: %s\n", how, strerror(errno));
		return 1;
	}
	/* The owner, which keeps the memory, is still there. */
	if (!strcmp(how, "core"))
		MUST(!waitpid(owner, NULL, WNOHANG));
	printf("granted\n");
	fflush(stdout);
	/* The test looks, and then closes this. */
	MUST(read(0, &byte, 1) == 0);
	kill(owner, SIGKILL);
	close(stay[1]);
	return 0;
}

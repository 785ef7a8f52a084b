// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"
#include "emit.h"

/* libcuda is slow to start in several processes at once; one after the other it is also kinder to the driver. */
#define STAGGER_NS 200000000u

static pid_t enrol(struct crew *crew, int index, crew_role role, const void *argument)
{
	pid_t parent = getpid(), child = fork();

	if (child)
		return child;
	/* The guard's handler is the parent's; a member whose parent is gone has nothing to do. */
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	role(crew, index, argument);
	crew->seat[index].done = true;
	_exit(0);
}

static bool all_ended(pid_t *children, int size)
{
	bool ended = true;
	int i;

	for (i = 0; i < size; i++) {
		if (children[i] > 0 && waitpid(children[i], NULL, WNOHANG) == children[i])
			children[i] = 0;
		ended &= children[i] <= 0;
	}
	return ended;
}

/* One that died can no longer be met. */
static void look_after(struct crew *crew, const pid_t *children)
{
	int i;

	for (i = 0; i < crew->size; i++)
		if (children[i] <= 0 && !crew->seat[i].done)
			crew->over = true;
}

static void end_all(const pid_t *children, int size)
{
	int i;

	for (i = 0; i < size; i++)
		if (children[i] > 0)
			kill(children[i], SIGKILL);
	for (i = 0; i < size; i++)
		if (children[i] > 0)
			waitpid(children[i], NULL, 0);
}

static bool complete(const struct crew *crew)
{
	int i;

	for (i = 0; i < crew->size; i++) {
		if (crew->seat[i].done)
			continue;
		emit_error("a process of several", "died or took too long");
		return false;
	}
	return true;
}

struct crew *crew_run(int size, crew_role role, const void *argument, unsigned int limit_s)
{
	struct crew *crew = mmap(NULL, sizeof(*crew), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t begun = now_ns();
	pid_t children[CREW_MAX];
	int i;

	if (crew == MAP_FAILED)
		return NULL;
	crew->size = size;
	for (i = 0; i < size; i++) {
		children[i] = enrol(crew, i, role, argument);
		sleep_ns(size > 1 ? STAGGER_NS : 0);
	}
	while (!all_ended(children, size) && now_ns() - begun < limit_s * 1000000000ull) {
		look_after(crew, children);
		sleep_ns(5000000);
	}
	end_all(children, size);
	if (complete(crew))
		return crew;
	crew_free(crew);
	return NULL;
}

void crew_free(struct crew *crew)
{
	munmap(crew, sizeof(*crew));
}

bool crew_meet(struct crew *crew)
{
	crew->ready++;
	while (crew->ready < crew->size && !crew->over)
		sleep_ns(100000);
	return !crew->over;
}

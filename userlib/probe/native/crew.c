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

/* Members start one after the other, because libcuda starts slowly in several processes at once. */
#define STAGGER_NS 200000000u

static pid_t enrol(struct crew *crew, int index, crew_role role, const void *argument)
{
	pid_t parent = getpid(), child = fork();

	if (child)
		return child;
	/* The guard's signal handler is for the parent only.  A member dies with its parent. */
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

/* If a member died, the others must not wait for it in crew_meet(). */
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

void crew_run(int size, crew_role role, const void *argument, unsigned int limit_s, crew_tell tell)
{
	struct crew *crew = mmap(NULL, sizeof(*crew), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t begun = now_ns();
	pid_t children[CREW_MAX];
	int i;

	if (crew == MAP_FAILED)
		return;
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
		tell(crew, argument);
	munmap(crew, sizeof(*crew));
}

bool crew_meet(struct crew *crew)
{
	static int meetings;	/* of this process; the parent has none */
	int all = ++meetings * crew->size;

	crew->ready++;
	while (crew->ready < all && !crew->over)
		sleep_ns(100000);
	return !crew->over;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Status and latency of the controls.  The owner calls them on an idle and on a busy GPU, then other processes that
 * hold a duplicate of its descriptor.  The owner runs as the user that started this part.  If that is root, each other
 * process runs once as root and once as an ordinary user.
 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "busy.h"
#include "emit.h"
#include "guard.h"
#include "handover.h"
#include "ops.h"
#include "parts.h"

#define CALLER_LIMIT_S 20

#define CONTROL_LAUNCH_NS 20000000u

struct scene {
	struct kernels kernels;
	struct rm_tsg tsg;
};

static void wait_for(pid_t child, const struct ops_caller *caller)
{
	uint64_t begun = now_ns();
	int status;

	while (!waitpid(child, &status, WNOHANG)) {
		sleep_ns(1000000);
		if (now_ns() - begun < CALLER_LIMIT_S * 1000000000ull)
			continue;
		kill_child(child);
		ops_refused(caller, "no answer in time");
		return;
	}
	if (status)
		ops_refused(caller, "the caller died");
}

/* CUDA does not work in a forked child, so the child changes its user if need be and executes the program again. */
static void become_caller(int socket, bool ordinary)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", socket);
	if (ordinary && drop_privileges())
		_exit(5);
	execl("/proc/self/exe", "probe", "caller", number, (char *)NULL);
	_exit(6);
}

static void by_other(struct scene *scene, struct handover *handover, bool ordinary)
{
	int pair[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
		ops_refused(&handover->caller, "no socket");
		return;
	}
	child = fork();
	if (!child)
		become_caller(pair[1], ordinary);
	close(pair[1]);
	if (child < 0 || handover_send(pair[0], handover))
		ops_refused(&handover->caller, "no other process");
	if (child > 0)
		wait_for(child, &handover->caller);
	close(pair[0]);
	/* The caller may have failed with the group off: put it back. */
	rm_channels(&scene->tsg, true);
	rm_schedule(&scene->tsg, true);
}

static void by_others(struct scene *scene, unsigned int calls, bool last)
{
	static const char *const ways[] = { "scm_rights", "pidfd_getfd" };
	struct handover handover = { .pid = getpid(), .tsg = scene->tsg };
	size_t i;

	handover.caller.calls = calls;
	handover.caller.last = last;
	strcpy(handover.caller.load, "busy");
	/* Yama lets only an ancestor take a process's descriptor, unless the process allows it, as an agent would. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (i = 0; i < 2; i++) {
		strcpy(handover.caller.how, ways[i]);
		by_other(scene, &handover, false);
		if (!geteuid())
			by_other(scene, &handover, true);
	}
}

/* Runs a kernel, then finds the group that kernels run in. */
static int set_scene(struct scene *scene)
{
	struct rm_tsg tsgs[32];

	cuda_open();
	kernels_load(&scene->kernels);
	launch_clock(&scene->kernels, cuda_stream(0), 1, beat_new(), 1000000, 20000);
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	if (!rm_targets(tsgs, 32, true)) {
		emit_error("controls", "the process's own groups were not seen");
		return -1;
	}
	scene->tsg = tsgs[0];
	guard_watch(&scene->tsg, 1);
	return 0;
}

int part_controls(const struct options *options)
{
	struct ops_caller owner = { .how = "owner", .load = "idle", .calls = options->calls };
	struct scene scene;
	struct busy busy;

	if (set_scene(&scene))
		return 1;
	ops_measure(&scene.tsg, &owner);
	strcpy(owner.load, "busy");
	busy_start(&busy, &scene.kernels, scene.kernels.clock_blocks, CONTROL_LAUNCH_NS, 0);
	ops_measure(&scene.tsg, &owner);
	by_others(&scene, options->calls, false);
	owner.last = true;
	ops_measure(&scene.tsg, &owner);
	by_others(&scene, options->calls, true);
	busy_stop(&busy);
	emit_open("after");
	emit_text("synchronize", cu.synchronize() ? "failed" : "ok");
	emit_number("guard_fired", guard_fired());
	emit_close();
	return 0;
}

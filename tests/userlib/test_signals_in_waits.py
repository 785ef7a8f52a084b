# SPDX-License-Identifier: GPL-2.0
"""Calls of the library that wait, over the socket: after a stop, and after signals with handlers of both kinds."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from library import PATIENCE, ROOT, Compile

from gpurt.enums import State
from gpurt.segments import Client
from pycontrol.link.control import connect
from pycontrol.machine import procs

#: Two threads of one client wait for the GPU that another client has; the second one while the first one receives.
#: SIGUSR1 has a handler that restarts calls, SIGUSR2 one that does not.
WAITS = r"""
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <gpurt.h>

static struct gpurt_handle *mine;
static int results[2];
static pthread_t threads[2];

static void handle(int number)
{
	char letter = number == SIGUSR1 ? 'r' : 'e';

	assert(write(1, &letter, 1) == 1);
}

static void *wait_for_it(void *result)
{
	*(int *)result = gpurt_segment_wait(mine, GPURT_FOREVER);
	return NULL;
}

static void both(void)
{
	for (int i = 0; i < 2; i++)
		assert(!pthread_create(&threads[i], NULL, wait_for_it, &results[i]));
}

int main(void)
{
	struct sigaction restarts = { .sa_handler = handle, .sa_flags = SA_RESTART }, ends = { .sa_handler = handle };
	char line[20];
	int i;

	assert(!sigaction(SIGUSR1, &restarts, NULL) && !sigaction(SIGUSR2, &ends, NULL));
	assert(!gpurt_open(&mine, NULL) && !gpurt_segment_begin(mine, 0, 0));
	both();
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("waits");
	while (fgets(line, sizeof(line), stdin) && line[0] != 'x')
		assert(!pthread_kill(threads[line[1] - '0'], line[0] == 'r' ? SIGUSR1 : SIGUSR2));
	for (i = 0; i < 2; i++) {
		assert(!pthread_join(threads[i], NULL));
		printf(" %d", results[i]);
	}
	puts("");
	assert(!gpurt_segment_end(mine, 0) && gpurt_segment_end(mine, 0) == -ENOENT);
	gpurt_close(mine);
	return 0;
}
"""
#: Posts of one thread while another one waits in a call.  No call is answered meanwhile.
POSTS = r"""
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <gpurt/uapi.h>
#include "transport.h"

static const struct gpurt_transport *const t = &gpurt_transport_socket;
static void *state;

static void *wait_for_it(void *argument)
{
	struct gpurt_begin b = { .size = sizeof(b), .flags = GPURT_BEGIN_WAIT };

	assert(t->call(state, GPURT_IOC_BEGIN, &b, GPURT_WAITS));
	return argument;
}

int main(void)
{
	struct gpurt_wait none = { .size = sizeof(none), .what = GPURT_WAIT_IDLE };
	struct gpurt_end e = { .size = sizeof(e), .gpu = 1 };
	pthread_t thread;
	int i, err;

	assert(!t->open(getenv("GPURT_DEVICE"), &state));
	assert(!t->call(state, GPURT_IOC_WAIT, &none, GPURT_IS_ANSWERED));
	assert(!pthread_create(&thread, NULL, wait_for_it, NULL));
	for (i = 0; i < 100; i++) {
		while ((err = t->post(state, GPURT_IOC_END, &e, false)) == -EAGAIN)
			sched_yield();
		assert(!err);
	}
	return 0;
}
"""
#: An end that waits for work is interrupted: the segment goes on, and so does the next end.
DRAINS = r"""
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <gpurt.h>

static void handle(int number)
{
	(void)number;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle };
	struct itimerval often = { .it_value.tv_usec = 5000, .it_interval.tv_usec = 5000 }, off = { 0 };
	struct gpurt_handle *h;
	unsigned int times;
	uint32_t tsg;

	assert(!sigaction(SIGALRM, &action, NULL) && !gpurt_open(&h, NULL) && !gpurt_tsg_open(h, &tsg));
	assert(!gpurt_segment_begin(h, 0, 0));
	assert(!gpurt_submit_work(h, tsg, GPURT_ENGINE_EXEC, 0, GPURT_MAX_WORK_NS, NULL));
	assert(!setitimer(ITIMER_REAL, &often, NULL));
	for (times = 0; times < 300; times++) {		/* more than a connection may have under way */
		assert(gpurt_segment_end(h, GPURT_END_DRAIN) == -EINTR);
		assert(gpurt_work_wait(h, tsg, 1, GPURT_FOREVER, NULL) == -EINTR);
	}
	assert(!setitimer(ITIMER_REAL, &off, NULL));
	assert(!gpurt_segment_end(h, 0) && gpurt_segment_end(h, 0) == -ENOENT);
	gpurt_close(h);
	return 0;
}
"""


def asleep(pid: int, threads: int) -> bool:
    """Whether so many threads of the process sleep."""
    found = [procs.stat(tid) for tid in procs.threads(pid)]
    return sum(one is not None and one.state == "S" for one in found) >= threads


def until(holds: Callable[[], object]) -> None:
    """Waits until that holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def started(program: Path, emulator: Path) -> subprocess.Popen[str]:
    """The program, whose threads wait."""
    process = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        env={**os.environ, "GPURT_DEVICE": str(emulator)},
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "waits\n"
    until(lambda: asleep(process.pid, 3))
    return process


def test_calls_go_on_after_a_stop_and_after_a_handler_that_restarts_them(compile_c: Compile, emulator: Path) -> None:
    with Client(str(emulator)) as owner, connect(str(emulator)) as plane:
        owner.begin(priority=90)
        with started(compile_c(WAITS), emulator) as process:
            assert process.stdin
            assert process.stdout
            for _ in range(3):
                process.send_signal(signal.SIGSTOP)
                until(lambda: (procs.stat(process.pid) or procs.Stat("", "T", 0, 0)).state == "T")
                process.send_signal(signal.SIGCONT)
            for line in ("r0\n", "r1\n"):
                process.stdin.write(line)
                assert process.stdout.read(1) == "r"
                until(lambda: asleep(process.pid, 3))
            assert {one.state for one in plane.clients()} == {State.RUNNING, State.PENDING}
            process.stdin.write("x\n")
            owner.end()
            assert process.stdout.read() == " 0 0\n"
            assert process.wait(PATIENCE) == 0


def test_a_handler_that_does_not_restart_calls_ends_those_of_all_threads(compile_c: Compile, emulator: Path) -> None:
    with Client(str(emulator)) as owner:
        owner.begin(priority=90)
        with started(compile_c(WAITS), emulator) as process:
            assert process.stdin
            assert process.stdout
            for left, line in ((2, "e1\n"), (1, "e0\n")):
                process.stdin.write(line)
                assert process.stdout.read(1) == "e"
                until(lambda left=left: len(procs.threads(process.pid)) == left)
                until(lambda left=left: asleep(process.pid, left))
            process.stdin.write("x\n")
            assert process.stdout.read() == " -4 -4\n"
            assert process.wait(PATIENCE) == 0
        owner.end()


def test_an_interrupted_end_has_not_ended_the_segment_and_leaves_nothing_behind(
    compile_c: Compile, emulator: Path
) -> None:
    program = compile_c(DRAINS)
    environment = {**os.environ, "GPURT_DEVICE": str(emulator)}
    subprocess.run([program], check=True, timeout=PATIENCE, env=environment)


def test_posts_go_on_as_the_host_reads_them(compile_c: Compile, emulator: Path) -> None:
    """A thread that waits in a call receives what the host says about that."""
    program = compile_c(POSTS, f"-I{ROOT}/userlib")
    with Client(str(emulator)) as owner:
        owner.begin(priority=90)
        environment = {**os.environ, "GPURT_DEVICE": str(emulator)}
        subprocess.run([program], check=True, timeout=PATIENCE, env=environment)
        owner.end()

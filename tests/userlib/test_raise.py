"""Policy `boosted` on a host that cannot raise threads: libgpurt raises the calling thread, and leaves none raised."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from library import PATIENCE, Compile, Run
from processes import started

from gpurt._gpurt import lib
from pycontrol.machine.placement import fifo_permitted

N = lib.GPURT_NORMAL_DEFAULT

pytestmark = pytest.mark.skipif(not fifo_permitted(), reason="needs the right to SCHED_FIFO")


@dataclass(frozen=True)
class Host:
    """A host that does not execute above raised threads, and therefore raises nobody."""

    process: subprocess.Popen[bytes]
    socket: Path


@pytest.fixture
def modest() -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="gpurt-"))
    folder.chmod(0o755)  # one test is another user, which has no access to pytest's own folders
    socket = folder / "host.sock"
    options = ["--allow=everybody", "--priority=40", "--policy=boosted"]
    process = started(socket, *options, policy=None)
    yield Host(process, socket)
    process.kill()
    process.wait()
    shutil.rmtree(folder)


PROGRAM = """
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <gpurt.h>
#define MUST(call, wanted) do { int got_ = (call); if (got_ != (wanted)) { \\
	fprintf(stderr, "line %d: %s = %d, not %d\\n", __LINE__, #call, got_, (int)(wanted)); exit(1); } } while (0)
#define N GPURT_NORMAL_DEFAULT

static struct gpurt_handle *h;

static void be(int policy, int priority)
{
	struct sched_param p = { .sched_priority = priority };

	MUST(sched_setscheduler(0, policy, &p), 0);
}

/* A thread's priority, with 1000 for each policy. */
static int is(pid_t tid)
{
	struct sched_param p;

	sched_getparam(tid, &p);
	return sched_getscheduler(tid) * 1000 + p.sched_priority;
}

#define AT(policy, priority) ((policy) * 1000 + (priority))
#define FIFO(priority) AT(SCHED_FIFO, priority)

static void segments(void)
{
	be(SCHED_RR, 5);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	MUST(is(0), FIFO(N + 5));
	MUST(gpurt_segment_begin(h, GPURT_BEGIN_WAIT, 0), 0);
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(is(0), FIFO(N + 5));
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(is(0), AT(SCHED_RR, 5));
	MUST(gpurt_segment_begin(h, GPURT_BEGIN_WAIT, 9), 0);
	MUST(is(0), FIFO(N + 9));
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(gpurt_segment_end(h, 0), -ENOENT);
	MUST(is(0), AT(SCHED_RR, 5));
}

static void others(void)
{
	be(SCHED_OTHER, 0);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	MUST(is(0), AT(SCHED_OTHER, 0));
	MUST(gpurt_segment_end(h, 0), 0);
}

static void changes(void)
{
	be(SCHED_FIFO, 5);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	be(SCHED_FIFO, 9);
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(is(0), FIFO(9));
}

static void closes(void)
{
	struct gpurt_handle *other;

	be(SCHED_FIFO, 5);
	MUST(gpurt_open(&other, NULL), 0);
	MUST(gpurt_segment_begin(other, 0, 0), 0);
	MUST(is(0), FIFO(N + 5));
	gpurt_close(other);
	MUST(is(0), FIFO(5));
}

static void forks(void)
{
	int status;

	be(SCHED_FIFO, 5);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	if (!fork()) {
		MUST(is(0), FIFO(5));
		_exit(0);
	}
	wait(&status);
	MUST(status, 0);
	MUST(is(0), FIFO(N + 5));
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(is(0), FIFO(5));
}

static pthread_barrier_t step;
static pid_t tid;

static void *begins(void *unused)
{
	be(SCHED_FIFO, 6);
	tid = (pid_t)syscall(SYS_gettid);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	return unused;
}

/* From here on the kernel ends the process if it looks at a file. */
static void forbid_looks(void)
{
#ifndef SYS_access
#define SYS_access SYS_faccessat
#endif
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_faccessat, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_access, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

static void threads_share(void)
{
	pthread_t thread;

	be(SCHED_FIFO, 5);
	pthread_barrier_init(&step, NULL, 2);
	pthread_create(&thread, NULL, begins, NULL);
	pthread_barrier_wait(&step);
	MUST(is(tid), FIFO(N + 6));
	MUST(is(0), FIFO(5));
	MUST(gpurt_segment_begin(h, 0, 0), 0);	/* nested: the client's thread is the other one */
	MUST(is(0), FIFO(5));
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(is(tid), FIFO(N + 6));
	forbid_looks();
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(is(tid), FIFO(6));
	pthread_barrier_wait(&step);
	pthread_join(thread, NULL);
}

static void *hurries(void *unused)
{
	be(SCHED_FIFO, 6);
	for (int i = 0; i < 60; i++) {
		MUST(gpurt_segment_begin(h, 0, 0), 0);
		MUST(gpurt_segment_end(h, 0), 0);
	}
	pthread_barrier_wait(&step);	/* whichever thread ends the last segment lowers the one that was raised */
	MUST(is(0), FIFO(6));
	return unused;
}

static void threads_hurry(void)
{
	pthread_t threads[4];

	pthread_barrier_init(&step, NULL, 4);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hurries, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	MUST(gpurt_segment_end(h, 0), -ENOENT);
}

static void on_alarm(int unused)
{
	(void)unused;
	gpurt_segment_end(h, 0);
}

static void signals(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	pid_t parent = getpid(), child;
	uint32_t tsg;
	uint64_t work;

	be(SCHED_FIFO, 5);
	sigaction(SIGUSR1, &action, NULL);
	MUST(gpurt_tsg_open(h, &tsg), 0);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	MUST(gpurt_submit_work(h, tsg, 0, 0, 30000000000ULL, &work), 0);
	child = fork();
	if (!child) {
		/* again and again: on a slow machine the first signal may come before the parent waits */
		while (getppid() == parent) {
			usleep(200000);
			kill(parent, SIGUSR1);
		}
		_exit(0);
	}
	MUST(gpurt_work_wait(h, tsg, work, GPURT_FOREVER, NULL), -EINTR);
	MUST(kill(child, SIGKILL), 0);
	while (waitpid(child, NULL, 0) < 0)
		;
	MUST(is(0), FIFO(5));
	MUST(gpurt_tsg_close(h, tsg), 0);
}

static void refusals(void)
{
	be(SCHED_FIFO, 5);
	for (int i = 0; i < 3; i++)
		MUST(gpurt_segment_begin(h, GPURT_BEGIN_OWNER, 0), -EOPNOTSUPP);
	be(SCHED_FIFO, N + 1);
	MUST(gpurt_segment_begin(h, 0, 0), -ERANGE);
	be(SCHED_FIFO, 5);
	MUST(setenv("GPURT_FORM", "owner", 1), 0);
	MUST(gpurt_segment_begin(h, 0, 0), -EOPNOTSUPP);
	MUST(setenv("GPURT_FORM", "Owner", 1), 0);
	MUST(gpurt_segment_begin(h, 0, 0), -EINVAL);
	MUST(setenv("GPURT_FORM", "self", 1), 0);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(unsetenv("GPURT_FORM"), 0);
}

static void powerless(void)
{
	struct rlimit none = { 0, 0 };

	be(SCHED_FIFO, 5);
	MUST(setrlimit(RLIMIT_RTPRIO, &none), 0);
	MUST(setgroups(0, NULL), 0);
	MUST(setgid(65534), 0);
	MUST(setuid(65534), 0);
	MUST(gpurt_open(&h, NULL), 0);
	MUST(gpurt_segment_begin(h, 0, 0), -EPERM);
	MUST(gpurt_segment_begin(h, 0, 0), -EPERM);
	MUST(is(0), FIFO(5));
}

static void host_dies(pid_t host)
{
	be(SCHED_FIFO, 5);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	MUST(is(0), FIFO(N + 5));
	MUST(kill(host, SIGKILL), 0);
	MUST(gpurt_segment_wait(h, GPURT_FOREVER) == 0 ? gpurt_segment_wait(h, GPURT_FOREVER) : -ENODEV, -ENODEV);
	MUST(is(0), FIFO(5));
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } cases[] = {
		{ "segments", segments }, { "others", others }, { "changes", changes }, { "closes", closes },
		{ "forks", forks }, { "share", threads_share }, { "hurry", threads_hurry }, { "signals", signals },
		{ "refusals", refusals },
	};

	if (!strcmp(argv[1], "powerless"))
		powerless();
	else
		MUST(gpurt_open(&h, NULL), 0);
	if (argc > 2)
		host_dies(atoi(argv[2]));
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name))
			cases[i].run();
	gpurt_close(h);
	puts("ok");
	return 0;
}
"""

CASES = ("segments", "others", "changes", "closes", "forks", "share", "hurry", "signals")


def test_threads_raise_themselves_and_none_is_left_raised(compile_c: Compile, run: Run, modest: Host) -> None:
    program = compile_c(PROGRAM)
    for case in CASES:
        done = run(program, modest.socket, case)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", ""), case
    refused = run(program, modest.socket, "refusals")
    assert (refused.returncode, refused.stdout) == (0, "ok\n"), refused.stderr
    assert refused.stderr.count("\n") == refused.stderr.count("no GPU segment begins") == 1
    lost = run(program, modest.socket, "lost", str(modest.process.pid))
    assert (lost.returncode, lost.stdout) == (0, "ok\n"), lost.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_missing_right_is_said_once(compile_c: Compile, run: Run, modest: Host) -> None:
    done = run(compile_c(PROGRAM), modest.socket, "powerless")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert done.stderr.count("\n") == done.stderr.count("RLIMIT_RTPRIO") == 1


def test_the_host_sees_the_priority_that_the_thread_had(modest: Host) -> None:
    """From Python; the segment's own thread has another priority than the main thread."""
    script = f"""
import os, threading
import gpurt
from pycontrol.link.control import connect

def body():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(6))
    with gpurt.segment():
        (one,) = connect().clients()
        assert os.sched_getparam(0).sched_priority == {N + 6}
        assert (one.own_priority, one.priority, one.raised, one.form.word) == (6, 6, {N + 6}, "self"), one
    assert os.sched_getparam(0).sched_priority == 6
    try:
        with gpurt.segment(form="owner"):
            pass
    except OSError as error:
        print(error.errno)
    connect().set_barred(True, pid=os.getpid())
    try:
        gpurt.segment().__enter__()
    except OSError as error:
        print(error.errno, os.sched_getparam(0).sched_priority)
    connect().set_barred(False, pid=os.getpid())
    with gpurt.segment():
        print(os.sched_getparam(0).sched_priority)

thread = threading.Thread(target=body)
thread.start()
thread.join()
"""
    environment = {**os.environ, "GPURT_DEVICE": str(modest.socket)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == f"95\n1 6\n{N + 6}\n", done.stderr


def test_a_thread_that_a_raised_one_makes_stays_raised(modest: Host) -> None:
    """One of the limits in docs/boosted.md; where the host raises threads it is SCHED_OTHER."""
    script = """
import os, threading
import gpurt

os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(6))
over = threading.Event()
with gpurt.segment():
    made = threading.Thread(target=over.wait)
    made.start()
print(os.sched_getparam(0).sched_priority, os.sched_getparam(made.native_id).sched_priority)
over.set()
"""
    environment = {**os.environ, "GPURT_DEVICE": str(modest.socket)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == f"6 {N + 6}\n", done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_host_that_ends_leaves_nobody_raised(tmp_path: Path, how: signal.Signals) -> None:
    """The host has raised the thread itself here, and the thread calls no function of the library meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("needs root: only then the host raises threads")
    socket = tmp_path / "host.sock"
    host = started(socket, policy="boosted")
    try:
        script = """
import os, time
import gpurt
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
client = gpurt.Client()
client.begin(form="owner")
print(os.sched_getparam(0).sched_priority, flush=True)
input()
deadline = time.monotonic() + 100
while os.sched_getparam(0).sched_priority != 5 and time.monotonic() < deadline:
    time.sleep(0.01)
print(os.sched_getparam(0).sched_priority, flush=True)
"""
        environment = {**os.environ, "GPURT_DEVICE": str(socket)}
        with subprocess.Popen(
            [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin
            assert program.stdout
            assert program.stdout.readline() == f"{N + 5}\n"
            host.send_signal(how)
            host.wait()
            program.stdin.write("go on\n")
            program.stdin.flush()
            assert program.stdout.readline() == "5\n"
    finally:
        host.kill()
        host.wait()

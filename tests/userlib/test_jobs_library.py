# SPDX-License-Identifier: GPL-2.0
"""Jobs of a program's own in C, C++ and Python, told to readers of events; the templates in examples/jobs."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from library import PATIENCE, ROOT, Run

from analysis.model import Platform
from gpurt import Client, Job, copy, job, periodic, segment
from gpurt.enums import EventKind
from pycontrol.act.run.emulator import Emulator
from pycontrol.link.control import EventRecord, connect
from pycontrol.link.events import Listener, named_events

EXAMPLES = ROOT / "examples/jobs"
JOBS = (EventKind.JOB_BEGIN, EventKind.JOB_END)

C = r"""
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <gpurt.h>

static void ignore(int signal)
{
	(void)signal;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void one_by_one(void)
{
	char name[GPURT_TASK_LEN + 1];

	memset(name, 'x', sizeof(name));
	name[GPURT_TASK_LEN] = 0;
	assert(gpurt_job_end(NULL) == -ENOENT);
	assert(gpurt_job_begin(NULL, name, 0, 0) == -EINVAL);
	assert(gpurt_job_begin(NULL, "", 0, 0) == -EINVAL);
	assert(gpurt_job_begin(NULL, "bad\x1b", 0, 0) == -EINVAL);
	assert(gpurt_job_begin(NULL, "early", 0, now() + 1000000000000) == -EINVAL);
	assert(gpurt_job_end(NULL) == -ENOENT);
	name[GPURT_TASK_LEN - 1] = 0;
	assert(!gpurt_job_begin(NULL, name, 1, 0));
	assert(gpurt_job_begin(NULL, "second", 0, 0) == -EBUSY);
	assert(!gpurt_job_end(NULL));
	assert(!setenv("GPURT_TASK_NAME", "said", 1));
	assert(!gpurt_job_begin(NULL, NULL, UINT64_MAX, now() - 5000000));
	assert(!gpurt_job_end(NULL));
}

/* Every release is at first + k period; jobs that are released too early for the one before begin at once. */
static void periods(void)
{
	struct sigaction action = { .sa_handler = ignore };
	struct itimerval soon = { .it_value.tv_usec = 1000, .it_interval.tv_usec = 1000 }, off = { 0 };
	struct gpurt_periodic p;
	uint64_t first = now() - 25000000;
	int err, interrupted = 0;

	assert(gpurt_periodic_init(&p, NULL, "p", 0, 0) == -EINVAL);
	assert(gpurt_periodic_init(&p, NULL, "p", GPURT_MAX_AHEAD_NS + 1, 0) == -EINVAL);
	assert(gpurt_periodic_init(&p, NULL, "p", 1000, now() + 2 * GPURT_MAX_AHEAD_NS) == -EINVAL);
	assert(gpurt_periodic_init(&p, NULL, "p", 1000, UINT64_MAX) == -EINVAL);
	assert(!gpurt_periodic_init(&p, NULL, "p", 1000, now() + GPURT_MAX_AHEAD_NS / 2));
	assert(!gpurt_periodic_init(&p, NULL, "p", 10000000, first));
	while (p.jobs < 3) {
		assert(!gpurt_periodic_next(&p));
		assert(p.release_ns == first + (p.jobs - 1) * 10000000 && p.job == p.jobs - 1);
	}
	assert(p.behind == 3 && !p.jitter_sum_ns);
	assert(!sigaction(SIGALRM, &action, NULL));
	p.next_ns = now() + 500000000;
	assert(!setitimer(ITIMER_REAL, &soon, NULL));
	while ((err = gpurt_periodic_next(&p)) == -EINTR)
		interrupted++;
	assert(!setitimer(ITIMER_REAL, &off, NULL));
	assert(!err && interrupted && p.behind == 3 && now() >= p.release_ns && p.jitter_max_ns == p.jitter_sum_ns);
	assert(!gpurt_periodic_stop(&p) && !gpurt_periodic_stop(&p));
}

/* A child has not begun its parent's job, and cannot end it. */
static void children(void)
{
	int status;
	pid_t child;

	assert(!gpurt_job_begin(NULL, "parent", 0, 0));
	child = fork();
	assert(child >= 0);
	if (!child) {
		assert(gpurt_job_end(NULL) == -ENOENT);
		assert(!gpurt_job_begin(NULL, "child", 0, 0) && !gpurt_job_end(NULL));
		_exit(0);
	}
	assert(waitpid(child, &status, 0) == child && !status);
	assert(!gpurt_job_end(NULL));
}

/* Readers would take the client that another handle is for the task's. */
static void handles(void)
{
	struct gpurt_handle *h;

	assert(!gpurt_open(&h, NULL));
	assert(!gpurt_job_begin(h, "own", 0, 0));
	assert(gpurt_job_end(NULL) == -ENOENT && gpurt_job_begin(NULL, "second", 0, 0) == -EBUSY);
	assert(!gpurt_job_end(h));
	gpurt_close(h);
}

int main(void)
{
	one_by_one();
	periods();
	children();
	handles();
	return 0;
}
"""

ALONE = r"""
#include <assert.h>
#include <errno.h>
#include <gpurt.h>

int main(void)
{
	struct gpurt_periodic p;

	assert(gpurt_job_begin(NULL, "a", 0, 0) == -ENODEV && gpurt_job_end(NULL) == -ENOENT);
	assert(!gpurt_periodic_init(&p, NULL, NULL, 1000000, 0));
	while (p.jobs < 3)
		assert(!gpurt_periodic_next(&p));
	return gpurt_periodic_stop(&p);
}
"""


def build(prefix: Path, source: Path, program: Path, compiler: str, *flags: str) -> Path:
    """Compiles as a user does, with what `make install` installed."""
    command = [compiler, "-Wall", "-Wextra", "-Werror", *flags, f"-I{prefix}/include", str(source), f"-L{prefix}/lib"]
    subprocess.run([*command, "-lgpurt", f"-Wl,-rpath,{prefix}/lib", "-o", program], check=True, timeout=PATIENCE)
    return program


@pytest.fixture
def listener(emulator: Path) -> Iterator[Listener]:
    with Listener(str(emulator)) as listening:
        yield listening


def told(listener: Listener) -> list[EventRecord]:
    return [one for one in listener.records() if one.kind in JOBS]


def test_every_function_as_the_header_says(
    prefix: Path, tmp_path: Path, run: Run, emulator: Path, listener: Listener
) -> None:
    (tmp_path / "program.c").write_text(C)
    done = run(build(prefix, tmp_path / "program.c", tmp_path / "program", "cc"), emulator)
    assert (done.returncode, done.stderr) == (0, "")
    seen = told(listener)
    assert [(one.kind, one.task[:4], one.job) for one in seen[:4]] == [
        (EventKind.JOB_BEGIN, "xxxx", 1), (EventKind.JOB_END, "xxxx", 1),
        (EventKind.JOB_BEGIN, "said", 2**64 - 1), (EventKind.JOB_END, "said", 2**64 - 1),
    ]  # fmt: skip
    assert min(one.latency_ns for one in seen[2:4]) >= 5_000_000
    assert [one.job for one in seen[4:12]] == [0, 0, 1, 1, 2, 2, 3, 3]
    begin, end = JOBS
    assert [(one.kind, one.task) for one in seen[12:]] == [
        (begin, "parent"), (begin, "child"), (end, "child"), (end, "parent"), (begin, "own"), (end, "own")
    ]
    assert seen[-1].client == seen[-2].client != seen[0].client
    first, second, third = (one.time_ns - one.latency_ns for one in seen[4:10:2])
    assert (second - first, third - second) == (10_000_000, 10_000_000)


def test_without_a_host_periods_go_on(prefix: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "program.c").write_text(ALONE)
    done = run(build(prefix, tmp_path / "program.c", tmp_path / "program", "cc"), None)
    assert done.returncode == 0
    assert done.stderr.count("runs unmanaged") == 1


@pytest.mark.parametrize(("source", "compiler"), [("camera.c", "cc"), ("lidar.cpp", "c++"), ("planner.py", "")])
def test_each_template_says_what_its_jobs_do(
    prefix: Path, tmp_path: Path, emulator: Path, listener: Listener, source: str, compiler: str
) -> None:
    if compiler and not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    task = source.partition(".")[0]
    command = [sys.executable, str(EXAMPLES / source)]
    if compiler:
        command = [str(build(prefix, EXAMPLES / source, tmp_path / task, compiler))]
    environment = {**os.environ, "GPURT_DEVICE": str(emulator)}
    command.append("2")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{task}: 2 jobs, ")
    seen = listener.records()
    assert [(one.kind, one.task, one.job) for one in seen if one.kind in JOBS] == [
        (kind, task, number) for number in (0, 1) for kind in JOBS
    ]
    inside = {one.task for one in named_events(seen, {}) if one.kind in ("begin", "end")}
    assert inside == {task}  # segments are the task's too, without its process being known


def test_a_template_ends_at_a_signal(prefix: Path, tmp_path: Path, emulator: Path, listener: Listener) -> None:
    program = build(prefix, EXAMPLES / "camera.c", tmp_path / "camera", "cc")
    environment = {**os.environ, "GPURT_DEVICE": str(emulator)}
    with connect(str(emulator)) as plane, subprocess.Popen(
        [program], env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        events = plane.events(PATIENCE)
        assert next(one for one in events if one.kind is EventKind.JOB_END)
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=PATIENCE)[0].startswith("camera: ")
    assert running.returncode == 0
    assert [one.kind for one in told(listener)][-1] is EventKind.JOB_END  # none is left open


def test_python_jobs(emulator: Path, listener: Listener) -> None:
    with Client(str(emulator)) as client:
        with job("a b", 7, client=client), segment(client=client):
            with pytest.raises(OSError, match="begin a job") as busy, job("b", client=client):
                pass
            assert busy.value.errno == errno.EBUSY
            sum(range(10_000))
        loop = periodic("c", 2_000_000, client=client)
        for number in itertools.islice(loop, 3):
            release = loop.release
            assert number == loop.jitter.jobs - 1
        loop.stop()
        assert loop.release == release
        with pytest.raises(OSError, match="a period of 0 ns"):
            periodic("c", 0, client=client)
        left = iter(periodic("d", 1_000_000, client=client))
        next(left)
    with pytest.raises(OSError, match="closed"):
        next(left)
    with Client(str(emulator)) as client:
        left = iter(periodic("e", 1_000_000, client=client))
        next(left)
    left.close()  # as Python does with one that is dropped, where nobody can catch what it raises
    seen = told(listener)
    assert [one.task for one in seen] == ["a b", "a b", *["c"] * 6, "d", "e"]
    assert all(one.cpu_ns > 0 for one in seen if one.kind is EventKind.JOB_END)
    assert all(one.cpu_ns == 0 for one in seen if one.kind is EventKind.JOB_BEGIN)


@pytest.mark.parametrize("wrong", [-1, -(2**63), 2**64])
def test_times_that_no_clock_shows(emulator: Path, wrong: int) -> None:
    """A release before boot, as now - 2000 s is on a machine that booted later, is an error in one line."""
    with Client(str(emulator)) as client:
        for call in (
            lambda: job("a", 0, wrong, client=client), lambda: job("a", wrong, client=client),
            lambda: Job(client, "a", wrong), lambda: periodic("a", 1000, wrong, client=client),
            lambda: client.wait(wrong), lambda: copy(timeout=wrong, client=client), lambda: client.submit(0, wrong),
            lambda: client.wait_work(0, 0, wrong),
        ):  # fmt: skip
            with pytest.raises(OSError, match=f" of {wrong}: the interface knows 0 to") as refused:
                call()
            assert refused.value.errno == errno.EINVAL


@pytest.mark.parametrize("release", [2**63 - 1, 2**63, 2**64 - 1])
def test_releases_that_are_yet_to_come(emulator: Path, release: int) -> None:
    with Client(str(emulator)) as client:
        with pytest.raises(OSError, match="begin a job: Invalid argument"), job("a", 0, release, client=client):
            pass
        with pytest.raises(OSError, match="begin a periodic task: Invalid argument"):
            periodic("a", 1000, release, client=client)
        with job("a", 0, 1, client=client):  # the first ns after boot
            pass


def test_threads_have_jobs_of_their_own(emulator: Path, listener: Listener) -> None:
    together = threading.Barrier(2)

    def thread(name: str) -> None:
        with Client(str(emulator)) as client, job(name, client=client):
            together.wait(PATIENCE)

    threads = [threading.Thread(target=thread, args=(name,)) for name in "xy"]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE)
    seen = told(listener)
    assert sorted(one.task for one in seen) == ["x", "x", "y", "y"]
    assert [one.kind for one in seen] == [EventKind.JOB_BEGIN] * 2 + [EventKind.JOB_END] * 2


def test_a_host_that_has_gone_is_named() -> None:
    with Emulator(Platform(1)) as running:
        mine = Client(str(running.socket))
    with mine, pytest.raises(OSError, match="begin a job: the host has gone") as error, job("a", client=mine):
        raise AssertionError("a job without a host")
    assert error.value.errno == errno.ENODEV

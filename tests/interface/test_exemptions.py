# SPDX-License-Identifier: GPL-2.0
"""Exempt clients run beside the runner: by process, by name, and by cgroup."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from actors import Actor, enter, of
from links import MS, PENDING, RUNNING, Client, eventually

from gpurt.enums import Image, State
from gpurt.errors import RefusedError
from pycontrol.link.control import Control
from pycontrol.machine import procs

Connect = Callable[[], Client]
Spawn = Callable[..., Actor]
ME = os.getpid()
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


@contextlib.contextmanager
def exempt(plane: Control, **rule: int | str) -> Iterator[None]:
    """Exempts inside the context, and undoes it at the end."""
    plane.set_exempt(True, **rule)  # type: ignore[arg-type]
    try:
        yield
    finally:
        plane.set_exempt(False, **rule)  # type: ignore[arg-type]


def test_an_exempt_process_runs_beside_the_runner(connect: Connect, spawn: Spawn, plane: Control) -> None:
    urgent, other = connect(), spawn()
    urgent.begin(priority=90)
    assert other.do("begin") == PENDING
    with exempt(plane, pid=other.pid):
        assert of(plane, other.pid).exempt
        assert not of(plane, ME).exempt
        assert of(plane, other.pid).state is State.RUNNING
        assert other.run(work_done) >= 0
        assert plane.status()[0].image is Image.ONE
    assert of(plane, other.pid).state is State.PENDING
    assert not of(plane, other.pid).exempt


def test_a_thread_is_not_taken_for_a_process(plane: Control) -> None:
    """No client is a thread's, so a rule or a budget for its id would be nobody's."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    tid = thread.native_id
    assert tid is not None
    try:
        for command in (
            lambda: plane.set_exempt(True, pid=tid), lambda: plane.set_barred(True, pid=tid),
            lambda: plane.set_budget(tid, MS, 10 * MS),
        ):  # fmt: skip
            with pytest.raises(RefusedError, match="no process"):
                command()
    finally:
        over.set()
        thread.join()


def work_done(client: Client) -> int:
    """Submits work, waits for it, and returns when it completed."""
    tsg = client.tsg()
    return client.finished(tsg, client.submit(tsg, MS))


def test_exemptions_by_name_hold_for_clients_to_come(connect: Connect, plane: Control) -> None:
    name = procs.name(ME)
    with exempt(plane, comm=name):
        urgent, other = connect(), connect()
        urgent.begin(priority=90)
        assert other.begin() == RUNNING
        assert all(one.exempt and one.comm == name for one in plane.clients())
    assert not any(one.exempt for one in plane.clients())
    assert other.begin() == PENDING


def test_exemptions_by_pid_hold_for_clients_to_come(connect: Connect, plane: Control) -> None:
    with exempt(plane, pid=ME):
        connect().begin(priority=90)
        assert connect().begin() == RUNNING
    assert connect().begin() == PENDING


def test_a_name_that_no_process_has_exempts_none(connect: Connect, plane: Control) -> None:
    name = procs.name(ME)
    with exempt(plane, comm=name[:-1]), exempt(plane, comm=(name + "x")[-15:]):
        connect().begin(priority=90)
        assert connect().begin() == PENDING
        assert not any(one.exempt for one in plane.clients())


def test_exemptions_by_cgroup_hold_for_all_below_it(
    group: Path, connect: Connect, spawn: Spawn, plane: Control
) -> None:
    enters = partial(enter, group / "inner")
    connect().begin(priority=90)
    inside, outside = spawn(enters), spawn()
    assert [actor.do("begin") for actor in (inside, outside)] == [PENDING] * 2
    name = procs.cgroup(inside.pid).removesuffix("/inner")
    with exempt(plane, cgroup=name):
        assert [of(plane, actor.pid).exempt for actor in (inside, outside)] == [True, False]
        later = spawn(enters)
        assert later.do("begin") == RUNNING
        later.kill()
    for other in (name[:-1], "/no/such"):  # a path's beginning is not a cgroup above it
        with exempt(plane, cgroup=other):
            assert not of(plane, inside.pid).exempt
    assert of(plane, inside.pid).state is State.PENDING
    inside.kill()


def test_no_process_hides_from_a_rule_in_a_long_path(
    group: Path, deep: Path, connect: Connect, spawn: Spawn, plane: Control
) -> None:
    connect().begin(priority=90)
    inside = spawn(partial(enter, deep))
    assert inside.do("begin") == PENDING
    path = procs.cgroup(inside.pid)
    above = path[: path.index("/inner")]
    with exempt(plane, cgroup=above):
        assert of(plane, inside.pid).exempt
    names = [path[:255]] if "/" not in path[253:257] else []
    for name in (*names, f"{above}/inner/{'d' * 199}"):  # none is a cgroup above it
        with exempt(plane, cgroup=name):
            assert not of(plane, inside.pid).exempt
    inside.kill()


@pytest.mark.skipif(not os.access(LAST_PID, os.W_OK), reason="needs to choose process ids (ns_last_pid)")
def test_an_exemption_does_not_pass_to_another_process_of_that_number(spawn: Spawn, plane: Control) -> None:
    first = spawn()
    first.do("begin")
    pid = first.pid
    with exempt(plane, pid=pid):
        assert of(plane, pid).exempt
        began = stat.start if (stat := procs.stat(pid)) else -1
        assert began > 0
        first.kill()
        eventually(lambda: ticks() > began)  # a process is identified by its pid and its start in ticks
        second = reborn(spawn, pid)
        second.do("begin")
        assert not of(plane, pid).exempt
        second.kill()


def ticks() -> int:
    """The clock in which processes start."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def reborn(spawn: Spawn, pid: int) -> Actor:
    """Another process with that id; others get no old ids afterwards."""
    for _ in range(50):
        last = LAST_PID.read_text()
        LAST_PID.write_text(str(pid - 1))
        actor = spawn()
        LAST_PID.write_text(last)
        if actor.pid == pid:
            return actor
        actor.kill()
    pytest.skip("other processes take the process ids")

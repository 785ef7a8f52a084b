# SPDX-License-Identifier: GPL-2.0
"""Changes that the administrator makes while clients run: policies, priorities and budgets."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from actors import Actor, enter, of, sleep_until_killed
from links import MS, PATIENCE, PENDING, RUNNING, Client, client_of, eventually

from gpurt._gpurt import lib
from gpurt.enums import EventKind, Image, Notice, Overrun, Policy, State
from gpurt.errors import RefusedError
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

Connect = Callable[[], Client]
Spawn = Callable[..., Actor]
ME = os.getpid()
#: A period that is not over in a test, ns.
LONG = 10**17


def running(plane: Control) -> list[int]:
    """Priorities of the clients that hold the GPU."""
    return sorted(one.priority for one in plane.clients() if one.state is State.RUNNING)


# Policies


@pytest.mark.parametrize("policy", [Policy.LOCK_PRIORITY, Policy.LOCK_FIFO])
def test_locks_are_not_taken_away(connect: Connect, plane: Control, policy: Policy) -> None:
    plane.set_policy(policy)
    holder, low, high = connect(), connect(), connect()
    assert holder.begin(priority=5) == RUNNING
    assert plane.status()[0].image is Image.ONE
    assert low.begin(priority=20) == PENDING
    assert high.begin(priority=90) == PENDING
    waits = {"low": low.granted(), "high": high.granted()}
    holder.end()
    first, second = ("high", "low") if policy is Policy.LOCK_PRIORITY else ("low", "high")
    assert waits[first].result()[0] == 0
    assert not waits[second].done()
    {"high": high, "low": low}[first].end()
    assert waits[second].result()[0] == 0


@pytest.mark.parametrize("policy", [Policy.LOCK_PRIORITY, Policy.LOCK_FIFO])
def test_best_effort_holds_a_lock_but_not_for_ever(connect: Connect, plane: Control, policy: Policy) -> None:
    plane.set_policy(policy)
    holder, urgent = connect(), connect()
    assert holder.begin() == RUNNING
    assert plane.status()[0].image is Image.ONE
    urgent.begin(priority=20)
    assert urgent.granted().result()[0] == 0
    assert [one.demoted for one in plane.clients()] == [True, False]
    urgent.end()
    holder.end()
    assert [one.demoted for one in plane.clients()] == [False, False]


def test_under_timesliced_all_clients_run(connect: Connect, plane: Control) -> None:
    plane.set_policy(Policy.TIMESLICED)
    assert [connect().begin(priority=priority) for priority in (5, 50, 0)] == [RUNNING] * 3
    assert (plane.status()[0].image, plane.status()[0].runner_pid) == (Image.ALL, 0)


def test_policies_change_in_mid_segment(connect: Connect, plane: Control) -> None:
    a, b, c = connect(), connect(), connect()
    a.begin(priority=10)
    b.begin(priority=20)
    c.begin(priority=30)
    assert running(plane) == [30]
    waits = [a.granted(), b.granted()]
    plane.set_policy(Policy.TIMESLICED)
    assert [wait.result()[0] for wait in waits] == [0, 0]
    assert running(plane) == [10, 20, 30]
    plane.set_policy(Policy.LOCK_FIFO)
    assert running(plane) == [10]
    plane.set_policy(Policy.LOCK_PRIORITY)
    assert running(plane) == [10]  # the holder keeps it
    a.end()
    assert running(plane) == [30]
    plane.set_policy(Policy.SEGMENT)
    assert running(plane) == [30]
    assert a.begin(priority=40) == RUNNING


def test_the_policy_is_one_gpus_or_all(start_host: Callable[..., Path]) -> None:
    host = start_host(gpus=2)
    with control(str(host)) as plane:
        plane.set_policy(Policy.LOCK_FIFO, gpu=1)
        assert [gpu.policy for gpu in plane.status()] == [Policy.SEGMENT, Policy.LOCK_FIFO]
        plane.set_policy("timesliced")
        assert [gpu.policy for gpu in plane.status()] == [Policy.TIMESLICED] * 2
        with client_of(host) as client:
            assert client.call(lib.GPURT_IOC_QUERY, gpu=1)[1].policy == Policy.TIMESLICED


def spin(_client: Client) -> None:
    """Keeps the process runnable for ever."""
    while True:
        pass


@pytest.mark.parametrize("notice", list(Notice))
def test_under_policy_job_a_runnable_task_holds_the_gpu(
    connect: Connect, spawn: Spawn, plane: Control, notice: Notice
) -> None:
    if notice is Notice.NOTIFY and not connect().call(lib.GPURT_IOC_QUERY)[1].caps & lib.GPURT_CAP_NOTIFY:
        with pytest.raises(RefusedError, match="notif"):
            plane.set_policy(Policy.JOB, notice=notice)
        assert plane.status()[0].policy is Policy.SEGMENT
        return
    plane.set_policy(Policy.JOB, notice=notice, poll_ns=2 * MS)
    status = plane.status()[0]
    assert (status.policy, status.notice, status.poll_ns) == (Policy.JOB, notice, 2 * MS)
    busy, sleeper = spawn(), spawn()
    for actor in (busy, sleeper):
        actor.do("tsg")
        plane.set_priority(actor.pid, 40)
    eventually(lambda: plane.status()[0].image is Image.ALL)
    busy.start(spin)
    eventually(lambda: (plane.status()[0].runner_pid, of(plane, busy.pid).state) == (busy.pid, State.RUNNING))
    eventually(lambda: of(plane, sleeper.pid).state is State.IDLE)
    busy.kill()
    eventually(lambda: plane.status()[0].image is Image.ALL)


# Priorities


def test_a_set_priority_decides_and_can_be_undone(connect: Connect, plane: Control) -> None:
    client = connect()
    client.begin(priority=10)
    assert (plane.clients()[0].priority, plane.clients()[0].set_priority) == (10, None)
    plane.set_priority(ME, 77)
    assert (plane.clients()[0].priority, plane.clients()[0].set_priority) == (77, 77)
    plane.set_priority(ME, 0)
    assert plane.status()[0].image is Image.ALL
    plane.set_priority(ME, None)
    assert (plane.clients()[0].priority, plane.clients()[0].set_priority) == (10, None)
    client.end()
    plane.set_priority(ME, 33)
    client.begin(priority=90)
    assert plane.clients()[0].priority == 33


def test_a_set_priority_preempts(connect: Connect, spawn: Spawn, plane: Control) -> None:
    mine, theirs = connect(), spawn()
    assert mine.begin(priority=20) == RUNNING
    assert theirs.do("begin", priority=10) == PENDING
    plane.set_priority(theirs.pid, 21)
    assert plane.status()[0].runner_pid == theirs.pid
    plane.set_priority(theirs.pid, 20)  # an equal does not lose it again
    assert plane.status()[0].runner_pid == theirs.pid
    plane.set_priority(theirs.pid, None)
    assert plane.status()[0].runner_pid == ME


def test_the_tasks_own_priority_counts(spawn: Spawn, plane: Control) -> None:
    actor = spawn()
    actor.run(be_real_time, 12)
    assert actor.do("begin") == RUNNING
    assert (of(plane, actor.pid).own_priority, of(plane, actor.pid).priority) == (12, 12)
    actor.do("end")
    actor.run(be_real_time, 0)
    actor.do("begin")
    assert (of(plane, actor.pid).own_priority, of(plane, actor.pid).priority) == (0, 0)


def be_real_time(_client: Client, priority: int) -> None:
    """Gives the process a SCHED_FIFO priority; 0: none."""
    os.sched_setscheduler(0, os.SCHED_FIFO if priority else os.SCHED_OTHER, os.sched_param(priority))


# Budgets


def test_an_overrun_is_reported(connect: Connect, plane: Control) -> None:
    greedy = connect()
    greedy.begin(priority=50)
    events = plane.events(PATIENCE)
    plane.set_budget(ME, 5 * MS, LONG)
    assert next(event for event in events if event.kind is EventKind.OVERRUN).pid == ME
    one = plane.clients()[0]
    assert (one.overruns, one.demoted, one.state, one.on_overrun) == (1, False, State.RUNNING, Overrun.REPORT)
    assert (one.budget_ns, one.period_ns) == (5 * MS, LONG)
    assert plane.status()[0].image is Image.ONE
    plane.set_budget(ME, 0, 0)
    assert (plane.clients()[0].budget_ns, plane.clients()[0].period_ns) == (0, 0)


def test_an_overrun_demotes_until_the_segment_ends(connect: Connect, plane: Control) -> None:
    greedy, waiter = connect(), connect()
    greedy.begin(priority=50)
    assert waiter.begin() == PENDING
    waiting = waiter.granted()
    plane.set_budget(ME, 5 * MS, LONG, Overrun.DEMOTE)
    assert waiting.result()[0] == 0
    eventually(lambda: plane.status()[0].image is Image.ALL)
    (demoted,) = (one for one in plane.clients() if one.demoted)
    assert (demoted.overruns, demoted.priority, demoted.state) == (1, 0, State.RUNNING)
    assert demoted.on_overrun is Overrun.DEMOTE
    assert demoted.held_ns >= 5 * MS
    assert waiter.begin(priority=1) == RUNNING  # nested: still best effort
    greedy.end()
    assert not any(one.demoted for one in plane.clients())
    plane.set_budget(ME, 3600_000 * MS, LONG, Overrun.DEMOTE)
    assert greedy.begin(priority=50) == RUNNING  # with a budget of its own
    assert running(plane) == [50]
    plane.set_budget(ME, 5 * MS, LONG, Overrun.DEMOTE)
    eventually(lambda: sorted(one.overruns for one in plane.clients()) == [0, 2])


def test_a_budget_only_counts_time_on_the_gpu(connect: Connect, plane: Control) -> None:
    low, high = connect(), connect()
    low.begin(priority=10)
    plane.set_budget(ME, 3600_000 * MS, LONG, Overrun.DEMOTE)
    high.begin(priority=20)
    held = {one.priority: one.held_ns for one in plane.clients()}
    time.sleep(0.02)
    after = {one.priority: one.held_ns for one in plane.clients()}
    assert after[10] == held[10]
    assert after[20] >= held[20] + 20 * MS


def overrun(client: Client, plane: Control) -> None:
    """Uses up a budget of 5 ms in a segment, which is demoted."""
    assert client.begin(priority=50) == RUNNING
    plane.set_budget(ME, 5 * MS, LONG, Overrun.DEMOTE)
    eventually(lambda: any(one.demoted for one in plane.clients()))


def level(plane: Control, pid: int) -> int:
    """The highest priority of the process's clients."""
    return max(one.priority for one in plane.clients() if one.pid == pid)


def test_a_new_segment_is_no_new_budget(connect: Connect, plane: Control) -> None:
    greedy = connect()
    overrun(greedy, plane)
    greedy.end()
    greedy.begin(priority=50)
    assert (level(plane, ME), plane.status()[0].image) == (0, Image.ALL)


def test_opening_again_is_no_new_budget(connect: Connect, plane: Control) -> None:
    """Nor is a second descriptor beside the first."""
    greedy, second = connect(), connect()
    overrun(greedy, plane)
    second.begin(priority=50)
    greedy.close()
    eventually(lambda: len(plane.clients()) == 1)
    third = connect()
    third.begin(priority=60)
    assert (level(plane, ME), plane.status()[0].image) == (0, Image.ALL)
    assert {one.budget_ns for one in plane.clients()} == {5 * MS}


def test_another_process_is_no_new_budget(connect: Connect, spawn: Spawn, plane: Control) -> None:
    """Neither one that was made before nor one that was made afterwards."""
    greedy, before = connect(), spawn()
    before.do("begin", priority=0)
    overrun(greedy, plane)
    before.do("end")
    after = spawn()
    for child in (before, after):
        child.do("begin", priority=60)
        assert (level(plane, child.pid), of(plane, child.pid).budget_ns) == (0, 5 * MS)
    assert plane.status()[0].image is Image.ALL


def test_a_process_of_its_own_budget_is_not_under_its_makers(connect: Connect, spawn: Spawn, plane: Control) -> None:
    greedy, child = connect(), spawn()
    child.do("begin", priority=0)
    plane.set_budget(child.pid, 3600_000 * MS, LONG, Overrun.DEMOTE)
    overrun(greedy, plane)
    child.do("end")
    assert child.do("begin", priority=60) == RUNNING
    assert (level(plane, child.pid), of(plane, child.pid).budget_ns) == (60, 3600_000 * MS)
    plane.set_budget(child.pid, 0, 0)
    assert of(plane, child.pid).budget_ns == 5 * MS


def test_the_next_period_has_its_own_budget(connect: Connect, plane: Control) -> None:
    greedy = connect()
    assert greedy.begin(priority=50) == RUNNING
    events = plane.events(PATIENCE)
    plane.set_budget(ME, MS, 50 * MS, Overrun.DEMOTE)

    def again() -> bool:
        greedy.end()
        greedy.begin(priority=50)
        return plane.clients()[0].overruns >= 2

    eventually(lambda: plane.clients()[0].demoted)
    assert level(plane, ME) == 0
    eventually(again)
    # The new budget may be used up before a slow machine asks for the level: the events tell of it.
    story = (one for one in events if one.kind in (EventKind.BEGIN, EventKind.OVERRUN))
    assert next(story).kind is EventKind.OVERRUN
    *demoted, last = [one.priority for one in itertools.takewhile(lambda one: one.kind is EventKind.BEGIN, story)]
    assert (set(demoted) <= {0}, last) == (True, 50)


def test_a_budget_of_a_cgroup_holds_for_all_in_it(
    group: Path, connect: Connect, spawn: Spawn, plane: Control
) -> None:
    enters = partial(enter, group / "inner")
    first, second, outside = spawn(enters), spawn(enters), spawn()
    name = procs.cgroup(first.pid) if first.do("begin", priority=40) == RUNNING else ""
    plane.set_budget(name.removesuffix("/inner"), 5 * MS, LONG, Overrun.DEMOTE)
    eventually(lambda: of(plane, first.pid).demoted)
    second.do("begin", priority=60)
    outside.do("begin", priority=20)
    assert [level(plane, actor.pid) for actor in (first, second, outside)] == [0, 0, 20]
    assert plane.status()[0].runner_pid == outside.pid
    plane.set_budget(name.removesuffix("/inner"), 0, 0)
    assert of(plane, second.pid).budget_ns == 0
    for actor in (first, second):
        actor.kill()


def test_no_process_hides_from_a_budget_in_a_long_path(deep: Path, spawn: Spawn, plane: Control) -> None:
    inside = spawn(partial(enter, deep))
    inside.do("begin", priority=40)
    path = procs.cgroup(inside.pid)
    above, inner = path[: path.index("/inner")], path[: path.index("/ddd")]
    plane.set_budget(above, 3 * MS, LONG)
    assert of(plane, inside.pid).budget_ns == 3 * MS
    plane.set_budget(inner, 5 * MS, LONG)  # the nearer cgroup's counts
    assert of(plane, inside.pid).budget_ns == 5 * MS
    for name in (inner, above):
        plane.set_budget(name, 0, 0)
    inside.kill()


def test_a_budget_is_kept_by_a_process_whose_maker_ended(host: Path, spawn: Spawn, plane: Control) -> None:
    maker = spawn()
    maker.do("begin", priority=0)
    plane.set_budget(maker.pid, MS, LONG, Overrun.DEMOTE)
    child = maker.run(make_client, host)
    try:
        eventually(lambda: any(one.pid == child and one.budget_ns == MS for one in plane.clients()))
        maker.kill()
        plane.set_budget(ME, 3600_000 * MS, LONG, Overrun.DEMOTE)  # every client's budget is looked up again
        assert of(plane, child).budget_ns in (MS, 3600_000 * MS)
        plane.set_budget(ME, 0, 0)
        assert of(plane, child).budget_ns == MS
    finally:
        os.kill(child, signal.SIGKILL)


def make_client(_client: Client, host: Path) -> int:
    """Makes a process with a client of its own, and returns its pid."""
    pid = os.fork()
    if pid == 0:
        mine = client_of(host)
        mine.begin(priority=0)
        sleep_until_killed()
    return pid

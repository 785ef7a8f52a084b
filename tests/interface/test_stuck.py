# SPDX-License-Identifier: GPL-2.0
"""An owner that sleeps while its GPU idles and others wait is told of; owners that only look so are not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from actors import Actor
from links import MS, PATIENCE, Client

from gpurt._gpurt import lib
from gpurt.enums import EventKind, State
from pycontrol.link.control import Control, EventRecord
from pycontrol.link.control import connect as control

#: GPU 0 has the owner of the test, GPU 1 one that is stuck: when that was told, the first would have been.
TESTED, STUCK = 0, 1
SHAPE = {"gpus": 2, "stuck_bound": 100 * MS}
Spawn = Callable[[], Actor]


@pytest.fixture
def host(start_host: Callable[..., Path]) -> Path:
    return start_host(**SHAPE)


def told(events: Iterator[EventRecord], kind: EventKind, gpu: int) -> EventRecord:
    """The next such event."""
    return next(event for event in events if event.kind is kind and event.gpu == gpu)


def owns(actor: Actor, gpu: int) -> Actor:
    assert actor.do("begin", gpu=gpu, priority=10) == lib.GPURT_STATE_RUNNING
    return actor


def asks(actor: Actor, gpu: int) -> Actor:
    assert actor.do("begin", gpu=gpu, priority=5) == lib.GPURT_STATE_PENDING
    return actor


def spins(_client: Client, until: str) -> None:
    while not Path(until).exists():
        pass


def test_an_owner_that_waits_for_who_waits_for_it_is_told_of(host: Path, spawn: Spawn) -> None:
    owner, other = spawn(), spawn()
    with control(str(host)) as plane, control(str(host)) as seen:
        events, before = plane.events(PATIENCE), seen.status()[TESTED].stuck_count
        owns(owner, TESTED)
        owner.do("finished", tsg=(group := owner.do("tsg")), work=owner.do("submit", tsg=group, duration=MS))
        asks(other, TESTED)
        event = told(events, EventKind.STUCK, TESTED)
        assert (event.pid, event.priority) == (owner.pid, 10)
        assert event.latency_ns >= SHAPE["stuck_bound"]
        assert f"-{owner.pid} sleeps" in event.detail
        assert f"-{other.pid}" in event.detail
        gpu = seen.status()[TESTED]
        assert (gpu.runner_pid, gpu.stuck_count, gpu.stuck_bound_ns) == (owner.pid, before + 1, SHAPE["stuck_bound"])
        assert gpu.stuck_ns >= event.latency_ns
        assert [one.state for one in seen.clients(TESTED)] == [State.RUNNING, State.PENDING]  # nothing is taken away
        owner.do("end")
        assert (seen.status()[TESTED].stuck_ns, seen.status()[TESTED].stuck_count) == (0, before + 1)
        assert told(events, EventKind.GRANT, TESTED).pid == other.pid


def test_each_of_two_that_own_a_gpu_and_wait_for_the_others_is_told_of(host: Path, spawn: Spawn) -> None:
    with control(str(host)) as plane:
        events = plane.events(PATIENCE)
        first, second = owns(spawn(), 0), owns(spawn(), 1)
        assert first.do("begin", gpu=1, priority=10) == lib.GPURT_STATE_PENDING
        assert second.do("begin", gpu=0, priority=10) == lib.GPURT_STATE_PENDING
        expected, seen = {(0, first.pid), (1, second.pid)}, set[tuple[int, int]]()
        while seen != expected:  # the begin of a segment on one GPU lets the other one be told of again
            event = next(event for event in events if event.kind is EventKind.STUCK)
            seen.add((event.gpu, event.pid))
            assert seen <= expected


def test_work_of_others_outside_segments_waits_as_well(host: Path, spawn: Spawn) -> None:
    owner, other = spawn(), spawn()
    with control(str(host)) as plane:
        events = plane.events(PATIENCE)
        group = other.do("tsg")
        owns(owner, TESTED)
        other.do("submit", tsg=group, duration=MS)
        event = told(events, EventKind.STUCK, TESTED)
        assert event.pid == owner.pid
        assert "outside segments" in event.detail


def computes(owner: Actor, _other: Actor, plane: Control, until: Path) -> None:
    """The owner executes on its CPU."""
    owner.start(spins, str(until))


def submits(owner: Actor, _other: Actor, plane: Control, until: Path) -> None:
    """The owner sleeps in the driver's wait for its work, which the GPU executes."""
    group = owner.do("tsg")
    owner.start(waits, group, owner.do("submit", tsg=group, duration=lib.GPURT_MAX_WORK_NS))


def waits(client: Client, tsg: int, work: int) -> None:
    client.finished(tsg, work)


def is_helped(owner: Actor, other: Actor, plane: Control, until: Path) -> None:
    """An exempt client's work is executed, for which the owner may wait."""
    group = other.do("tsg")
    plane.set_exempt(True, pid=other.pid)
    other.do("submit", tsg=group, duration=lib.GPURT_MAX_WORK_NS)


@pytest.mark.parametrize("does", [computes, submits, is_helped])
def test_an_owner_that_gets_on_is_not_told_of(
    does: Callable[[Actor, Actor, Control, Path], None], host: Path, spawn: Spawn, tmp_path: Path
) -> None:
    owner, other, third = owns(spawn(), TESTED), spawn(), spawn()
    until = tmp_path / "enough"
    with control(str(host)) as plane, control(str(host)) as commands:
        before = commands.status()[TESTED].stuck_count
        does(owner, other, commands, until)
        asks(third, TESTED)
        are_told(plane, spawn)
        assert commands.status()[TESTED].stuck_count == before
        until.touch()
        commands.set_exempt(False, pid=other.pid)


def are_told(plane: Control, spawn: Spawn) -> None:
    """Owners that are stuck on the other GPU are told of, twice, as one that was stuck before them would be."""
    events = plane.events(PATIENCE)
    owner, other = owns(spawn(), STUCK), asks(spawn(), STUCK)
    assert told(events, EventKind.STUCK, STUCK).pid == owner.pid
    other.do("end", gpu=STUCK)
    owner.do("end", gpu=STUCK)
    owns(owner, STUCK)
    asks(other, STUCK)
    assert told(events, EventKind.STUCK, STUCK).pid == owner.pid


def test_an_owner_for_whom_nobody_waits_is_not_told_of(host: Path, spawn: Spawn) -> None:
    owns(spawn(), TESTED)
    spawn().do("tsg")
    with control(str(host)) as plane, control(str(host)) as seen:
        before = seen.status()[TESTED].stuck_count
        are_told(plane, spawn)
        assert seen.status()[TESTED].stuck_count == before


def test_a_process_that_dies_while_others_of_its_budget_are_inside_is_told_of(host: Path, spawn: Spawn) -> None:
    with control(str(host)) as plane, control(str(host)) as commands:
        events = plane.events(PATIENCE)
        commands.set_budget(os.getpid(), 10**9, 10**9, gpu=TESTED)
        inside, closes, dies, last = owns(spawn(), TESTED), spawn(), spawn(), spawn()
        for one in (closes, dies, last):
            one.do("tsg")
        closes.do("close")
        dead = dies.pid
        dies.kill()
        assert told(events, EventKind.MEMBER_DIED, TESTED).pid == dead  # and not `closes`, which lives
        inside.do("end")
        last.kill()
        found = (event for event in events if event.kind in (EventKind.MEMBER_DIED, EventKind.BEGIN))
        inside.do("begin", priority=10)
        assert next(found).kind is EventKind.BEGIN  # nobody was inside any more
        commands.set_budget(os.getpid(), 0, 0, gpu=TESTED)


def test_time_is_measured_from_the_segment_that_is_stuck(host: Path, spawn: Spawn) -> None:
    """A segment after a stuck one is another."""
    with control(str(host)) as plane:
        events = plane.events(PATIENCE)  # a host tells of it once
        owner, other = owns(spawn(), TESTED), asks(spawn(), TESTED)
        first = told(events, EventKind.STUCK, TESTED)
        other.do("end")
        owner.do("end")
        between = time.monotonic_ns()
        owns(owner, TESTED)
        asks(other, TESTED)
        second = told(events, EventKind.STUCK, TESTED)
        assert first.time_ns < between <= second.time_ns - second.latency_ns

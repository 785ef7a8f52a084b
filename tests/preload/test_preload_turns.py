# SPDX-License-Identifier: GPL-2.0
"""`gpurt serve --begin turns`: best-effort processes take turns while a real-time one is there, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from links import eventually
from machines import LONG, FakeGpu, Program, Served, Start, real_time, stop

from gpurt.enums import Begin
from pycontrol.link.control import Control
from pycontrol.observe import doctor

KERNEL = "launch 0 20000"


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve("--bound=answer=200ms", "--begin=turns")


@pytest.fixture
def busy(served: Served, start: Start) -> list[Program]:
    """Three best-effort processes whose work does not end."""
    made = [start() for _ in range(3)]
    for one in made:
        one.do(LONG)
    return made


def on(gpu: FakeGpu, programs: list[Program]) -> list[Program]:
    return [one for one in programs if gpu.enabled(one.pid)]


def test_one_at_a_time_while_a_real_time_process_is_there(
    busy: list[Program], served: Served, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    """Also before it has begun anything.  A launch of a process that waits returns at once."""
    urgent, had = real_time(plane, start()), set()
    eventually(lambda: (plane.status()[0].ready, plane.status()[0].at_once) == (3, 1))
    assert plane.status()[0].begin is Begin.TURNS
    (finding,) = doctor._begin(str(served.path))
    assert finding.status is doctor.Status.WARN
    assert (finding.cure or "").endswith('say begin = "turns" in taskset files')

    def each_had_a_turn() -> bool:
        now = on(gpu, busy)
        had.update(now)
        for one in busy:
            one.do(KERNEL)
        return had == {*busy} and len(now) < 2 and plane.status()[0].at_once == 1

    eventually(each_had_a_turn)
    urgent.do(KERNEL, "all")
    plane.set_priority(urgent.pid, 0)
    eventually(lambda: on(gpu, busy) == busy)
    assert (plane.status()[0].ready, plane.status()[0].at_once) == (None, 4)


def test_the_turn_of_one_that_dies_goes_on(busy: list[Program], start: Start, plane: Control, gpu: FakeGpu) -> None:
    """One that comes waits for its own."""
    real_time(plane, start())
    eventually(lambda: plane.status()[0].at_once == 1)
    for one in busy:
        one.kill()
    fresh = [start() for _ in range(2)]
    for one in fresh:
        one.do(KERNEL)
    had: set[Program] = set()

    def each_had_a_turn() -> bool:
        now = on(gpu, fresh)
        had.update(now)
        for one in fresh:
            one.do(KERNEL)
        return had == {*fresh} and len(now) < 2 and plane.status()[0].at_once == 1

    eventually(each_had_a_turn)


def test_the_idle_pass_their_turn_on(busy: list[Program], start: Start, plane: Control, gpu: FakeGpu) -> None:
    urgent = real_time(plane, start())
    for one in busy[1:]:
        gpu.finish(one.pid)
        one.do("all")

    def its_turn() -> bool:
        urgent.do(KERNEL, "all")
        return on(gpu, busy) == busy[:1]

    eventually(its_turn)


def test_one_that_does_not_answer_keeps_no_turn(
    busy: list[Program], start: Start, plane: Control, gpu: FakeGpu
) -> None:
    """It counts, as it may be on."""
    urgent, had = real_time(plane, start()), set()
    stop(busy[0])

    def others_had_turns() -> bool:
        urgent.do(KERNEL, "all")
        had.update(on(gpu, busy[1:]))
        return had == {*busy[1:]} and plane.status()[0].late == 1 and plane.status()[0].at_once == 2

    eventually(others_had_turns)


def test_whoever_becomes_urgent_does_not_wait(busy: list[Program], start: Start, plane: Control, gpu: FakeGpu) -> None:
    """Nor does one that is exempt.  The third has no turn while the first one owns the GPU."""
    urgent = real_time(plane, start())
    plane.set_priority(busy[0].pid, 20)
    plane.set_exempt(True, pid=busy[1].pid)

    def only_one_does() -> bool:
        urgent.do(KERNEL, "all")
        return on(gpu, busy) == busy[:2] and plane.status()[0].at_once == 3

    eventually(only_one_does)

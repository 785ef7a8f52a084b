# SPDX-License-Identifier: GPL-2.0
"""Slices and levels on nvgpu's scheduling node: all or nothing, against a model as strict as the driver."""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "preload/fakes"))

from drivers import Caller, Faults, Refused
from engine import Engine, Group
from nvgpu import NvgpuSched

from analysis.model import MS, GpuSegment, Span, Task
from gpurt.errors import RefusedError
from pycontrol.link import hints, tegra
from pycontrol.link.hints import HintLevel, SchedNode
from pycontrol.link.tegra import Setting
from pycontrol.observe.fit.objection import Code
from pycontrol.observe.fit.turns import turns

FIRST, SECOND, OTHER = 100, 200, 300


class Board:
    """The driver's model, called as ioctl() would be.  ``fails(call)``: the error number of the n-th call of a name."""

    def __init__(self) -> None:
        self.engine = Engine(0)
        self.groups = [Group(str(number), pid, number=number)
                       for number, pid in ((3, FIRST), (700, FIRST), (701, SECOND), (702, OTHER))]  # fmt: skip
        self.engine.groups.extend(self.groups)
        self.file = NvgpuSched("sched", Caller(1, 0), [self.engine], Faults())
        self.steps: list[str] = []
        self.fails: Callable[[int], int] = lambda step: 0
        self.before: Callable[[int], None] = lambda step: None

    def call(self, _fd: int, code: int, argument: Any) -> int:
        raw = bytearray(argument) if isinstance(argument, ctypes.Structure) else bytearray()
        nested = bytearray()
        if code in (hints.GET_TSGS, hints.GET_TSGS_BY_PID):
            nested = bytearray(ctypes.string_at(argument.buffer, argument.size))
        step = len(self.steps)
        self.steps.append(f"{code & 0xFF}")
        self.before(step)
        error = self.fails(step)
        self.file.faults.refuse = {name: [1, error] for name in ("slice", "level", "get", "params", "by-pid", "all")}
        try:
            return self.file.ioctl(Caller(1, 0), code, raw, nested)
        except Refused as refused:
            raise OSError(refused.error, "refused") from None
        finally:
            if raw:
                ctypes.memmove(ctypes.addressof(argument), bytes(raw), len(raw))
            if nested:
                ctypes.memmove(argument.buffer, bytes(nested), len(nested))

    def state(self) -> list[tuple[int, int]]:
        return [(group.slice_us, group.level) for group in self.groups]


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    node = tmp_path / "sched"
    node.touch()
    monkeypatch.setattr(hints, "SCHED_NODES", (str(node),))
    made = Board()
    yield made
    made.file.close()


WANTED = [Setting(FIRST, 5_000, HintLevel.HIGH), Setting(SECOND, 2_000, None)]
DEFAULT = (1_024, 0)


def test_all_groups_of_the_processes_are_set(board: Board) -> None:
    with SchedNode(board.call) as node:
        before = tegra.apply(node, WANTED)
    assert board.state() == [(5_000, 2), (5_000, 2), (2_000, 0), DEFAULT]
    assert [(one.tsg, one.pid, one.slice_us, one.level) for one in before] == [
        (3, FIRST, 1_024, HintLevel.LOW), (700, FIRST, 1_024, HintLevel.LOW), (701, SECOND, 1_024, HintLevel.LOW)
    ]  # fmt: skip
    assert not board.file.held


def refusal(node: SchedNode) -> str | None:
    try:
        tegra.apply(node, WANTED)
    except RefusedError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ETIMEDOUT])
def test_a_failure_at_any_step_leaves_nothing_half_set(board: Board, error: int) -> None:
    """A call that fails has stored its value, as in the driver."""
    board.groups[0].slice_us, board.groups[2].level = 3_000, 1
    before = board.state()
    with SchedNode(board.call) as node:
        tegra.apply(node, WANTED)
        count = len(board.steps)
        assert count > 20
        tegra.apply(node, [Setting(FIRST, 3_000, HintLevel.LOW), Setting(SECOND, 1_024, HintLevel.MEDIUM)])
        board.groups[1].slice_us = 1_024
        failed = 0
        for wrong in range(count):
            board.steps.clear()
            board.fails = lambda step, wrong=wrong: error if step == wrong else 0  # type: ignore[misc]
            said = refusal(node)
            failed += said is not None
            if said is None:
                assert board.steps[wrong] == "11"  # letting go of a group cannot do harm
            else:
                assert "the driver" in said
                assert "not put back" not in said
                assert board.state() == before
            board.fails = lambda step: 0
            tegra.apply(node, [Setting(FIRST, 3_000, HintLevel.LOW), Setting(SECOND, 1_024, HintLevel.MEDIUM)])
            board.groups[1].slice_us = 1_024
            assert board.state() == before
            for tsg in list(board.file.held):
                node.let_go(tsg)
        assert failed >= 15


def test_an_interruption_puts_everything_back(board: Board) -> None:
    def interrupt(step: int) -> None:
        if board.steps[step] == "6" and board.steps.count("6") == 2:
            raise KeyboardInterrupt

    board.before = interrupt
    with SchedNode(board.call) as node, pytest.raises(KeyboardInterrupt):
        tegra.apply(node, WANTED)
    assert board.state() == [DEFAULT] * 4
    assert not board.file.held


def test_what_cannot_be_put_back_is_named(board: Board) -> None:
    board.fails = lambda step: errno.ETIMEDOUT if board.steps[step] == "6" else 0
    with SchedNode(board.call) as node, pytest.raises(RefusedError) as refused:
        tegra.apply(node, WANTED)
    assert str(refused.value).endswith("not put back: the level of TSG 3 of process 100")
    assert board.state()[0][0] == 1_024


def test_a_group_that_is_opened_meanwhile_is_set_too(board: Board) -> None:
    late = Group("late", SECOND, number=703)

    def opened(step: int) -> None:
        if board.steps[step] == "5" and late not in board.groups:
            board.groups.append(late)
            board.engine.groups.append(late)

    board.before = opened
    with SchedNode(board.call) as node:
        tegra.apply(node, WANTED)
    assert (late.slice_us, late.level) == (2_000, 0)


def test_a_process_that_never_ends_opening_groups(board: Board) -> None:
    def opened(step: int) -> None:
        if board.steps[step] == "5":
            board.engine.groups.append(Group("late", SECOND, number=703 + step))
            board.groups.append(board.engine.groups[-1])

    board.before = opened
    with SchedNode(board.call) as node, pytest.raises(RefusedError, match="faster than they can be set"):
        tegra.apply(node, WANTED)
    assert set(board.state()) == {DEFAULT}


def test_a_number_that_changes_hands_is_left_alone(board: Board) -> None:
    """Group 701 is closed after it was listed, and the number goes to another process."""
    def change(step: int) -> None:
        if board.steps[step] == "10" and board.steps.count("10") == 3:
            board.groups[2].pid = OTHER

    board.before = change
    with SchedNode(board.call) as node, pytest.raises(RefusedError, match="process 200 has no time-slice groups"):
        tegra.apply(node, WANTED)
    assert board.state() == [DEFAULT] * 4


@pytest.mark.parametrize(("setting", "why"), [(Setting(400, 5_000), "process 400 has no time-slice groups"),
                                              (Setting(FIRST, 50_001), "a slice of 50001 us for TSG 3"),
                                              (Setting(FIRST, 999), "a slice of 999 us for TSG 3")])  # fmt: skip
def test_what_the_driver_refuses(board: Board, setting: Setting, why: str) -> None:
    with SchedNode(board.call) as node, pytest.raises(RefusedError, match=why):
        tegra.apply(node, [*WANTED, setting] if setting.pid == 400 else [setting])
    assert board.state() == [DEFAULT] * 4


def task(name: str, priority: int) -> Task:
    return Task(name, 0, priority, 20 * MS, 20 * MS, (GpuSegment(Span.exactly(0), Span.exactly(MS)),))


def test_tsgs_of_which_no_bound_knows_are_objected_to(board: Board) -> None:
    """A stranger's, a second one of a real-time task, and one whose kernels no slice ends."""
    of = {FIRST: task("camera", 30), SECOND: task("map", 0)}
    board.groups[0].mode, board.groups[2].mode = 1, 2
    with SchedNode(board.call) as node:
        found = list(turns(node.everything(), of))
    assert [(one.code, bool(one.defeats)) for one in found] == [
        (Code.SHAPES, True), (Code.SHAPES, True), (Code.SHAPES, True), (Code.SHAPES, False), (Code.STRANGER, True)
    ]  # fmt: skip
    assert found[0].text == "camera has 2 TSGs, and its bound is for one"
    assert found[1].text.startswith("kernels of TSG 3 of process 100 execute to their end")
    assert found[3].text.startswith("theta has to contain the longest thread block of TSG 701")
    assert found[4].text.startswith("TSG 702 of process 300 has turns on the GPU")
    board.groups[0].mode, board.groups[1].pid = 4, SECOND
    of[OTHER] = task("radar", 20)
    with SchedNode(board.call) as node:
        assert all(not one.defeats for one in turns(node.everything(), of))  # best effort may have two


@pytest.mark.parametrize(("ns", "us"), [(1_000_000, 1_000), (50_000_000, 50_000), (1_024_000, 1_024)])
def test_slices_that_the_node_takes(ns: int, us: int) -> None:
    assert tegra.whole_us(ns) == us


@pytest.mark.parametrize("ns", [0, 999_000, 50_001_000, 1_000_001])
def test_slices_that_it_does_not_take(ns: int) -> None:
    with pytest.raises(ValueError, match="whole number of microseconds from 1000 to 50000"):
        tegra.whole_us(ns)

# SPDX-License-Identifier: GPL-2.0
"""Priorities on a host and slices on a Tegra are set for all processes or for none."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_tegra import FIRST, SECOND, WANTED, Board

from gpurt.errors import RefusedError
from pycontrol.link import applied, hints
from pycontrol.link.hints import SchedNode

ME = os.getpid()


class Host:
    """Priorities that were set, by pid and GPU.  Call number ``wrong`` is refused, from there on if ``for_good``."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, int], int | None] = {(FIRST, 0): None, (FIRST, 1): 7, (SECOND, 0): 9, (ME, 0): None}
        self.calls, self.wrong, self.for_good = 0, -1, False
        self.groups: dict[int, str] = {}

    def clients(self) -> list[Any]:
        return [SimpleNamespace(pid=pid, gpu=gpu, set_priority=value) for (pid, gpu), value in self.of.items()]

    def set_group(self, pid: int, group: str) -> None:
        self.calls += 1
        if self.calls == self.wrong:
            raise RefusedError("the host refuses", errno.EBUSY)
        self.groups[pid] = group

    def set_priority(self, pid: int, priority: int | None, gpu: int | None = None) -> None:
        self.calls += 1
        if self.calls == self.wrong or (self.for_good and self.calls > self.wrong > 0):
            raise RefusedError("the host refuses", errno.EPERM)
        self.of |= {key: priority for key in self.of if key[0] == pid and gpu in (None, key[1])}


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    (tmp_path / "sched").touch()
    monkeypatch.setattr(hints, "SCHED_NODES", (str(tmp_path / "sched"),))
    made = Board()
    yield made
    made.file.close()


PRIORITIES = {FIRST: 40, SECOND: 41}


def test_all_is_set(board: Board) -> None:
    host = Host()
    with SchedNode(board.call) as node:
        applied.apply_settings(host, host.clients(), PRIORITIES, WANTED, node)
    assert host.of == {(FIRST, 0): 40, (FIRST, 1): 40, (SECOND, 0): 41, (ME, 0): None}
    assert board.state()[:3] == [(5_000, 2), (5_000, 2), (2_000, 0)]


@pytest.mark.parametrize("wrong", [1, 2])
def test_a_priority_that_is_refused(board: Board, wrong: int) -> None:
    host = Host()
    before, state, host.wrong = dict(host.of), board.state(), wrong
    with SchedNode(board.call) as node, pytest.raises(RefusedError, match=r"^the host refuses$"):
        applied.apply_settings(host, host.clients(), PRIORITIES, WANTED, node)
    assert (host.of, board.state()) == (before, state)


@pytest.mark.parametrize("call", ["3", "4", "5", "6", "10"])
def test_a_node_that_refuses_at_any_step(board: Board, call: str) -> None:
    host = Host()
    before, state = dict(host.of), board.state()
    board.fails = lambda step: errno.EIO if board.steps[step] == call and board.steps.count(call) == 1 else 0
    with SchedNode(board.call) as node, pytest.raises(RefusedError, match="the driver"):
        applied.apply_settings(host, host.clients(), PRIORITIES, WANTED, node)
    assert (host.of, board.state()) == (before, state)


def test_what_cannot_be_put_back_is_named() -> None:
    """Only priorities of processes that still live are named."""
    host = Host()
    host.wrong, host.for_good = 2, True
    with pytest.raises(RefusedError, match=f"the host refuses; not put back: the priority of process {ME}$"):
        applied.apply_settings(host, host.clients(), {ME: 40, SECOND: 41}, [], None)


@pytest.mark.parametrize("wrong", [0, 1, 2, 3, 4])
def test_who_has_joined_a_group_stays_there_which_is_told(wrong: int) -> None:
    """A host lets nobody out of a group; a client joins before the priority is set that its group gets."""
    host = Host()
    before, host.wrong = dict(host.of), wrong
    groups = {FIRST: "a", SECOND: "a"}
    if not wrong:
        applied.apply_settings(host, host.clients(), PRIORITIES, [], None, groups=groups)
        assert host.groups == groups
        return
    with pytest.raises(RefusedError) as refused:
        applied.apply_settings(host, host.clients(), PRIORITIES, [], None, groups=groups)
    one, both = f"process {FIRST} stays in its group", f"processes {FIRST} and {SECOND} stay in their groups"
    kept = [f"; not put back: {one}", f"; not put back: {both}"][wrong > 2] if wrong > 1 else ""
    assert str(refused.value) == f"the host refuses{kept}"
    assert host.of == before

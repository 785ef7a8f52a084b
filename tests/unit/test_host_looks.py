# SPDX-License-Identifier: GPL-2.0
"""The host looks at threads in turns, for it has one thread itself."""

from __future__ import annotations

import pytest

from pycontrol.host import stuck


@pytest.mark.parametrize(("processes", "each"), [(1, 1), (1, 32), (1, 100), (40, 1), (32, 32)])
def test_no_turn_looks_at_more_than_some_threads(monkeypatch: pytest.MonkeyPatch, processes: int, each: int) -> None:
    """Also of a group, whose processes may have few threads each."""
    seen: list[tuple[int, int]] = []

    def asleep(pid: int, tid: int) -> tuple[str, int]:
        seen.append((pid, tid))
        return "S", 1

    monkeypatch.setattr(stuck.procs, "threads_in_pieces", lambda pid, few: (
        list(range(at, min(at + few, each))) for at in range(0, each, few)))  # fmt: skip
    monkeypatch.setattr(stuck, "thread", asleep)
    counts, results = [], []
    for result in stuck.look_at(range(processes)):
        results.append(result)
        counts.append(len(seen))
        seen.clear()
    assert results[-1] == stuck.Threads(True, processes * each)
    assert sum(counts) == processes * each
    assert max(counts) <= stuck.SOME

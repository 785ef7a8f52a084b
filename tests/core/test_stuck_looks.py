# SPDX-License-Identifier: GPL-2.0
"""kmod/core/stuck.c: when looks at an owner say that it is stuck."""

from __future__ import annotations

from typing import Any

import pytest

from gpurt._gpurt import ffi, lib

MS = 1_000_000
LIMIT, START = 1000 * MS, 10**12
QUIET = {"idle": True, "asked": True, "asleep": True}


class Looks:
    """An owner inside a segment, and looks at it; times in ms since the first look."""

    def __init__(self) -> None:
        self.sched = ffi.new("struct gpurt_sched *")
        self.owner = ffi.new("struct gpurt_sched_client *", {"depth": 1, "segments": 1})
        lib.gpurt_sched_init(self.sched, ffi.NULL, ffi.NULL, START)
        self.sched.runner = self.owner
        self.raw = ffi.new("struct gpurt_stuck *")

    def look(self, at: int, limit: int = LIMIT, **seen: Any) -> bool:
        """Whether that the owner is stuck is to be told now."""
        look = ffi.new("struct gpurt_stuck_look *", {"now": START + at * MS, **QUIET, **seen})
        return bool(lib.gpurt_stuck_seen(self.raw, self.sched, limit, look))

    def time(self, at: int) -> int:
        return int(lib.gpurt_stuck_time(self.raw, self.sched, START + at * MS)) // MS


def test_it_is_told_once_and_when_the_limit_is_over() -> None:
    looks = Looks()
    assert [looks.look(at) for at in (0, 250, 500, 999)] == [False] * 4
    assert looks.time(999) == 0
    assert looks.look(1000)
    assert not looks.look(1250)
    assert (looks.time(1300), looks.raw.count) == (1300, 1)


@pytest.mark.parametrize(
    "seen", [{"idle": False}, {"asked": False}, {"asleep": False}, {"done": 1}, {"cpu": 10 * MS + 1}]
)
def test_whatever_moves_begins_it_anew(seen: dict[str, int]) -> None:
    looks, after = Looks(), {key: value for key, value in seen.items() if key in ("done", "cpu")}
    assert [looks.look(0), looks.look(900, **seen), looks.look(1000, **after)] == [False] * 3
    assert not looks.look(1899, **after)
    assert looks.look(2000, **after)


def test_threads_that_wake_up_to_look_whether_to_end_are_no_progress() -> None:
    looks = Looks()
    assert [looks.look(250 * n, cpu=n * 2 * MS) for n in range(5)] == [False] * 4 + [True]


def test_a_thread_that_has_ended_had_executed() -> None:
    looks = Looks()
    looks.look(0, cpu=5)
    assert not looks.look(1000, cpu=4)
    assert looks.look(2000, cpu=4)


def test_another_segment_is_another_wait() -> None:
    looks = Looks()
    looks.look(0)
    looks.owner.segments = 2
    assert not looks.look(1000)
    assert looks.look(2000)
    looks.owner.segments = 3
    assert looks.time(2000) == 0
    looks.owner.segments = 2
    looks.sched.runner_since += 1  # it was preempted in between
    assert looks.time(2000) == 0
    assert not looks.look(2100)


def test_it_is_told_again_if_something_moved_in_between() -> None:
    looks = Looks()
    assert [looks.look(0), looks.look(1000)] == [False, True]
    assert [looks.look(1250, idle=False), looks.look(1500)] == [False, False]
    assert looks.look(2500)
    assert looks.raw.count == 2


def test_without_a_limit_an_owner_or_a_segment_nothing_is_told() -> None:
    looks = Looks()
    assert not looks.look(0, 0)
    assert not looks.look(5000, 0)
    looks.owner.depth = 0
    assert [looks.look(at) for at in (6000, 7000)] == [False] * 2
    looks.sched.runner = ffi.NULL
    assert [looks.look(at) for at in (8000, 9000)] == [False] * 2
    assert looks.time(9000) == 0

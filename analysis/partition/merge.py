# SPDX-License-Identifier: GPL-2.0
"""Partitions, their least sizes, and valid merges (lemmas 1 to 3, definition 2, algorithm 2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from analysis.partition.inside import TESTS, SporadicTask
from analysis.partition.workload import SHIFT, Workload


@dataclass(frozen=True)
class Part:
    """A partition: the indexes of its tasks, ascending, its size in units, and its U in units of 2^-SHIFT."""

    key: int
    tasks: tuple[int, ...]
    size: int
    utilization: int


@dataclass(frozen=True)
class Infeasible:
    """Why no partitioning exists.  ``task``: the task that fits nowhere, for lemma 2.

    ``lemma``: 1 or 2; None: no lemma excludes one, but the variant found none, by an unknown number of units.
    """

    lemma: int | None
    reason: str
    task: str | None = None

    def __str__(self) -> str:
        return f"{self.task + ': ' if self.task else ''}{self.reason}{f' (lemma {self.lemma})' if self.lemma else ''}"


class Merger:
    """Sizes of partitions of one workload; remembers what it has computed."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._merged: dict[tuple[int, int, int], Part | None] = {}
        self._keys = count()

    def passes(self, tasks: Sequence[int], units: int) -> bool:
        """TEST(S, m): whether the tasks meet their deadlines in a partition of that many units."""
        return TESTS[self.workload.inside](partition_jobs(self.workload, tasks, units))

    def part(self, tasks: Sequence[int], size: int) -> Part:
        """A new partition."""
        members = tuple(sorted(tasks))
        return Part(next(self._keys), members, size, self.workload.utilization(members, size))

    def least(self, tasks: Sequence[int], low: int, high: int) -> int | None:
        """The least allowed size from ``low`` to ``high`` that passes; None if none does.

        It tries the largest size first, and then bisects: a test that passes never fails on more units.
        """
        allowed = self.workload.allowed
        first = bisect_left(allowed, max(low, self.workload.smallest(tasks)))
        last = bisect_left(allowed, high + 1) - 1
        if first > last or not self.passes(tasks, allowed[last]):
            return None
        while first < last:
            middle = (first + last) // 2
            if self.passes(tasks, allowed[middle]):
                last = middle
            else:
                first = middle + 1
        return allowed[last]

    def merge(self, one: Part, other: Part, spare: int = 0) -> Part | None:
        """The merge of two partitions if it is valid, which means that it takes fewer units than both; else None.

        ``spare``: the number of additional units that it may take, plus 1.
        """
        key = (min(one.key, other.key), max(one.key, other.key), spare)
        if key not in self._merged:
            tasks = sorted(one.tasks + other.tasks)
            size = self.least(tasks, max(one.size, other.size), one.size + other.size - 1 + spare)
            self._merged[key] = None if size is None else self.part(tasks, size)
        return self._merged[key]

    @cached_property
    def singles(self) -> list[Part] | Infeasible:
        """A partition for each task, sized by lemma 2; or the lemma by which no partitioning exists."""
        parts: list[Part] = []
        work = 0
        for index, item in enumerate(self.workload.items):
            size = self.least((index,), 1, self.workload.units)
            if size is None:
                return Infeasible(2, self._fits_nowhere(index), item.name)
            parts.append(self.part((index,), size))
            later = (m for m in self.workload.allowed if m >= size)
            work += (min(m * self.workload.time(index, m, False) for m in later) << SHIFT) // item.period
        if work > self.workload.units << SHIFT:
            tenths = -(-10 * work >> SHIFT)
            needs = f"at least {tenths // 10}.{tenths % 10} units of {self.workload.units} are needed by utilization"
            return Infeasible(1, f"{needs}, each task on its least size or more")
        return parts

    def _fits_nowhere(self, index: int) -> str:
        allowed, item = self.workload.allowed, self.workload.items[index]
        if not allowed or allowed[-1] < item.smallest:
            most = allowed[-1] if allowed else 0
            return f"its times are known for {item.smallest} units and more, and a partition has {most} at most"
        time, limit = self.workload.time(index, allowed[-1], False), min(item.deadline, item.period)
        return f"takes {time} ns alone on {allowed[-1]} units, and has {limit} ns"


def partition_jobs(workload: Workload, tasks: Sequence[int], units: int) -> list[SporadicTask]:
    """The tasks of a partition of ``units`` units as its test sees them."""
    times = workload.times(tasks, units)
    return [
        SporadicTask(time, min(item.deadline, item.period), item.period, item.priority)
        for time, item in zip(times, (workload.items[index] for index in tasks), strict=True)
    ]

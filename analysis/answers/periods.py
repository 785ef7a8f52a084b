# SPDX-License-Identifier: GPL-2.0
"""How often a task may execute before another one misses: one task's period is searched, all else stays.

A deadline or longest distance of arrivals that equals the period changes with it.  Tasks that the task releases, and
its workers, have its period.  A shorter period takes time from other tasks; a longer one makes a chain's values older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from analysis.answers import compiled
from analysis.answers.sensitivity import Tick, bisected, unwatched
from analysis.answers.verdict import proved
from analysis.model import Task, Taskset
from analysis.model.relations import beginnings
from analysis.rta import Test

#: The search for longer periods ends at this multiple of the file's period.
MAX_PERIOD_FACTOR = 10


@dataclass(frozen=True, slots=True)
class Period:
    """A task's period of ``now`` ns; a yes needs a period of at least ``least``, or of at most ``most``.

    Both are None if no period up to MAX_PERIOD_FACTOR times ``now`` is found.
    """

    task: str
    now: int
    least: int | None = None
    most: int | None = None

    @property
    def found(self) -> int | None:
        """The period that was found, ns."""
        return self.most if self.least is None else self.least

    @property
    def factor(self) -> Fraction | None:
        """The period that was found, divided by the file's."""
        return None if self.found is None else Fraction(self.found, self.now)


def own_periods(taskset: Taskset) -> list[str]:
    """The real-time tasks that have arrivals of their own."""
    return [t.name for t in taskset.real_time if t.name not in taskset.triggers and t.name not in taskset.started]


def periods(test: Test, taskset: Taskset, tick: Tick = unwatched) -> Iterator[Period]:
    """For each of `own_periods`, the last period that still passes, or the first that passes if the file's fails."""
    for name in own_periods(taskset):
        yield searched(test, taskset, name)
        tick(1)


def with_period(taskset: Taskset, name: str, period: int) -> Taskset:
    """The taskset with another period of one task."""
    same = {name, *(one for one, roots in beginnings(taskset.triggers).items() if name in roots)}
    same |= {worker for fork in taskset.forks if fork.task in same for worker in fork.workers}
    return replace(taskset, tasks=tuple(_moved(t, period) if t.name in same else t for t in taskset))


def _moved(task: Task, period: int) -> Task:
    deadline = period if task.deadline == task.period else task.deadline
    longest = task.max_period
    if longest is not None:
        longest = period if longest == task.period else max(longest, period)
    return replace(task, period=period, deadline=deadline, max_period=longest)


def searched(test: Test, taskset: Taskset, name: str) -> Period:
    """The period that a task needs, by binary search; the period found passes."""
    task = next(t for t in taskset if t.name == name)
    now, longest = task.period, MAX_PERIOD_FACTOR * task.period

    def passes(period: int) -> bool:
        return proved(test, with_period(taskset, name, period))

    def in_time(period: int) -> bool:
        return compiled.passes(test, with_period(taskset, name, period))

    in_time_now, holds = in_time(now), passes(now)
    low = min(now, max(1, task.cpu_time + task.gpu_time)) if in_time_now else now
    first = _least(in_time, low, now if in_time_now else longest)
    if first is None:
        return Period(name, now)
    if holds:
        return Period(name, now, least=_least(passes, first, now))
    if in_time_now and (most := _nearest(passes, now, first)):  # a chain's limit
        return Period(name, now, most=most)
    return Period(name, now, least=first if passes(first) else _nearest(passes, max(first, now), longest))


def _least(passes: Callable[[int], bool], low: int, high: int) -> int | None:
    """A value that passes while the previous value fails; ``low`` if that passes, None if ``high`` fails."""
    less = bisected(lambda less: passes(high - less), 0, high - low)
    return None if less is None else high - less


def _nearest(passes: Callable[[int], bool], start: int, end: int) -> int | None:
    """From ``start``, which fails, to ``end``: the nearest value that passes; None if all eighths of the way fail."""
    way = 1 if end > start else -1

    def before(further: int, less: int) -> bool:
        return passes(further - way * less)

    while start != end:
        step = min(start // 8 + 1, abs(end - start))
        further = start + way * step
        if (less := bisected(partial(before, further), 0, step)) is not None:
            return further - way * less
        start = further
    return None

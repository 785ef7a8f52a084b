# SPDX-License-Identifier: GPL-2.0
"""The most that a task executes on a resource in any window (RTGPU lemmas 2.1, 5.2 and 5.4 in one form).

The search for the least window that is long enough is also here.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate

from analysis.model.fixed_point import MAX_SEARCH_STEPS
from analysis.rta.recurrence import FRACTION_SCALE
from analysis.rtgpu.chain import Chain, Need


@dataclass(frozen=True)
class Workload:
    """W(t) of one task on one resource.

    ``lengths``: upper bounds of the segments that need it.  ``gaps[j]``: the least time from the end of segment j to
    the release of the next within a job.  ``first``: the gap from the last segment of the window's first job to the
    next job; ``later``: that gap for all later jobs.  All in ns.
    """

    lengths: tuple[int, ...]
    gaps: tuple[int, ...]
    first: int
    later: int

    @cached_property
    def work(self) -> int:
        """The time that a job executes, ns."""
        return sum(self.lengths)

    @cached_property
    def cycle(self) -> int:
        """The time after which the pattern of later jobs repeats, ns: the period."""
        return sum(self.lengths) + sum(self.gaps) + self.later

    @cached_property
    def _starts(self) -> list[int]:
        """The least time from the start of a job's first segment to the start of each of its segments, ns."""
        return list(accumulate((length + gap for length, gap in zip(self.lengths, self.gaps, strict=False)), initial=0))

    @cached_property
    def _before(self) -> list[int]:
        """The work of a job before each of its segments, ns."""
        return list(accumulate(self.lengths[:-1], initial=0))

    def phase(self, start: int, window: int) -> tuple[int, int]:
        """W^h(t) for h = ``start``, and for how long beyond t it grows with slope 1, ns.

        It is W^0 from the start of segment h on, minus the work before it.
        """
        time, done = self._starts[start] + window, -self._before[start]
        second = self.cycle - self.later + self.first
        if time >= second:
            jobs, time = divmod(time - second, self.cycle)
            done += (1 + jobs) * self.work
        index = bisect_right(self._starts, time) - 1
        into, length = time - self._starts[index], self.lengths[index]
        done += self._before[index]
        return (done + into, length - into) if into < length else (done + length, 0)

    def at(self, window: int) -> tuple[int, int]:
        """W(t), ns, and for how long beyond t it certainly grows with slope 1, ns."""
        return max((self.phase(start, window) for start in range(len(self.lengths))), default=(0, 0))


def fresh(chain: Chain, need: Need) -> Workload | None:
    """The workload of a task that needs one resource once a job, in a window that begins with none of its jobs pending.

    None if it needs another resource, or this one several times.
    """
    lengths = chain.lengths(need)
    if len(lengths) != 1 or any(step.need is not need and step.worst for step in chain.steps):
        return None
    rest = max(chain.task.period - lengths[0], 0)
    return Workload(tuple(lengths), (), rest, rest)


def units_workload(chain: Chain, need: Need, end: int) -> Workload:
    """The workload of a task on a resource if each of its jobs is over ``end`` ns after its release (section 2.1).

    ``end`` is the deadline, or a known bound of the task, which is as safe and gives a smaller workload.
    """
    lengths: list[int] = []
    gaps = [0]
    for step in chain.steps:
        if step.need is need and step.worst:
            lengths.append(step.worst)
            gaps.append(0)
        else:
            gaps[-1] += step.best
    before, after, inner = gaps[0], gaps[-1], gaps[1:-1]
    period = chain.task.period
    # A task with a bound has 0 <= first <= later.  Other tasks are also analysed, to show how late they are.
    later = max(period - sum(lengths) - sum(inner), 0)
    first = max(min(period - end + before + after, later), 0)
    return Workload(tuple(lengths), tuple(inner) if lengths else (), first, later)


@dataclass(frozen=True, slots=True)
class Window:
    """The least solution of x = constant + sum of W(x), ns; ``reached`` is beyond the limit if there is none up to it.

    ``ended``: False if the search did not end.  ``counted``: the window in which other tasks count, if it differs.
    """

    reached: int
    solved: bool
    ended: bool = True
    counted: int | None = None

    @property
    def others(self) -> int:
        """The window in which other tasks count, ns."""
        return self.reached if self.counted is None else self.counted


def least_begin(blocking: int, length: int, others: tuple[Workload, ...], limit: int) -> Window:
    """The response of a request of ``length`` ns that nothing interrupts once it has begun, ns.

    It begins after ``blocking`` and the work that others have until then, also at that very instant.
    """
    window = least_window(blocking + 1, others, limit)
    reached = window.reached - 1 + length
    return replace(window, reached=reached, solved=window.solved and reached <= limit, counted=window.reached)


@lru_cache(4096)  # a task's segments repeat the search for each number of units
def least_window(constant: int, others: tuple[Workload, ...], limit: int) -> Window:
    """Searches the least solution up to ``limit`` ns.

    While some W has slope 1, x falls behind the right-hand side by at least the same amount, so the search jumps over
    such stretches.  The search starts below every solution: W(t) >= U t, where U is the task's share of the resource,
    since some window of length t in any periodic schedule has that much work (readings: RTGPU, search).
    """
    rate = sum(other.work * FRACTION_SCALE // other.cycle for other in others if other.lengths)
    if constant == 0:
        return Window(0, True)
    if rate >= FRACTION_SCALE:
        return Window(limit + 1, False)
    value = max(constant, min(constant * FRACTION_SCALE // (FRACTION_SCALE - rate), limit))
    for _ in range(MAX_SEARCH_STEPS):
        total, jump = constant, 0
        for other in others:
            work, run = other.at(value)
            total, jump = total + work, max(jump, run)
        if total == value:
            return Window(value, value <= limit)
        value = total + jump
        if value > limit:
            return Window(value, False)
    return Window(value, False, ended=False)

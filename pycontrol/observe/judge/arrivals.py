# SPDX-License-Identifier: GPL-2.0
"""Whether releases of a task are those that its file allows: arrivals a period apart, and jitter after each."""

from __future__ import annotations

from analysis.model import Task


class Arrivals:
    """When the jobs of a task arrived, as its releases and the arrivals before allow.

    A release r belongs to an arrival in [r - J, r], which is T after the one before at least, and ``gap`` at most.  If
    there is none, no arrivals explain the releases.  The distance of two releases alone, T - J at least, would miss
    what drifts over several jobs.

    Args:
        gap: the longest distance of two arrivals, ns, where a bound rests on it.
    """

    def __init__(self, task: Task, gap: int | None = None) -> None:
        self.task, self.gap = task, gap
        self._last: tuple[int, int] | None = None  # the earliest and the latest that the last arrival can be

    def release(self, at: int) -> int | None:
        """Takes the next release; how long after the arrival before it is, ns, if that is wrong; else None."""
        before, self._last = self._last, (at - self.task.jitter, at)
        if before is None:
            return None
        first, last = before[0] + self.task.period, at if self.gap is None else before[1] + self.gap
        if first > at:
            self._last = at, at
            return at - before[0]
        if last < at - self.task.jitter:
            return at - self.task.jitter - before[1]
        self._last = max(first, at - self.task.jitter), min(last, at)
        return None

    def forget(self) -> None:
        """Releases were not seen: the next one is as the first."""
        self._last = None

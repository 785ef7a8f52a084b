# SPDX-License-Identifier: GPL-2.0
"""Whether releases of a task are those that its file allows: arrivals a period apart, and jitter after each."""

from __future__ import annotations

from analysis.model import Task


class Arrivals:
    """The arrivals of a task's jobs, each as early as its release and the arrivals before allow.

    A release r belongs to the arrival a = max(a before + T, r - J).  If even that is after r, no arrivals explain the
    releases.  The distance of two releases alone, T - J at least, would miss what drifts over several jobs.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._last: int | None = None

    def release(self, at: int) -> int | None:
        """Takes the next release; how long after the arrival before it is, ns, if that is too early; else None."""
        before, self._last = self._last, at - self.task.jitter
        if before is None:
            return None
        if before + self.task.period > at:
            self._last = at
            return at - before
        self._last = max(self._last, before + self.task.period)
        return None

    def forget(self) -> None:
        """Releases were not seen: the next one is as the first."""
        self._last = None

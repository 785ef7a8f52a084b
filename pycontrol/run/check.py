# SPDX-License-Identifier: GPL-2.0
"""Observed response times against deadlines and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis.model import Taskset
from analysis.rta import Test
from analysis.trace import load
from gpurt.errors import FileError


@dataclass(frozen=True, slots=True)
class Line:
    """One task: its observed response times, its bound and its deadline, ns."""

    task: str
    jobs: int
    mort: int | None
    bound: int | None
    deadline: int
    misses: int
    best_effort: bool

    @property
    def above_bound(self) -> bool:
        """Whether the observation contradicts the bound."""
        return self.mort is not None and self.bound is not None and self.mort > self.bound

    @property
    def failed(self) -> bool:
        """Whether the task missed a deadline, exceeded its bound, or was not seen at all."""
        return not self.best_effort and (not self.jobs or self.misses > 0 or self.above_bound)

    @property
    def verdict(self) -> str:
        """One or two words for the table."""
        if self.best_effort:
            return "best effort"
        if self.above_bound:
            return "ABOVE ITS BOUND"
        if self.misses:
            return "MISSED"
        return "ok" if self.jobs else "NO JOB SEEN"


def compare(trace: Path, taskset: Taskset, test: Test | None) -> list[Line]:
    """One line for each task.  Raises FileError if the trace has none of the tasks."""
    seen = load(trace).responses()
    if seen and not set(seen) & {task.name for task in taskset}:
        raise FileError(f"{trace}: speaks of {', '.join(sorted(seen)[:5])}, none of which is in the taskset")
    result = test.run(taskset) if test else None
    lines = []
    for task in taskset:
        jobs = [job.response for job in seen.get(task.name, [])]
        bound = result.wcrt(task.name) if result else None
        misses = sum(response > task.deadline for response in jobs)
        worst = max(jobs, default=None)
        lines.append(Line(task.name, len(jobs), worst, bound, task.deadline, misses, task.best_effort))
    return lines

# SPDX-License-Identifier: GPL-2.0
"""Observed response times against deadlines and bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from analysis.model import Task
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.trace import About, Kind, Trace
from pycontrol.run.programs import tasks_of

#: Why the answer about a taskset without a real-time task is no.
NOTHING = "there is no real-time task, so nothing was observed"

#: What to look at where tasks of a real run were late.
LATE = (
    "tasks were late: `gpurt doctor` says what delays them on this machine, `gpurt analyze` whether the file's times "
    "leave them in time at all"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One task: its observed response times, its bound and its deadline, ns.

    ``misses``: jobs that finished after their deadline, or were unfinished then.  ``segments``: GPU segments that
    ended.  ``ended``: when its program ended if that was before the end of the run, ns.
    """

    task: str
    jobs: int
    mort: int | None
    bound: int | None
    deadline: int
    misses: int
    best_effort: bool
    segments: int
    ended: int | None

    @property
    def above_bound(self) -> bool:
        """Whether the observation contradicts the bound."""
        return self.mort is not None and self.bound is not None and self.mort > self.bound

    @property
    def failed(self) -> bool:
        """Whether the task missed a deadline, exceeded its bound, or had no job that was seen."""
        return not self.best_effort and (not self.jobs or self.misses > 0 or self.above_bound)


def in_time(lines: Sequence[Line]) -> bool:
    """Whether there are real-time tasks, and what was seen of each is well (``Line.failed``)."""
    return not all(line.best_effort for line in lines) and not any(line.failed for line in lines)


def notes(lines: Sequence[Line], trace: Trace) -> list[str]:
    """Remarks for the user: why no job was seen or was late, which programs ended early, and what the trace lacks."""
    silent = [f"{line.task} ({line.segments})" for line in lines if line.segments and not line.jobs]
    found = [NOTHING] if all(line.best_effort for line in lines) else []
    if silent:
        found.append(
            f"GPU segments were seen, but no job, of {', '.join(silent)}; jobs are only known of tasks that "
            "`gpurt run` executes without a command of the user's, and of programs that tell of them "
            "(gpurt_job_begin)"
        )
    found += [
        f"{line.task}: its program ended after {line.ended / 1e9:.1f} s, before the run did"
        for line in lines
        if line.ended is not None
    ]
    late = any(not line.best_effort and (line.misses or line.above_bound) for line in lines)
    if late and trace.meta.get("clock") != "virtual":
        found.append(LATE)
    return found + [event.detail for event in trace.events if event.kind is Kind.LOST and event.detail]


def compare(trace: Trace, file: TasksetFile, test: Test | None = None) -> list[Line]:
    """One line for each task of the file; ``test``: whose bounds to compare with."""
    result = test.run(file.taskset) if test else None
    names: dict[str, list[str]] = {}
    for name, task in meant(trace, file).items():
        names.setdefault(task, []).append(name)
    seen = _Seen(trace)
    return [
        seen.line(task, names.get(task.name, []), result.wcrt(task.name) if result else None) for task in file.taskset
    ]


class _Seen:
    """What a trace has of each of its names."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._end = trace, trace.end
        self._responses, self._unfinished = trace.responses(), trace.unfinished()
        self._segments: dict[str, int] = {}
        for event in trace.events:
            if event.kind is Kind.END:
                self._segments[event.task] = self._segments.get(event.task, 0) + 1

    def line(self, task: Task, names: Collection[str], bound: int | None) -> Line:
        times = [job.response for name in names for job in self._responses.get(name, [])]
        waited = [self._end - release for name in names for release in self._unfinished.get(name, [])]
        ended = [about.ended for name in names if (about := self._trace.tasks.get(name, About())).ended is not None]
        return Line(
            task.name, len(times), max(times, default=None), bound, task.deadline,
            sum(time > task.deadline for time in (*times, *waited)), task.best_effort,
            sum(self._segments.get(name, 0) for name in names), min(ended, default=None),
        )  # fmt: skip


def meant(trace: Trace, file: TasksetFile) -> dict[str, str]:
    """The task of the file that each name of the trace means; names that mean none are left out.

    A name means the task of that name.  `gpurt trace` names a process NAME-PID.  That means the task which that process
    is (``tasks_of``), if there is only one.
    """
    found = {}
    for name in trace.names():
        program, _, pid = name.rpartition("-")
        tasks = [task.name for task in file.taskset if task.name == name]
        if not tasks and pid.isdecimal():
            tasks = tasks_of(file, program)
        if len(tasks) == 1:
            found[name] = tasks[0]
    return found

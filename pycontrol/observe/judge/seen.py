# SPDX-License-Identifier: GPL-2.0
"""A judge's memory about a file's tasks while it looks at their jobs and segments."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from analysis.model import CpuSegment, Task
from analysis.taskset import TasksetFile
from analysis.traces.trace import HOST, Trace
from pycontrol.machine.programs import tasks_of

#: A program counts as broken if its task has more jobs or segments under way than this.
MOST_OPEN = 1000


def commands_of(recorded: Trace) -> Callable[[str], str]:
    """The fingerprint of the command of each process of a trace, by pid; empty if it is not known."""
    try:
        programs = json.loads(recorded.meta.get(HOST, "{}"))["programs"]
        known = {str(pid): str(command) for pid, (_, command) in programs.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        known = {}
    return lambda pid: known.get(pid, "")


def meaning(file: TasksetFile, name: str, command_of: Callable[[str], str]) -> str | None:
    """The file's task that a name in a trace means: the task of that name, if any.

    `gpurt trace record` names a process NAME-PID.  This name means the task that the process is (``tasks_of``), if
    there is exactly one.  ``command_of``: the fingerprint of a process's command, by pid.
    """
    program, _, pid = name.rpartition("-")
    tasks = [task.name for task in file.taskset if task.name == name]
    if not tasks and pid.isdecimal():
        tasks = tasks_of(file, program, command_of(pid))
    return tasks[0] if len(tasks) == 1 else None


class Arrivals:
    """When the jobs of a task arrived, as their releases and the previous arrivals permit.

    A release r belongs to an arrival in [r - J, r].  It is at least T and at most ``gap`` after the previous
    arrival.  If there is no such arrival, no arrivals explain the releases.  A look at the distance of two releases
    alone, at least T - J, would miss a drift over several jobs.

    Args:
        gap: the longest distance of two arrivals that a bound relies on, ns, if any does.
    """

    def __init__(self, task: Task, gap: int | None = None) -> None:
        self.task, self.gap = task, gap
        self._last: tuple[int, int] | None = None  # the earliest and the latest possible time of the last arrival

    def release(self, at: int) -> int | None:
        """Takes the next release; returns its distance from the previous arrival, ns, if that is wrong, else None."""
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
        """Starts anew: releases were not seen, so the next release counts as the first."""
        self._last = None


@dataclass
class Tally:
    """The observations of a task; times in ns.  ``misses`` includes jobs that were unfinished at their deadline.

    ``longest``: the longest time that a segment owned the GPU.  ``owned``, ``waited``: how long all segments owned it
    and waited for it.  ``jitter``: the longest time from a job's release to its begin.  ``above``: jobs that were not
    done within their bound, including unfinished jobs.
    """

    jobs: int = 0
    mort: int | None = None
    misses: int = 0
    segments: int = 0
    longest: int = 0
    waited: int = 0
    owned: int = 0
    jitter: int = 0
    above: int = 0


@dataclass
class OpenJob:
    """An unfinished job: its number, and how many segments it has begun.  ``gone``: its program has ended.

    ``start``: when it began, if known.  ``owned``, ``inside``: how long its finished segments owned the GPU, and took
    from begin to end, ns.
    """

    number: int | None
    release: int
    begun: int = 0
    start: int | None = None
    owned: int = 0
    inside: int = 0
    gone: bool = False
    missed: bool = False
    above: bool = False


@dataclass
class Held:
    """A segment: since when its client waits for the GPU or owns it (None: it does not), and its totals so far.

    ``place``: its index in its job, from 0; -1: its job is not known.  ``begin``: when it began.  ``told``: whether it
    was reported as too long.
    """

    job: OpenJob | None
    place: int
    begin: int
    asked: int | None = None
    since: int | None = None
    total: int = 0
    updates: int = 1
    told: bool = False

    def owned(self, now: int) -> int:
        """How long the segment's client has owned the GPU so far, ns."""
        return self.total + (max(0, now - self.since) if self.since is not None else 0)


@dataclass
class SeenTask:
    """The state of a task: its jobs by release, their arrivals, and its segments by the names of its processes.

    ``tells``: whether it reports its jobs, so that its present jobs are known; ``told``: whether it ever
    did.  ``lost``: events were lost since it was last seen, so its present activity is not known.  ``flooded``: it had
    more unfinished jobs than the judge keeps.  ``gap``: the longest distance of its arrivals that a chain relies on,
    ns.  ``tellers``: the processes that report its jobs and are not gone, latest last.  ``left``: when its program was
    gone, ns; None: it is there, or never was.
    """

    task: Task
    gap: int | None = None
    tally: Tally = field(default_factory=Tally)
    jobs: dict[int, OpenJob] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    arrivals: Arrivals = field(init=False)
    tells: bool = False
    told: bool = False
    lost: bool = False
    flooded: bool = False
    tellers: dict[str, None] = field(default_factory=dict)
    left: int | None = None

    def __post_init__(self) -> None:
        self.arrivals = Arrivals(self.task, self.gap)

    @property
    def active(self) -> bool:
        """Whether a job or a segment of the task is under way, or may be."""
        return bool(self.jobs or self.held or self.lost)

    def known(self) -> None:
        """The task reports a job: its earlier activity is over."""
        self.tells, self.told, self.lost, self.left = True, True, False, None

    def forget(self) -> None:
        """From now on the task's activity is unknown."""
        self.lost = self.active or self.told or self.tally.segments > 0
        self.tells, self.left = False, None
        self.arrivals.forget()
        self.jobs.clear()
        self.held.clear()
        self.tellers.clear()

    def add(self, job: OpenJob) -> bool:
        """Adds a job; drops the oldest if there are too many.  Returns whether this drop is the first in a row."""
        full, before = len(self.jobs) >= MOST_OPEN, self.flooded
        if full:
            del self.jobs[next(iter(self.jobs))]
        self.jobs[job.release] = job
        self.flooded = full or (before and len(self.jobs) > MOST_OPEN // 2)
        return full and not before

    def holder(self, name: str) -> str:
        """The name under which a process began its segment.  The process may have named its task since."""
        if name not in self.held and name == self.task.name and len(self.held) == 1:
            return next(iter(self.held))
        return name

    def current(self) -> OpenJob | None:
        """The executing job: a task's jobs execute one after the other."""
        return next((job for job in self.jobs.values() if not job.gone), None)


def on_cpu(task: Task) -> int:
    """The longest time that a job executes on its CPU, ns."""
    pieces = [one.time.worst if isinstance(one, CpuSegment) else one.misc.worst + one.pure.worst * task.waiting.spins
              for one in task.segments]  # fmt: skip
    return sum(pieces)

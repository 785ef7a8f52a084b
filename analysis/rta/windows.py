# SPDX-License-Identifier: GPL-2.0
"""Windows of GPU segments under `boosted`: owners delay a task only inside windows.

A window is the time from a task's request for a begin to the end of the update at its end.  No CPU segment of another
task delays the window, because owners are raised.  So an owner takes at most the time of its jobs in the windows, not
in the whole response time.  These are the jobs whose GPU activity can still go on, up to the end of the last segment.
The proofs are in docs/readings/boosted.md, "Owners inside segments".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from analysis.model import GpuSegment, Task
from analysis.model.fixed_point import Diverged, least_fixed_point
from analysis.rta import wakeups
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import System

WINDOWS_OWNER = "readings: boosted, owners"
#: With more GPU users, the windows of tasks above on the CPU are not used: their number grows with the square.
MAX_GPU_USERS = 99


def owned(task: Task, system: System) -> int:
    """The longest time that a job owns the GPU if no other task delays it: G + 2 epsilon eta, ns."""
    return task.gpu_time + 2 * system.epsilon * system.updating(task)


def owners(task: Task, system: System, level: int | None = None) -> dict[str, Demand]:
    """The demands of owners: by task, on any CPU, with at least this task's GPU priority, or at least ``level``.

    The context switch after an owner's last end follows the known time of that end.  Unless the system is settled, only
    the ends of more urgent tasks count as known, so that a task's windows never depend on the order of calls.
    """
    if not task.uses_gpu:
        return {}
    level = task.segment_priority if level is None else level
    return {
        other.name: owner(other, system, known=system.settled or other.priority > task.priority)
        for other in system.gpu_tasks
        if other.segment_priority >= level and other.name != task.name and not _same_thread(other, task)
    }


def owner(other: Task, system: System, amount: int | None = None, *, known: bool = True) -> Demand:
    """The demand of one owner in a window, ``amount`` for each job if given; ``known``: whether its end is known."""
    amount = owned(other, system) if amount is None else amount
    end = system.end(other) if known else other.deadline
    jitter = other.jitter + max(end + system.taskset.platform.theta - amount, 0)
    return Demand(TermKind.GPU_PREEMPTION, amount, WINDOWS_OWNER, other.name, other.period, jitter)


def inside(task: Task, system: System, level: int | None = None) -> Mapping[str, int] | None:
    """The most GPU time that each owner takes during a job's segments, ns; None if one may outlast the deadline."""
    found = owners(task, system, level)
    total = dict.fromkeys(found, 0)
    for segment, times in Counter(task.gpu_segments).items():
        window = _window(task, segment, list(found.values()), system)
        if window is None:
            return None
        for name, one in found.items():
            total[name] += times * one.at(window)
    return total


def longest_inside(task: Task, system: System) -> int:
    """The longest time that a job is inside its segments, ns; the deadline if a segment may be longer than that."""
    found = list(owners(task, system).values())
    windows = [_window(task, segment, found, system) for segment in task.gpu_segments]
    known = [window for window in windows if window is not None]
    return min(sum(known), task.deadline) if len(known) == len(windows) else task.deadline


def in_flight(task: Task, system: System) -> int:
    """The time that the task's begins wait for updates of lower GPU priority from other CPUs, ns.

    The task's own update, or the owner's, then abandons the context switch.
    """
    lower = any(t.cpu != task.cpu and t.segment_priority < task.segment_priority for t in system.gpu_tasks)
    return task.eta * system.taskset.platform.alpha if lower else 0


def _same_thread(one: Task, other: Task) -> bool:
    return one.thread is not None and one.thread == other.thread


def _window(task: Task, segment: GpuSegment, found: Sequence[Demand], system: System) -> int | None:
    """The length of a window, closed, because it may take no time; None if it exceeds the deadline."""
    platform = system.taskset.platform
    own = segment.misc.worst + segment.pure.worst + 2 * platform.alpha + platform.theta
    own += in_flight(task, system) // task.eta + wakeups.window(system)
    found = [*found, *wakeups.others(task, system)]
    closed = 0 if own else 1
    try:
        window = least_fixed_point(lambda w: own + sum(o.at(w + closed) for o in found), own, task.deadline)
    except Diverged:
        return None
    return window + closed if window <= task.deadline else None

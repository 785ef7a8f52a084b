# SPDX-License-Identifier: GPL-2.0
"""Priorities for which no bound holds, because tasks can wait for each other for ever.

The reasons are in docs/readings/gcaps.md, "Order of priorities".
"""

from __future__ import annotations

from enum import Enum

from analysis.model import Task, Taskset


class Equals(Enum):
    """Whether there is a bound for GPU-using tasks of one CPU that have the same priority."""

    BOUNDED = "always"
    CONTENDED = "only if no task of another CPU uses the GPU"
    UNBOUNDED = "never"


def one_sided(taskset: Taskset) -> str | None:
    """Why no bound holds where a task is real-time on only one of CPU and GPU; None if there is no such task."""
    for task in taskset:
        if task.uses_gpu and task.best_effort is (task.segment_priority > 0):
            return f"{task.name} is real-time on only one of CPU and GPU"
    return None


def disorder(taskset: Taskset, together: bool = False) -> str | None:
    """Why no bound holds under these GPU priorities (ECRTS'24, section 5.3); None if they are in order.

    A task that preempts another on their CPU must have the higher GPU priority too.  Otherwise each can wait for the
    other.  ``together``: threads of one process have one GPU priority, and do not wait for each other.
    """
    lowest: dict[tuple[int, str], Task] = {}  # by CPU and group; the members of a group wait together
    equals: list[Task] = []
    for task in (t for t in taskset.real_time if t.uses_gpu):
        if equals and equals[0].priority != task.priority:
            for h in equals:
                home = h.cpu, _group_of(h, taskset, together)
                lowest[home] = min(lowest.get(home, h), h, key=lambda t: t.segment_priority)
            equals = []
        equals.append(task)
        own = _group_of(task, taskset, together)
        for (cpu, group), above in lowest.items():
            if cpu == task.cpu and (group != own or not own) and above.segment_priority <= task.segment_priority:
                return f"{above.name} preempts {task.name} on their CPU but does not outrank it on the GPU"
    return None


def _group_of(task: Task, taskset: Taskset, together: bool) -> str:
    """The task whose workers form a group with it, or the process if its threads form one; empty if there is none."""
    own = task.process if together and task.process in taskset.processes else ""
    return taskset.forked[task.name].task if task.name in taskset.forked else own or ""


def equals_that_wait(taskset: Taskset, equals: Equals) -> str | None:
    """Why no bound holds where two GPU-using tasks of a CPU have the same priority; None if one can hold.

    A task that waits for the GPU and keeps its CPU can keep an equal that owns the GPU from that CPU.  Two tasks are
    enough under policy `job`, where one gets the GPU while the other spins for it.  Two are also enough if one sleeps
    while it owns the GPU and the other spins.  Where all tasks spin under `segment`, the owner must sleep at the
    update lock when its segment ends.  Only a GPU-using task of another CPU makes the owner sleep there.
    """
    seen: dict[tuple[int, int], str] = {}
    cpus = {t.cpu for t in taskset if t.uses_gpu}
    if equals is Equals.BOUNDED or (equals is Equals.CONTENDED and len(cpus) < 2):
        return None
    for task in (t for t in taskset.real_time if t.uses_gpu):
        other = seen.setdefault((task.cpu, task.priority), task.name)
        if other != task.name:
            return f"{other} and {task.name} use the GPU and have the same priority on their CPU"
    return None

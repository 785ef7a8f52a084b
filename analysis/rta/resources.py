# SPDX-License-Identifier: GPL-2.0
"""Resources that one task at a time can hold on a CPU: how long less urgent tasks block a task (readings: resources).

Sections are parts of CPU segments.  The time that a task spins for a resource is in its segments already.  So is what a
thread that spins, or holds such a resource, delays those that wake (wakeups.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.model import Protocol, Resource, Task, Taskset
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import System

LEMMA = "readings: resources, less urgent holders"


def blocking(task: Task, system: System, gaps: int) -> list[Demand]:
    """What holders of lower priority take of the task's CPU, in so many times in which the task is ready.

    In each, every less urgent task can hold one resource that it inherits, from before or handed over by another task.
    One of them all can hold one with a ceiling.
    """
    taskset = system.taskset
    if not taskset.resources:
        return []
    found: dict[str, int] = {}
    for time, holder in _lower(task, taskset, Protocol.INHERITANCE):
        found[holder] = max(found.get(holder, 0), time)
    if ceiling := list(_lower(task, taskset, Protocol.CEILING)):
        time, holder = max(ceiling)
        found[holder] = found.get(holder, 0) + time
    return [Demand(TermKind.BLOCKING, gaps * time, LEMMA, name) for name, time in found.items()]


def _lower(task: Task, taskset: Taskset, protocol: Protocol) -> Iterator[tuple[int, str]]:
    """The sections that less urgent tasks of the CPU can execute at the task's priority: time and task.

    A holder that may have waited for the resource, which a less urgent task held, wakes first.
    """
    tasks = {t.name: t for t in taskset}
    for resource in taskset.resources:
        if resource.protocol is not protocol or ceiling_of(resource, taskset) < task.priority:
            continue
        users = {section.task for section in resource.sections}
        for section in resource.sections:
            holder = tasks[section.task]
            if holder.cpu != task.cpu or holder.priority >= task.priority:
                continue
            waits = any(tasks[name].priority <= holder.priority for name in users - {holder.name})
            yield section.time + (taskset.platform.woken[task.cpu] if waits else 0), holder.name


def ceiling_of(resource: Resource, taskset: Taskset) -> int:
    """The highest CPU priority of the tasks that use it; 0 if none of these is in the taskset."""
    names = {section.task for section in resource.sections}
    return max((t.priority for t in taskset if t.name in names), default=0)

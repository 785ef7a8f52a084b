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

    At the begin of each, every less urgent task can hold one resource that it inherits, and one of them all one with a
    ceiling.
    """
    taskset = system.taskset
    if not taskset.resources:
        return []
    inherit = list(_lower(task, taskset, Protocol.INHERITANCE))
    ceiling = list(_lower(task, taskset, Protocol.CEILING))
    found = min((_longest(inherit, by) for by in (0, 1)), key=lambda one: sum(one.values()))
    if ceiling:
        time, holder, _ = max(ceiling)
        found = {**found, holder: found.get(holder, 0) + time}
    return [Demand(TermKind.BLOCKING, gaps * time, LEMMA, name) for name, time in found.items()]


def _lower(task: Task, taskset: Taskset, protocol: Protocol) -> Iterator[tuple[int, str, str]]:
    """The sections that less urgent tasks of the CPU can execute at the task's priority: time, task and resource."""
    tasks = {t.name: t for t in taskset}
    for resource in taskset.resources:
        if resource.protocol is not protocol or ceiling_of(resource, taskset) < task.priority:
            continue
        for section in resource.sections:
            holder = tasks[section.task]
            if holder.cpu == task.cpu and holder.priority < task.priority:
                yield section.time, holder.name, resource.name


def _longest(sections: list[tuple[int, str, str]], by: int) -> dict[str, int]:
    """The longest section of each task (0) or of each resource (1)."""
    found: dict[str, int] = {}
    for time, holder, resource in sections:
        name = resource if by else holder
        found[name] = max(found.get(name, 0), time)
    return found


def ceiling_of(resource: Resource, taskset: Taskset) -> int:
    """The highest CPU priority of the tasks that use it."""
    names = {section.task for section in resource.sections}
    return max(t.priority for t in taskset if t.name in names)

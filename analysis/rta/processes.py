# SPDX-License-Identifier: GPL-2.0
"""Bounds of tasks that are threads of one process; a process is one client with one GPU context.

A segment that one thread begins while another is inside counts as part of the first segment, at its GPU priority.
Priorities do not order the work inside a context.  So for tasks of other processes, each thread has the highest GPU
priority of its process; for itself, it has the lowest.  Its siblings delay it with all of their GPU work.
docs/readings/threads.md, "Threads of one process", has the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.model import Task, Taskset
from analysis.rta import order
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import Demands, System, recurring

SIBLINGS = "readings: threads of one process"


def demands_of_threads(formula: Demands) -> Demands:
    """The formula of a policy, extended to tasksets in which tasks are threads of one process."""

    def of(task: Task, system: System) -> Sequence[Demand | Shared]:
        home = next((name for name, tasks in system.taskset.processes.items() if task in tasks), None)
        seen = system.once(f"process {home}", lambda: replace(
            system, taskset=view(system.taskset, home), _shared={}, _once={}
        ))  # fmt: skip
        here = next(t for t in seen.taskset if t.name == task.name)
        return [*formula(here, seen), *_below(here, seen)]

    return of


def view(taskset: Taskset, home: str | None) -> Taskset:
    """The taskset as threads of process ``home`` see it, at their lowest priority; None: as other processes see it."""
    levels = {
        task.name: (min if name == home else max)(t.segment_priority for t in tasks)
        for name, tasks in taskset.processes.items() for task in tasks
    }  # fmt: skip
    return taskset.with_gpu_priorities(levels)


def disorder_of_threads(taskset: Taskset) -> str | None:
    """Why priorities let tasks wait for each other for ever, in the file's view or in some thread's; else None."""
    seen = (order.disorder(view(taskset, home), together=True) for home in (None, *taskset.processes))
    return order.disorder(taskset) or next(filter(None, seen if taskset.processes else ()), None)


def _below(task: Task, system: System) -> Iterator[Demand]:
    """The GPU work of siblings that no formula charges: those below the task on its own CPU."""
    siblings = (tasks for tasks in system.taskset.processes.values() if task in tasks)
    for t in next(siblings, ()):
        if t.cpu == task.cpu and t.priority < task.priority:
            amount = t.gpu_time + 2 * system.epsilon * t.eta
            yield recurring(TermKind.GPU_PREEMPTION, t, amount, SIBLINGS, system)


def refusal_of_threads(name: str, taskset: Taskset, *, able: bool, assigns: bool) -> str | None:
    """Why a test has no bound if several threads of a process use the GPU; ``able``: whether it bounds such threads."""
    if not taskset.processes:
        return None
    first = next(iter(taskset.processes))
    if not able:
        return (
            f"{name} has no bound for a process of which several threads use the GPU, as {first} is: policy segment "
            "has one for threads that suspend; or make it several processes"
        )
    if assigns:
        return f"{name} assigns no GPU priorities beside a process of which several threads use the GPU, as {first} is"
    for tasks in taskset.processes.values():
        lowest = next((t.name for t in tasks if t.best_effort), None)
        if lowest and not all(t.best_effort for t in tasks):
            return f"{lowest} is best effort, and a segment that it begins has all threads of its process wait"
    beside = (
        (taskset.threads, "threads that serve several tasks"), (taskset.pending, "several pending jobs of a task"),
        (taskset.triggers, "tasks that others release"), (taskset.forks, "workers"),
        (taskset.resources, "[[resource]]"), (taskset.platform.cpu_latency, "cpu_latency"),
        (taskset.partitioned or len(taskset.parts) > 1, "partitions"),
        (taskset.time_partitioned, "slices of partitions"),
    )  # fmt: skip
    for there, what in beside:
        if there:
            return f"{name} has no bound for {what} beside process {first}, of which several threads use the GPU"
    return None

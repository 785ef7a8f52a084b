# SPDX-License-Identifier: GPL-2.0
"""The order in which tasks wait for each other where partitions share CPUs: in a circle, no bound holds.

The reasons are in docs/readings/inside-partitions.md.  A *CPU edge* leads from a GPU-using task to one above it on its
CPU.  A *GPU edge* leads to a task of another CPU, in the same partition, with at least the first task's GPU priority.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analysis.model import Copy, Task, Taskset
from analysis.rta.order import Equals, disorder, equals_that_wait, one_sided

#: Why nothing is proved beside a task that may execute in every partition.
NO_HOME = "{} uses the GPU and names no partition, so that nothing keeps it off those of other tasks"


def home(task: Task) -> str | None:
    """The name of the partition whose lock the task takes; None where the GPU is not partitioned."""
    part = task.partition
    return part.name if part is not None and part.own_gpu else None


def not_isolated(taskset: Taskset) -> str | None:
    """Why partitions are not isolated: a GPU-using task names none, while others do; None if they are isolated."""
    users = [task for task in taskset if task.uses_gpu]
    if not taskset.partitioned and all(home(task) is None for task in users):
        return None
    for task in users:
        if home(task) is None:
            return NO_HOME.format(task.name)
    return None


def locked(taskset: Taskset) -> str | None:
    """Why updates without a bound can delay tasks: best effort makes such updates in another partition."""
    for part in taskset.locked_beside:
        return f"in partition {part.name} best effort updates runlists, under policy lock-*, and can do so on any CPU"
    return None


def on_one_bus(taskset: Taskset) -> str | None:
    """Why copies wait for each other, or for kernels, across partitions; None if they do not.

    No test here models the bus, nor a GPU on which a copy excludes all kernels (copy_engine).
    """
    copying = [task for task in taskset if any(isinstance(part, Copy) for s in task.gpu_segments for part in s.parts)]
    for task in copying:
        others = (one for one in copying if home(one) != home(task) and not (one.best_effort and task.best_effort))
        if other := next(others, None):
            where = "in different partitions, and copies of all partitions share one bus"
            return f"{task.name} and {other.name} copy {where}"
    for task in () if taskset.platform.copy_engine else copying:
        users = (one for one in taskset if one.uses_gpu and home(one) != home(task))
        if other := next((one for one in users if not (one.best_effort and task.best_effort)), None):
            return f"{task.name} copies, {other.name} is in another partition, and no kernel runs beside copies"
    return None


def without_turns(taskset: Taskset) -> str | None:
    """Two tasks whose kernels execute at the same time, although the bound assumes turns; None if there are none."""
    first: dict[str, Task] = {}
    for task in taskset:
        if task.uses_gpu and task.partition and task.partition.at_once:
            other = first.setdefault(task.partition.name or task.name, task)
            if other is not task:
                where = f"{other.name} and {task.name} are in partition {task.partition.name} of MPS"
                return f"{where}, where kernels execute at once and have no turns"
    return None


def out_of_order(taskset: Taskset, spins: bool) -> str | None:
    """Why no bound holds under these priorities; None if they are in order.  ``spins``: whether tasks wait busily.

    Within a partition the order is the same as for one GPU.  If tasks spin, they must not wait in a circle across
    partitions, and GPU-using tasks of one CPU must not have the same priority.
    """
    reason = one_sided(taskset)
    for name in sorted({home(t) or "" for t in taskset.real_time if t.uses_gpu}):
        there = tuple(t for t in taskset if t.uses_gpu and (home(t) or "") == name)
        reason = reason or disorder(replace(taskset, tasks=there))
    if reason or not spins:
        return reason
    # The search for a circle takes time cubic in the number of tasks, so the quick check comes first.
    return equals_that_wait(taskset, Equals.UNBOUNDED) or circle(taskset)


def circle(taskset: Taskset) -> str | None:
    """A CPU edge within a circle of CPU and GPU edges, in words; None if there is none."""
    users = [t for t in taskset.real_time if t.uses_gpu]
    if _one_order(users):
        return None
    for above in users:
        below = [t for t in users if t.cpu == above.cpu and t.priority < above.priority]
        reached = _reached(above, users) if below else set()
        for task in below:
            if task.name in reached:
                return (
                    f"{above.name} can spin for the GPU until {task.name}, below it on CPU {task.cpu}, executes; "
                    "give tasks the same order on all CPUs and in all partitions"
                )
    return None


def _one_order(users: Iterable[Task]) -> bool:
    """Whether GPU priorities have the order of CPU priorities on each CPU; then every CPU edge leads upward."""
    last: dict[int, Task] = {}
    for task in users:
        above = last.get(task.cpu)
        if above is not None and above.segment_priority <= task.segment_priority:
            return False
        last[task.cpu] = task
    return True


def _reached(start: Task, users: Iterable[Task]) -> set[str]:
    """The names of the tasks to which edges lead from a task."""
    names: set[str] = set()
    todo = [start]
    while todo:
        task = todo.pop()
        for other in users:
            if other.name not in names and (_outranks(other, task) or _preempts(other, task)):
                names.add(other.name)
                todo.append(other)
    return names


def waited_for(users: Iterable[Task], taskset: Taskset) -> list[Task]:
    """K*: the owners that ``users`` can spin for, the owners that tasks above these on their CPUs can spin for, etc."""
    everyone = [t for t in taskset.real_time if t.uses_gpu]
    found: dict[str, Task] = {}
    todo = list(users)
    seen = {t.name for t in todo}
    while todo:
        task = todo.pop()
        for owner in everyone:
            if owner.name in found or not _outranks(owner, task):
                continue
            found[owner.name] = owner
            spinning = [t for t in everyone if t is owner or _at_or_above(t, owner)]
            todo += [t for t in spinning if t.name not in seen]
            seen |= {t.name for t in spinning}
    return list(found.values())


def _outranks(other: Task, task: Task) -> bool:
    """Whether a GPU edge leads from ``task`` to ``other``."""
    return other.cpu != task.cpu and home(other) == home(task) and other.segment_priority >= task.segment_priority


def _preempts(other: Task, task: Task) -> bool:
    """Whether a CPU edge leads from ``task`` to ``other``."""
    return other.cpu == task.cpu and other.priority > task.priority


def _at_or_above(other: Task, task: Task) -> bool:
    return other.cpu == task.cpu and other.priority >= task.priority

# SPDX-License-Identifier: GPL-2.0
"""Planning where tasks of all partitions share CPUs: the tests `gcaps-suspend` and `gcaps-busy` inside partitions.

With D for R in every jitter, the `partitioned-suspend` bounds for a partition's tasks depend on its members and its
size.  They depend on no other size: G^e of other partitions does not appear.  By L4 they do not grow with the size.
So merges can use them as their test.  Bounds under busy waiting depend on all sizes.  They only check a plan made for
suspension, and partitions whose tasks fail the check grow.  In the end, the whole file is tested
(docs/readings/inside-partitions.md, "GCAPS inside partitions").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.answers import registry
from analysis.model import GpuSegment, Partition, Segment, Span, Task, Taskset
from analysis.partition import variants
from analysis.partition.merge import Infeasible, Merger, Part
from analysis.partition.variants import Allocation
from analysis.partition.workload import Item, Workload
from analysis.rta import Bound, Reason, Result, partitioned
from analysis.rta.recurrence import solve
from analysis.rta.system import System

#: The test of a whole file, by the name of the test inside its partitions.
TESTS = {"gcaps-suspend": "partitioned-suspend", "gcaps-busy": "partitioned-busy"}


@dataclass(frozen=True)
class Place:
    """A partition: its name, its size, and the indexes of its tasks, ascending."""

    name: str
    size: int
    tasks: tuple[int, ...]


class Coupled(Merger):
    """Sizes of partitions whose tasks share CPUs with all other tasks of the taskset."""

    def __init__(self, workload: Workload, taskset: Taskset) -> None:
        super().__init__(workload)
        self.taskset = taskset
        self._known: dict[tuple[tuple[int, ...], int], bool] = {}

    def passes(self, tasks: Sequence[int], units: int) -> bool:
        """Whether these tasks have bounds in one partition of that size, with each other task in its own partition."""
        key = tuple(tasks), units
        if key not in self._known:
            members = {self.workload.items[index].name for index in tasks}
            alone = [Place(item.name, 1, (at,)) for at, item in enumerate(self.workload.items) if at not in tasks]
            divided = divided_taskset(self.taskset, self.workload, [Place("", units, tuple(tasks)), *alone])
            system = System(divided)
            users = [task for task in divided if task.name in members]
            self._known[key] = all(isinstance(solve(t, partitioned.suspend(t, system)), Bound) for t in users)
        return self._known[key]

    @cached_property
    def singles(self) -> list[Part] | Infeasible:
        """A partition for each task; or the task that has no bound alone on any size."""
        parts: list[Part] = []
        for index, item in enumerate(self.workload.items):
            size = self.least((index,), 1, self.workload.units)
            if size is None:
                return Infeasible(None, "has no bound within its deadline alone on any partition", item.name)
            parts.append(self.part((index,), size))
        return parts


def divided_taskset(taskset: Taskset, workload: Workload, places: Sequence[Place]) -> Taskset:
    """The taskset in these places: each task of the workload in its place, with its GPU time there.

    If the taskset has a partition of a place's name, the place keeps all its values except the size.
    """
    old = {one.name: one for one in taskset.partitions}
    homes: dict[str, tuple[Partition, Item, bool]] = {}
    parts = []
    for at, place in enumerate(places):
        name = place.name or f" {at}"
        part = replace(old.get(place.name, Partition()), name=name, compute_units=place.size)
        flags = workload.conflicts(place.tasks)
        for item in (workload.items[index] for index in place.tasks):
            homes[item.name] = part, item, flags[item.memory]
        parts.append(part)
    tasks = tuple(_in_place(task, *homes[task.name]) if task.name in homes else task for task in taskset)
    return replace(taskset, tasks=tasks, partitions=tuple(parts))


def _in_place(task: Task, part: Partition, item: Item, conflict: bool) -> Task:
    """The task with the times of its GPU segments in a partition; below the least known size, that size's times."""
    factor = item.always * item.factor if conflict else item.always
    units, segments, curves = max(part.size or 1, item.smallest), list[Segment](), iter(item.curves)
    for segment in task.segments:
        if isinstance(segment, GpuSegment):
            segments.append(GpuSegment(segment.misc, Span(next(curves).worst(units, factor), 0)))
        else:
            segments.append(segment)
    return replace(task, partition=part, segments=tuple(segments))


def coupled_verdict(taskset: Taskset, workload: Workload, places: Sequence[Place]) -> Result:
    """The verdicts of the workload's test on the divided taskset, tasks without GPU work included."""
    return registry.find_test(TESTS[workload.inside]).run(divided_taskset(taskset, workload, places))


def places_of(found: Allocation) -> list[Place]:
    """The partitions of an allocation, named p1, p2, ..."""
    return [Place(f"p{at}", part.size, part.tasks) for at, part in enumerate(found.parts, 1)]


def plan_coupled(taskset: Taskset, workload: Workload) -> Allocation | Infeasible:
    """The best of all variants for the workload, after growing each partition until all tasks have bounds.

    If units run out first, the allocation is the last one; ``verdict`` says which task has no bound.
    """
    found = variants.best(workload, Coupled(workload, taskset))
    return _grown(found, taskset) if isinstance(found, Allocation) and found.fits else found


def _grown(found: Allocation, taskset: Taskset) -> Allocation:
    """The allocation after growing partitions of failing tasks, size by size, until none fails or units run out."""
    items = found.workload.items
    while not (result := coupled_verdict(taskset, found.workload, places_of(found))).schedulable:
        failed = {failure.task for failure in result.failures if failure.reason is not Reason.DEPENDS_ON}
        larger = _larger(found, [at for at, item in enumerate(items) if item.name in failed])
        if larger is None:
            break
        found = larger
    return found


def _larger(found: Allocation, failed: Sequence[int]) -> Allocation | None:
    """The allocation with one failing task's partition, the smallest that can grow, one size larger; else None."""
    workload, free = found.workload, found.workload.units - found.units
    for at, part in sorted(enumerate(found.parts), key=lambda one: one[1].size):
        size = next((size for size in workload.allowed if size > part.size), None)
        if size is not None and size - part.size <= free and set(part.tasks) & set(failed):
            grown = replace(part, size=size, utilization=workload.utilization(part.tasks, size))
            return replace(found, parts=(*found.parts[:at], grown, *found.parts[at + 1 :]))
    return None

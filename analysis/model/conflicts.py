# SPDX-License-Identifier: GPL-2.0
"""Tasks that slow each other's GPU work down (contention-aware partitioning), and a taskset under another policy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from analysis.model import CpuSegment, GpuSegment, Intensity, Kernel, Segment, Span, Task, Taskset
from analysis.model.fold import units_of
from analysis.model.policy import POLICIES

#: The reason why ``under`` cannot give times.
UNKNOWN_TIMES = (
    "under policy timesliced best effort slows tasks down, and what that makes of kernels and copies is not known"
)


class Neighbours:
    """The numbers of GPU-using tasks that execute beside others, by intensity: on the same units, and on all units.

    Best-effort work stops while a real-time task owns its partition, unless the policy is `timesliced`; it continues in
    other partitions.  A file need not state the intensity of best effort, which then counts as every intensity.  Best
    effort without a partition may use every partition.
    """

    def __init__(self, taskset: Taskset) -> None:
        platform = taskset.platform
        self.cross = platform.cross_contention
        self.inside: Counter[tuple[str | None, Intensity | None]] = Counter()
        self.memory = 0
        for task in taskset.tasks:
            if not task.uses_gpu:
                continue
            part = task.partition
            if not task.best_effort or POLICIES[(part and part.policy) or platform.policy].turns:
                self.inside[_units_of(task), task.intensity] += 1
            self.memory += task.intensity is Intensity.MEMORY or (task.best_effort and task.intensity is None)

    def always(self, task: Task) -> Fraction:
        """The factor by which the task's GPU work is multiplied wherever it executes.

        As soon as two tasks are memory-intensive, another partition may hold one of them.  The factor then counts in
        every partitioning, even if both share one: otherwise partitions would depend on each other (readings.md).
        """
        return self.cross if task.intensity is Intensity.MEMORY and self.memory > 1 else Fraction(1)

    def factor(self, task: Task) -> Fraction:
        """The factor by which the task's GPU work is multiplied where it executes."""
        return self.always(task) * (task.conflict if self.conflict(task) else 1)

    def conflict(self, task: Task) -> bool:
        """Whether another task of its intensity shares its units."""
        if task.intensity is None:
            return False
        return sum(self.inside[units, kind] for units in {_units_of(task), None} for kind in (task.intensity, None)) > 1


def _units_of(task: Task) -> str | None:
    """The name of the partition whose units a task uses; None: all units, which partitions in time share."""
    return task.partition.name if task.partition and task.partition.own_gpu else None


def under(taskset: Taskset, policy: str, everywhere: bool = False) -> Taskset | None:
    """The taskset with that policy in [platform], and with its GPU times under that policy; None if they are unknown.

    The times in a file hold under its own policies.  Under `timesliced`, best effort executes beside real-time tasks,
    and so conflicts with them.  ``everywhere``: also removes the partitions' own policies.
    """
    changed = replace(taskset, platform=replace(taskset.platform, policy=policy))
    if everywhere:
        changed = changed.with_partitions(lambda one: replace(one, policy=None))
    before, after = Neighbours(taskset), Neighbours(changed)
    slowed = {task.name for task in taskset if before.factor(task) != after.factor(task)}
    if any(segment.parts for task in taskset if task.name in slowed for segment in task.gpu_segments):
        return None
    return replace(changed, tasks=tuple(_again(t, changed, after) if t.name in slowed else t for t in changed))


def _again(task: Task, taskset: Taskset, around: Neighbours) -> Task:
    """The task with its times beside these neighbours.

    If its time without conflicts is no longer known, it keeps its present conflict, or a new one is multiplied on top.
    """
    units, conflict = units_of(task, taskset.platform) or 1, task.conflict if around.conflict(task) else Fraction(1)
    segments: list[Segment] = []
    for segment in task.segments:
        if isinstance(segment, CpuSegment):
            segments.append(segment)
            continue
        curve, factor = segment.scaling, around.factor(task)
        if curve is None:
            curve, factor = Kernel.falling([(units, segment.pure.worst)]), conflict
        span = Span(curve.worst(units, factor), segment.pure.best)
        segments.append(GpuSegment(segment.misc, span, scaling=segment.scaling))
    return replace(task, segments=tuple(segments))

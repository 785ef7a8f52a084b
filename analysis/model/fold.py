# SPDX-License-Identifier: GPL-2.0
"""Copies and kernels as GPU segments, for analyses of a GPU that tasks share in time."""

from __future__ import annotations

from dataclasses import replace

from analysis.model import Copy, GpuSegment, Kernel, Platform, Segment, Span, Task, Taskset


def whole_gpu(parts: tuple[Copy | Kernel, ...], units: int) -> GpuSegment:
    """The GPU segment of copies and kernels that use all ``units`` of the GPU, without misc part.

    Copies count as GPU work, as if they could be preempted.  They cannot be, so tests make the longest copy a
    non-preemptive region (analysis.rta.regions.whole_segments).
    """
    best = worst = 0
    for part in parts:
        time = part.time if isinstance(part, Copy) else part.on(units)
        best, worst = best + time.best, worst + time.worst
    return GpuSegment(Span.exactly(0), Span(worst, min(best, worst)), parts=parts)


def units_of(task: Task, platform: Platform) -> int:
    """The number of units that its GPU work has now; 0 if unknown."""
    return (task.partition.size if task.partition else None) or platform.compute_units


def parts_apart(taskset: Taskset) -> Taskset:
    """The taskset with a GPU segment for each copy and kernel, for time slices.

    A program that waits for one of them before it submits the next leaves its TSG without work in between.  This ends
    the TSG's turn (docs/readings/gcaps.md, "Round robin").  A second application changes nothing.
    """
    if all(len(segment.parts) < 2 for task in taskset for segment in task.gpu_segments):
        return taskset
    tasks = (
        replace(task, segments=tuple(one for s in task.segments for one in _apart(s, units_of(task, taskset.platform))))
        for task in taskset
    )
    return replace(taskset, tasks=tuple(tasks))


def _apart(segment: Segment, units: int) -> list[Segment]:
    if not isinstance(segment, GpuSegment) or len(segment.parts) < 2:
        return [segment]
    pieces = [whole_gpu((part,), units or 1) for part in segment.parts]
    return [replace(pieces[0], misc=segment.misc), *pieces[1:]]

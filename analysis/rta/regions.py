# SPDX-License-Identifier: GPL-2.0
"""Non-preemptive regions: a preemption of the GPU waits for the longest thread block or copy chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.model import Copy, GpuSegment, Kernel, Partition, Taskset
from analysis.model.kernel import WHOLE


def with_region(taskset: Taskset, longest: int) -> Taskset:
    """The taskset on a GPU that finishes up to ``longest`` ns of work before it leaves a context.

    Every context switch then takes theta + ``longest`` instead of theta (readings, "Non-preemptive regions").  Raises
    ValueError if ``longest`` is negative.
    """
    if longest < 0:
        raise ValueError(f"a region of {longest} ns cannot be")
    platform = taskset.platform
    longer = taskset.with_partitions(
        lambda one: replace(one, theta=(one.theta or 0) + longest) if one.own_costs else one
    )
    return replace(longer, platform=replace(platform, theta=platform.theta + longest))


def longest_known(taskset: Taskset) -> int:
    """The longest copy or thread block among the taskset's segments, best effort included, ns; 0: none is known."""
    return max((_region(p) for task in taskset for segment in task.gpu_segments for p in segment.parts), default=0)


def _region(part: Copy | Kernel) -> int:
    """The length of one block or copy; a block takes alpha times its time alone where two of them share a unit."""
    return part.time.worst if isinstance(part, Copy) else -(-part.interleave * part.block // WHOLE)


def left_out(taskset: Taskset) -> list[str]:
    """A remark if the simulation of a time-shared GPU simplifies copies and kernels; else an empty list.

    The tests add the longest copy or block to every context switch.  The simulator interrupts them anywhere.
    """
    if not any(isinstance(part, Copy) for task in taskset for one in task.gpu_segments for part in one.parts):
        return []
    return [
        "copies and kernels in a row are simulated as one GPU segment that preemption interrupts anywhere, and no bus:"
        " what is observed can be less than with copies; --policy federated simulates the bus"
    ]


def whole_segments(taskset: Taskset) -> Taskset:
    """The taskset as tests of a time-shared GPU see it.

    Copies and kernels in a row become one GPU segment without parts.  Every context switch may have to wait for the
    longest copy or block among them, or for the platform's ``region``.  A second application changes nothing.
    """
    if not taskset.platform.region and not any(segment.parts for task in taskset for segment in task.gpu_segments):
        return taskset
    return with_region(_whole(taskset), max(longest_known(taskset), taskset.platform.region))


def _whole(taskset: Taskset) -> Taskset:
    """The taskset without parts of segments, and without a region."""
    tasks = tuple(
        replace(task, segments=tuple(replace(s, parts=()) if isinstance(s, GpuSegment) else s for s in task.segments))
        for task in taskset
    )
    return replace(taskset, tasks=tasks, platform=replace(taskset.platform, region=0))


def whole_systems(taskset: Taskset, systems: Sequence[Taskset]) -> Taskset:
    """`whole_segments` for partitions that are these systems: a switch waits only for work of its own partition."""
    longest = {task.name: max(longest_known(one), one.platform.region) for one in systems for task in one}
    of = {task.partition.name: longest[task.name] for task in taskset if task.partition and task.uses_gpu}

    def longer(part: Partition) -> Partition:
        alpha, theta = taskset.platform.costs(part)
        return replace(part, alpha=alpha, theta=theta + of[part.name]) if of.get(part.name) else part

    return _whole(taskset).with_partitions(longer)


def switching(taskset: Taskset) -> Taskset:
    """The taskset with the platform's region as a part of theta, for simulation; tests add longer copies and blocks."""
    platform = taskset.platform
    longer = max(platform.region - longest_known(taskset), 0)
    return with_region(replace(taskset, platform=replace(platform, region=0)), longer) if platform.region else taskset

# SPDX-License-Identifier: GPL-2.0
"""Parts of the GPU in a taskset file: checks across tables, and the times of GPU work in a task's own part."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from analysis.model import CpuSegment, GpuSegment, Kernel, Partition, Platform, Segment, Sharing, Span, Task, Taskset
from analysis.model.conflicts import Neighbours
from analysis.model.fold import units_of, whole_gpu
from analysis.taskset import mechanisms
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted
from gpurt.types import Document


def check_units(values: Document | None, platform: Platform | None, path: Where, report: Mistakes) -> None:
    """Reports a part of the GPU without CUs, with CUs beyond the GPU's, or with more than its mask has."""
    if values is None:
        return
    units, mask = values.get("compute_units"), int(values.get("cu_mask", "0x1"), 16)
    there = platform.compute_units if platform else 0
    if not mask:
        report.add((*path, "cu_mask"), "cu_mask: names no CU")
    elif there and mask >> there:
        report.add((*path, "cu_mask"), f"cu_mask: the platform has CUs 0 to {there - 1}")
    if there and (units or 0) > there:
        report.add((*path, "compute_units"), f"compute_units: the platform has {there}, got {units}")
    if "cu_mask" in values and 0 < mask.bit_count() < (units or 0):
        report.add((*path, "cu_mask"), f"cu_mask: has {mask.bit_count()} CUs, compute_units says {units}")


def check_costs(values: Document, path: Where, report: Mistakes) -> None:
    """Reports an epsilon that is less than theta, which it contains."""
    if "epsilon" in values and values.get("theta", 0) > values["epsilon"]:
        report.add((*path, "epsilon"), "epsilon: is alpha + theta, so it cannot be less than theta")


def made_partitions(values: Document) -> Partition:
    """The partition that a table describes.  If only epsilon is known, alpha may be all of it."""
    mask, epsilon = values.get("cu_mask"), values.get("epsilon")
    rest = {key: value for key, value in values.items() if key not in ("compute_units", "cu_mask", "epsilon")}
    if epsilon is not None:
        rest["alpha"] = epsilon - values.get("theta", 0)
    if "shared" in rest:
        rest["shared"] = Sharing(rest["shared"])
    return Partition(values.get("compute_units"), int(mask, 16) if mask else None, **rest)


def partition_sizes(units: dict[str, int] | None, there: int, report: Mistakes) -> tuple[int, ...]:
    """The sizes that a partition may have, ascending; empty: any."""
    if units is None:
        return ()
    if not there:
        report.add(("platform", "units"), "units: compute_units is missing: how many there are in all")
    elif units["minimum"] > there:
        report.add(("platform", "units"), f"units: the smallest partition has {units['minimum']}, the platform {there}")
    return tuple(range(units["minimum"], there + 1, units.get("step", 1)))


def check_partitions(taskset: Taskset, report: Mistakes) -> None:
    """Reports contradictions between tables.  The taskset has each [[task]] and [[partition]], in file order."""
    divided = any(partition.size is not None for partition in taskset.partitions)
    for index, partition in enumerate(taskset.partitions):
        if divided or not partition.in_time:
            _check_size(partition, taskset.platform, ("partition", index), report)
        else:
            _check_in_time(partition, ("partition", index), report)
    for index, task in enumerate(taskset.tasks):
        if task.partition is not None and task.partition.name is None:
            _check_size(task.partition, taskset.platform, ("task", index, "partition"), report)
    _check_all(taskset, report)
    _check_processes(taskset, report)
    mechanisms.check_mechanisms(taskset, report)
    _check_intensities(taskset, report)
    for index, task in enumerate(taskset.tasks):
        named = task.partition is not None and task.partition.name is not None
        if divided and not named and _counts(task):
            report.add(
                ("task", index, "partition"),
                f'task {quoted(task.name)} is in no partition; with [[partition]], a real-time task that uses the GPU '
                'names one: partition = "..."',
            )  # fmt: skip


def _check_processes(taskset: Taskset, report: Mistakes) -> None:
    """Reports processes in several partitions: a process has one GPU context, hence one partition."""
    for name, tasks in taskset.processes.items():
        for task in tasks:
            if task.partition != tasks[0].partition:
                where: Where = ("task", taskset.tasks.index(task))
                report.add(where, f"partition: threads of process {quoted(name)} that use the GPU have one together")


def _check_size(partition: Partition, platform: Platform, path: Where, report: Mistakes) -> None:
    """Reports a partition of a size that the GPU cannot have."""
    if partition.size is None:
        report.add(path, '"compute_units" is missing: how many SMs or CUs the partition has')
    elif platform.sizes and partition.size not in platform.sizes:
        some = ", ".join(map(str, platform.sizes[:3]))
        more = ", ..." if len(platform.sizes) > 3 else ""
        report.add(path, f"a partition of this GPU has {some}{more} units, not {partition.size}")


def _check_in_time(partition: Partition, path: Where, report: Mistakes) -> None:
    """A partition in time must not have keys that make it a GPU of its own."""
    for key, there in (("policy", "policy"), ("epsilon", "alpha"), ("theta", "theta")):
        if getattr(partition, there) is not None:
            report.add((*path, key), f"{key}: goes with compute_units; without them the TSGs share the whole GPU")
    if way := mechanisms.way_of(partition):
        report.add((*path, way), f"{way}: goes with compute_units; without them the TSGs share the whole GPU")


def _check_all(taskset: Taskset, report: Mistakes) -> None:
    """All partitions together: no CU is in two, and the GPU has enough CUs."""
    there = taskset.platform.compute_units
    if not there and any(partition.size is not None for partition in taskset.partitions):
        report.add(("platform",), "compute_units is missing: [[partition]] divides them")
        return
    wanted = 0
    for index, partition in enumerate(taskset.partitions):
        wanted += partition.size or 0
        if wanted > there >= wanted - (partition.size or 0):
            all_of_them = sum(one.size or 0 for one in taskset.partitions)
            report.add(("partition", index), f"the partitions have {all_of_them} units, the platform {there}")
    for (_, one), (index, other) in combinations(enumerate(taskset.partitions), 2):
        if common := (one.cu_mask or 0) & (other.cu_mask or 0):
            text = f"cu_mask: shares CUs with partition {quoted(one.name or '')}: {common:#x}"
            report.add(("partition", index, "cu_mask"), text)


def _check_intensities(taskset: Taskset, report: Mistakes) -> None:
    """If a conflict can slow work down, each task must state its intensity."""
    matters = taskset.platform.cross_contention > 1 or any(t.conflict > 1 for t in taskset if _counts(t))
    for index, task in enumerate(taskset.tasks):
        if task.intensity is None and matters and _counts(task):
            why = "it decides which tasks of the file slow each other down (conflict, cross_contention)"
            text = f'task {quoted(task.name)}: "intensity" is missing, "memory" or "compute": {why}'
            report.add(("task", index), text)


def _counts(task: Task) -> bool:
    return task.uses_gpu and not task.best_effort


def placed_in(taskset: Taskset, report: Mistakes) -> Taskset:
    """The taskset with the times of GPU segments in their tasks' partitions, conflicts included.

    In a task that releases another one, kernels and times by units have the best case 0: see chains.with_least_times.
    """
    around, producers = Neighbours(taskset), {name for those in taskset.triggers.values() for name in those}
    tasks = [_placed(index, task, taskset.platform, around, report) for index, task in enumerate(taskset.tasks)]
    return replace(taskset, tasks=tuple(_unhurried(one) if one.name in producers else one for one in tasks))


def _unhurried(task: Task) -> Task:
    return replace(task, segments=tuple(
        replace(s, pure=Span(s.pure.worst, 0)) if isinstance(s, GpuSegment) and (s.parts or s.scaling) else s
        for s in task.segments
    ))  # fmt: skip


def _placed(index: int, task: Task, platform: Platform, around: Neighbours, report: Mistakes) -> Task:
    units = units_of(task, platform)
    factor = around.factor(task)
    segments: list[Segment] = []
    for at, segment in enumerate(task.segments):
        where = ("task", index, "segments", at)
        if isinstance(segment, CpuSegment):
            segments.append(segment)
        elif segment.parts:
            if factor > 1:
                report.add(
                    ("task", index, "segments"),
                    "kernels and copies: what conflict and cross_contention make of them is not known; "
                    "leave those out, or give gpu times",
                )
            segments.append(whole_gpu(segment.parts, units or 1))
        else:
            segments.append(_timed(segment, units, factor, where, report))
    return replace(task, segments=tuple(segments))


def _timed(segment: GpuSegment, units: int, factor: Fraction, where: Where, report: Mistakes) -> GpuSegment:
    """The segment with its time on ``units`` units, times the factor.  A plain time is for the task's own units."""
    curve = segment.scaling
    if curve is None and (factor == 1 or not units):
        worst = Kernel.falling([(1, segment.pure.worst)]).worst(1, factor)
        return replace(segment, pure=Span(worst, segment.pure.best))
    if not units:
        report.add(where, "gpu: compute_units is missing in [platform]: this time depends on it")
        return segment
    best = segment.pure.best if curve is None else curve.worst(units) if units >= curve.smallest else 0
    curve = curve or Kernel.falling([(units, segment.pure.worst)])
    if units < curve.smallest:
        least = curve.smallest
        report.add(where, f"gpu: no time is given for {units} units, which it has; the smallest number is {least}")
        return segment
    return GpuSegment(segment.misc, Span(curve.worst(units, factor), best), scaling=curve, ready=segment.ready)

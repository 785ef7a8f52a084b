# SPDX-License-Identifier: GPL-2.0
"""How [[partition]] divides a real GPU; checks masks against the file's chip, and NVIDIA's ways against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.model import Kernel, Partition, Platform, Task, Taskset
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted

#: The fields of which a partition has at most one; all partitions use the same field.
MECHANISM_KEYS = ("cu_mask", "mps_percentage", "mps_partition", "green_context", "mig")
#: The mechanisms that determine the number of units.
SIZED = ("cu_mask", "mps_percentage", "mps_partition", "mig")
#: MPS rounds a percentage to this many SMs: seen on an H200 (docs/hardware).
PAIR = 2


def way_of(partition: Partition) -> str | None:
    """The field that states how the GPU is divided; None if no field does."""
    return next((way for way in MECHANISM_KEYS if getattr(partition, way) is not None), None)


def guaranteed(percentage: int, there: int) -> int:
    """The SMs that a percentage of MPS guarantees: whole pairs, rounded down.  A small percentage may give more."""
    return percentage * there // 100 // PAIR * PAIR


def percentage_of(units: int, there: int) -> int:
    """The least percentage of MPS that guarantees ``units`` of a GPU's SMs; above 100: no percentage does."""
    return -(-100 * PAIR * -(-units // PAIR) // there)


def check_mechanisms(taskset: Taskset, report: Mistakes) -> None:
    """Reports partitions of a file that contradict each other or the chip."""
    partitions = taskset.partitions
    given = [
        (index, way) for index, one in enumerate(partitions) for way in MECHANISM_KEYS if getattr(one, way) is not None
    ]
    for index, way in given:
        if way != given[0][1]:
            text = f"{way}: partition {quoted(partitions[given[0][0]].name or '')} has {given[0][1]}; a GPU is divided"
            report.add(("partition", index, way), f"{text} in one way")
    _check_percentages(partitions, taskset.platform, report)
    for way in ("mps_partition", "green_context", "mig"):
        _check_own(partitions, way, report)
    if taskset.platform.chip is not None and (masked := list(_masked(taskset))):
        from analysis.taskset import masks  # most files have none

        masks.check_masks(taskset.platform.chip, masked, taskset.platform, report)


def _check_percentages(partitions: Sequence[Partition], platform: Platform, report: Mistakes) -> None:
    total = 0
    for index, one in enumerate(partitions):
        if one.mps_percentage is None:
            continue
        where: Where = ("partition", index, "mps_percentage")
        total += one.mps_percentage
        if total > 100 >= total - one.mps_percentage:
            report.add(where, "mps_percentage: with those before it, more than 100 %: partitions would share SMs")
        units = guaranteed(one.mps_percentage, platform.compute_units)
        if one.size and units < one.size:
            least = percentage_of(one.size, platform.compute_units)
            text = f"{one.mps_percentage} % of {platform.compute_units} are {units} units, in whole pairs"
            cure = f"{least} % are enough" if least <= 100 else "no percentage gives so many"
            report.add(where, f"mps_percentage: {text}, compute_units says {one.size}; {cure}")


def _check_own(partitions: Sequence[Partition], way: str, report: Mistakes) -> None:
    """Reports two partitions that name the same context or instance."""
    seen: dict[object, str] = {}
    for index, one in enumerate(partitions):
        value = getattr(one, way)
        if value is not None and value in seen:
            report.add(("partition", index, way), f"{way}: partition {quoted(seen[value])} has {value} already")
        seen.setdefault(value, one.name or "")


def _masked(taskset: Taskset) -> Iterator[tuple[Where, Partition]]:
    for index, one in enumerate(taskset.partitions):
        if one.cu_mask is not None:
            yield ("partition", index, "cu_mask"), one
    for index, task in enumerate(taskset.tasks):
        if task.partition and task.partition.name is None and task.partition.cu_mask is not None:
            yield ("task", index, "partition"), task.partition


def unchecked(taskset: Taskset) -> Iterator[str]:
    """The assumption on masks and times by units, if no chip says how its CUs are spread over the GPU."""
    if taskset.platform.chip is not None:
        return
    names = [task.name for task in taskset if task.partition and task.partition.cu_mask and _by_units(task)]
    if names:
        yield (
            f"{', '.join(names)}: times are for so many units as cu_mask has CUs; say which chip it is for (chip in "
            "[platform]): where shader engines have unequal parts of a mask, it works like fewer (docs/cu-masks.md)"
        )


def _by_units(task: Task) -> bool:
    """Whether the time of its GPU work depends on the number of units."""
    return any(one.scaling or any(isinstance(part, Kernel) for part in one.parts) for one in task.gpu_segments)

# SPDX-License-Identifier: GPL-2.0
"""Online admission: a place for one more task, so that nobody admitted before loses his guarantee.

Tests of different partitions are independent, so that only the partition that changes could fail.  Every partition is
tested once more in any case: a task may also make contention between partitions count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from analysis.partition import variants
from analysis.partition.merge import Infeasible, Merger
from analysis.partition.variants import Allocation
from analysis.partition.workload import Workload


class How(str, Enum):
    """Where the task goes, in the order in which that is tried."""

    EXISTING = "an existing partition of the same size"
    NEW = "a new partition"
    GROWN = "an existing partition that grows"
    MOVED = "a new division of the GPU"


@dataclass(frozen=True)
class Place:
    """A partition: its name, None for a new one; its size; the indexes of its tasks, ascending."""

    name: str | None
    size: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Admission:
    """The places after admission; ``how`` is None if there is none, and ``tried`` says why, way by way."""

    places: tuple[Place, ...]
    how: How | None
    tried: tuple[str, ...]


def admit_task(
    workload: Workload, places: Sequence[Place], task: int, move: bool = False, grow: bool = True,
    merger: Merger | None = None,
) -> Admission:  # fmt: skip
    """Places ``task``; all others are in ``places``.

    ``move``: if nothing else works, by dividing the GPU anew.  ``grow``: whether partitions can get more units.
    ``merger``: what decides whether tasks fit a partition; by the workload's test inside it unless given.
    """
    merger = merger or Merger(workload)
    broken = [place for place in places if place.tasks and not merger.passes(place.tasks, place.size)]
    free = workload.units - sum(place.size for place in places)
    tried: list[str] = []
    if broken:
        names = ", ".join(place.name or "" for place in broken)
        tried.append(f"{names} would miss deadlines on its units, once the task is in the system or before")
    else:
        fullest = sorted(places, key=lambda place: -workload.utilization(place.tasks, place.size))
        for how, way in ((How.EXISTING, _existing), (How.NEW, _new), (How.GROWN, _grown if grow else _fixed)):
            found = way(merger, fullest, task, free)
            if isinstance(found, str):
                tried.append(f"{how.value}: {found}")
                continue
            kept = [found if place.name == found.name else place for place in places]
            return Admission(tuple(kept if found in kept else [*kept, found]), how, tuple(tried))
    if not move:
        return Admission(tuple(places), None, tuple(tried))
    moved = variants.best(workload, merger)
    if isinstance(moved, Allocation) and moved.fits:
        divided = tuple(Place(None, part.size, part.tasks) for part in moved.parts)
        return Admission(divided, How.MOVED, tuple(tried))
    why = str(moved) if isinstance(moved, Infeasible) else f"takes {moved.units} units of {workload.units}"
    return Admission(tuple(places), None, (*tried, f"{How.MOVED.value}: {why}"))


def _with(place: Place, task: int) -> tuple[int, ...]:
    return tuple(sorted((*place.tasks, task)))


def _existing(merger: Merger, places: Sequence[Place], task: int, _: int) -> Place | str:
    smallest = merger.workload.items[task].smallest
    for place in places:
        if place.size >= smallest and merger.passes(_with(place, task), place.size):
            return replace(place, tasks=_with(place, task))
    return f"none of {len(places)} has room for it"


def _new(merger: Merger, places: Sequence[Place], task: int, free: int) -> Place | str:
    most = merger.workload.most
    if most is not None and len(places) >= most:
        return f"there are {len(places)} already, {most} at most"
    size = merger.least((task,), 1, merger.workload.units)
    if size is None:
        return "it misses its deadline alone on any partition"
    if size > free:
        return f"it needs {size} units, {free} are free"
    return Place(None, size, (task,))


def _fixed(merger: Merger, places: Sequence[Place], task: int, free: int) -> str:
    return "programs that run keep the units that they were started with"


def _grown(merger: Merger, places: Sequence[Place], task: int, free: int) -> Place | str:
    found: list[tuple[int, Place]] = []
    for place in places:
        size = merger.least(_with(place, task), place.size + 1, place.size + free)
        if size is not None:
            found.append((size - place.size, Place(place.name, size, _with(place, task))))
    if not found:
        return f"none has room for it with {free} units more"
    return min(found, key=lambda one: one[0])[1]

# SPDX-License-Identifier: GPL-2.0
"""Partitions of a GPU for the tasks of a file: the answer of `gpurt plan partitions`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.answers import coupled
from analysis.answers import partitions as plan
from analysis.answers.verdict import answer
from analysis.model import Partition, Taskset
from analysis.partition.inside import response_inside
from analysis.partition.mechanism import realised
from analysis.partition.merge import Infeasible, partition_jobs
from analysis.partition.variants import Allocation, best
from analysis.partition.workload import Workload
from analysis.rta import Result
from analysis.taskset import TasksetFile, parse
from analysis.taskset.repartition import with_partitions
from gpurt import files
from gpurt.errors import UsageError
from gpurt.text import filename
from pycontrol.act.plan import offered
from pycontrol.act.plan.offered import Offer

#: Tests for tasks of all partitions on shared CPUs, the same as in analysis.answers.coupled (a test compares).
COUPLED = ("gcaps-suspend", "gcaps-busy")


#: Tests inside a partition for policies of hosts, as in analysis.partition.inside.TESTS and coupled.
INSIDE = ("fp", *COUPLED)


MOST_UNITS = 4096


def _offer(wish: Wish, taskset: Taskset) -> Offer | None:
    """The mechanism's offer; None if no mechanism is wished.  Raises UsageError, DeviceError."""
    if wish.mechanism is None:
        if wish.gpu is not None:
            raise UsageError("--gpu goes with --mechanism cu-mask or green-context")
        return None
    if wish.sizes:
        raise UsageError("--mechanism excludes --sizes: it has sizes of its own")
    return offered.read_offer(wish.mechanism, wish.gpu, taskset, wish.units)


def _planned(taskset: Taskset, given: Workload) -> tuple[Any, Result | None]:
    """The allocation or why none exists; if partitions share CPUs, also the verdict on the whole file."""
    if given.inside not in COUPLED:
        return best(given), None
    found = coupled.plan_coupled(taskset, given)
    if not isinstance(found, Allocation) or not found.fits:
        return found, None
    return found, coupled.coupled_verdict(taskset, given, coupled.places_of(found))


def check_output(loaded: TasksetFile, units: int | None, output: Path) -> None:
    """Raises UsageError if the output would state fewer units than its partitions may have, and FileError."""
    there = loaded.taskset.platform.compute_units
    if units and units > there:
        says = f"says compute_units = {there}" if there else "does not say compute_units"
        raise UsageError(
            f"--units {units}: [platform] of {filename(loaded.path)} {says}, and OUT would be the same; write "
            f"compute_units = {units} there, or leave -o out"
        )
    files.check_writable(output)


def unproved(given: Workload, shared: str) -> str:
    """Why the plan fits but proves nothing; empty if it proves that deadlines hold."""
    if not given.items:
        return "no real-time task uses the GPU, so nothing was proved"
    return shared


def division_workload(
    taskset: Taskset, inside: str, units: int | None, sizes: str | None, most: int | None
) -> Workload:  # fmt: skip
    """The tasks and the GPU in the form of `analysis.partition`.  Raises UsageError."""
    try:
        given = plan.workload(taskset, inside, units, (), most)
    except plan.Unplannable as error:
        raise UsageError(str(error)) from None
    if sizes is None:
        return given
    return plan.workload(taskset, inside, units, sizes_of(sizes, given.units), most)


def sizes_of(text: str, units: int) -> tuple[int, ...]:
    """The sizes of "4:2" (from 4 in steps of 2) or of a list.  Raises UsageError."""
    numbers = text.replace(":", ",", 1).split(",")
    if not all(number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= MOST_UNITS for number in numbers):
        raise UsageError(f"--sizes: expected LEAST:STEP such as 8:8, or a list such as 4,8,16, got {text[:40]!r}")
    values = [int(number) for number in numbers]
    if ":" not in text:
        return tuple(sorted(set(values)))
    if len(values) != 2:
        raise UsageError(f"--sizes: expected LEAST:STEP such as 8:8, or a list such as 4,8,16, got {text[:40]!r}")
    return tuple(range(values[0], max(units, values[0]) + 1, values[1]))


def division_bounds(found: Allocation) -> dict[str, int | None]:
    """Bounds of response times, ns, if the test computes them: only fp does."""
    bounds: dict[str, int | None] = {}
    for part in found.parts if found.workload.inside == "fp" else ():
        there = partition_jobs(found.workload, part.tasks, part.size)
        for at, index in enumerate(part.tasks):
            bounds[found.workload.items[index].name] = response_inside(there, at)
    return bounds


def partition_names(found: Allocation) -> list[str]:
    """The names of the partitions: p1, p2 and so on."""
    return [f"p{at}" for at in range(1, len(found.parts) + 1)]


def _partitions(found: Any) -> list[Partition]:
    """The partitions in the form of a file; none if no allocation was found."""
    if isinstance(found, Infeasible):
        return []
    return [Partition(part.size, name=name) for name, part in zip(partition_names(found), found.parts, strict=True)]


def made(loaded: TasksetFile, text: str, found: Allocation, parts: list[Partition]) -> str:
    """The file's text with the partitions of the allocation."""
    homes = partition_names(found)
    tasks = {task: homes[told["part"]] for task, told in plan.per_task(found).items()}
    return with_partitions(loaded.path, text, parts, tasks)


def refused(output: Path, text: str) -> str:
    """Why `gpurt analyze` says no about a file with that text; empty if it says yes."""
    return answer(parse(output, text).taskset).why


@dataclass(frozen=True)
class Wish:
    """The user's wishes: the command's options."""

    inside: str
    units: int | None
    sizes: str | None
    mechanism: str | None
    gpu: int | None
    most: int | None


@dataclass(frozen=True)
class Divided:
    """The partitions that were found, or why there are none.

    ``result``: the verdict on the whole file if tasks of several partitions share CPUs.  ``parts``: in the form of a
    file.  ``why``: why nothing is proved.  ``shared``: why the plan is about GPU work only.
    """

    given: Workload
    found: Allocation | Infeasible
    result: Result | None
    parts: list[Partition]
    why: str
    shared: str
    notes: list[str]


def divide(taskset: Taskset, wish: Wish) -> Divided:
    """Divides the GPU anew, whatever partitions the taskset has.  Raises UsageError, DeviceError."""
    taskset = replace(taskset, partitions=())
    offer = _offer(wish, taskset)
    given = division_workload(taskset, wish.inside, wish.units, wish.sizes, wish.most)
    if offer:
        given = offered.limited(offer, given)
    found, result = _planned(taskset, given)
    notes = list(plan.conditions(taskset, wish.inside))
    why = plan.why_not(found, given) if isinstance(found, Infeasible) else plan.lacking(found)
    why = why or (result.why if result else "")
    shared = "" if wish.inside in COUPLED else plan.shared_cpus(taskset)
    parts = _partitions(found)
    if offer and not why and parts:
        wanted = [(one.name or "", one.size or 0) for one in parts]
        parts, why = realised(offer.mechanism, given.units, wanted, offer.hardware)
        why = why or offered.unconfirmed(offer, [size for _, size in wanted])
    notes += offered.offer_conditions(offer, [] if why else [one.size or 0 for one in parts]) if offer else []
    why = why or plan.homeless(taskset) or unproved(given, shared)
    return Divided(given, found, result, parts, why, shared, notes)

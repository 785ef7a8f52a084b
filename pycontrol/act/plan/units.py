# SPDX-License-Identifier: GPL-2.0
"""Tasks' own units of the GPU, and one bus for their copies: the answer of `gpurt plan units`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.answers.registry import UNITS as OF_UNITS
from analysis.answers.verdict import beyond, no_proof
from analysis.model import FEDERATED, Partition, Task, Taskset
from analysis.rta import Bound, Reason, Result, Test
from analysis.rtgpu import allocate
from analysis.rtgpu.analyse import System, Units, failed, on_units
from analysis.rtgpu.assumed import assumed_of_units
from analysis.rtgpu.method import METHODS
from analysis.rtgpu.verdict import mixed_modes, other_mode
from analysis.taskset import TasksetFile
from analysis.taskset.repartition import with_partitions
from analysis.taskset.write import with_policy
from gpurt import files
from gpurt.errors import UsageError
from gpurt.text import filename
from gpurt.types import Document

OBJECTIVES = ("least", "slack")
#: The default tests: for tasks that suspend, and for tasks that wait busily.
TEST, BUSY_TEST = "rtgpu", "stgm"


@dataclass(frozen=True)
class OwnUnits:
    """The units of each task with kernels.

    ``why``: why not every task is proved to meet its deadline; empty: all are.  ``units``: the units that tasks may
    have.
    """

    test: Test
    system: System
    units: Units
    objective: str
    result: Result
    why: str

    def data(self) -> Document:
        """The allocation and the verdict, for JSON."""
        return {
            "test": self.test.name, "sound": self.test.sound, "fits": not self.why, "why": self.why or None,
            "objective": self.objective, "compute_units": self.units.total,
            "notes": assumed_of_units(self.system.taskset),
            **_allocation(self.system, self.result),
        }  # fmt: skip

    def write(self, loaded: TasksetFile, text: str, output: Path) -> None:
        """Writes the file, given as ``text``, with the units as partitions.  Raises FileError."""
        with_its_policy = with_policy(loaded.path, text, FEDERATED)
        made = with_partitions(loaded.path, with_its_policy, *_places(self.system, self.result))
        with files.written(output) as file:
            file.write(made.encode())


def own_units(loaded: TasksetFile, name: str | None, units: Units, objective: str) -> OwnUnits:
    """Gives each task with kernels units of its own (docs/rtgpu.md).

    Args:
        loaded: the tasks.
        name: the test; None: the default test for the tasks' waiting mode.
        units: the units that tasks may have.
        objective: one of OBJECTIVES, few units or much slack.

    Raises:
        UsageError: the test is not for tasks that own units, or the GPU has no units.
    """
    name = name or _usual(loaded.taskset)
    if name not in OF_UNITS:
        raise UsageError(f"--test: {name!r} is not about tasks that own units; there are {', '.join(OF_UNITS)}")
    test, system = OF_UNITS[name], System(METHODS[name], loaded.taskset, loaded.taskset.platform.bus_chunk)
    if not units.total and any(system.users):
        raise UsageError("[platform] has no compute_units: say how many SMs or CUs the GPU has, or give --units")
    if why := loaded.taskset.unserved(name):
        raise UsageError(f"{filename(loaded.path)}: {why}")
    contradiction = mixed_modes(loaded.taskset) or other_mode(test.waiting, loaded.taskset)
    result = failed(system, Reason.WAITING, contradiction) if contradiction else allocate.run_allocation(system, units)
    if result.schedulable and objective == "slack":
        best = allocate.most_slack(system, units, allocate.of(system, result))
        assert best is not None
        result = on_units(system, allocate.named_allocation(system, best))
    why = result.why or no_proof(test, loaded.taskset) or beyond(test, loaded.taskset, result)
    return OwnUnits(test, system, units, objective, result, why)


def _usual(taskset: Taskset) -> str:
    """The default test for the tasks' waiting mode."""
    users = [task for task in taskset.real_time if task.uses_gpu]
    return BUSY_TEST if users and all(task.spins() for task in users) else TEST


def _places(system: System, result: Result) -> tuple[list[Partition], dict[str, str]]:
    """A partition for each task with kernels, and the partition of each task that uses the GPU.

    Tasks that only copy need no units.  As the file has no GPU task outside of partitions, they are in the first one.
    """
    given = result.units or {}
    users = [task for task in system.taskset if task.name in given]
    names = {task.name: f"p{at}" for at, task in enumerate(users, start=1)}
    parts = [Partition(given[task.name], name=names[task.name]) for task in users]
    copying: list[Task] = [task for task in system.tasks if task.uses_gpu and task.name not in given]
    return parts, {**names, **{task.name: "p1" for task in copying if parts}}


def _allocation(system: System, result: Result) -> Document:
    """The partitions, and each task's share of them."""
    parts, names = _places(system, result)
    tasks = {}
    for task in system.taskset:
        verdict = result.verdicts[task.name]
        found = verdict if isinstance(verdict, Bound) else None
        tasks[task.name] = {
            "partition": names.get(task.name), "units": (result.units or {}).get(task.name),
            "deadline_ns": None if task.best_effort else task.deadline,
            "wcrt_ns": found and found.wcrt, "slack_ns": found and found.slack,
        }  # fmt: skip
    members = {part.name: [task for task, name in names.items() if name == part.name] for part in parts}
    return {
        "used_units": sum(result.units.values()) if result.units else None, "tasks": tasks,
        "partitions": [{"name": part.name, "compute_units": part.size, "members": members[part.name]}
                       for part in parts],
    }  # fmt: skip


def units_of(loaded: TasksetFile, total: int | None, sizes: Sequence[int] | None) -> Units:
    """The units that tasks may have: ``total`` in ``sizes``, by default the platform's.  Raises UsageError."""
    platform = loaded.taskset.platform
    there = platform.compute_units if total is None else total
    known = platform.sizes if sizes is None else tuple(sizes)
    if sizes is None and len(known) > 1:
        known = tuple(range(known[0], there + 1, known[1] - known[0]))
    try:
        return Units.of(there, known)
    except ValueError as error:
        where = f"{filename(loaded.path)}: units" if sizes is None else "--sizes"
        raise UsageError(f"{where}: {error}; plan units takes such sizes only") from None

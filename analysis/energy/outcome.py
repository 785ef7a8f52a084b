# SPDX-License-Identifier: GPL-2.0
"""The facts of a simulated run: its options, dispatched jobs, missed deadlines and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.energy.power import Energy, Execution
from analysis.energy.setup import Setup
from analysis.model.energy import MAX_ENERGY_TIME_NS, SpatialSystem

EXECUTIONS = ("worst", "best", "random")


@dataclass(frozen=True)
class EnergyRun:
    """A run over [0, horizon) ns.

    ``execution``: kernel times; ``random`` draws one fraction a job between the best and the worst case.  ``sporadic``:
    releases come up to a tenth of the period late.  ``random_offsets``: first releases in [0, T) replace the file's.
    ``complete``: jobs are released only before the horizon, and the run goes on until all of them are done or skipped.
    Equal seeds give equal jobs under every policy.
    """

    horizon: int
    execution: str = "worst"
    sporadic: bool = False
    random_offsets: bool = False
    seed: int = 0
    complete: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.horizon <= MAX_ENERGY_TIME_NS:
            raise ValueError(f"the horizon must be longer than 0 and at most {MAX_ENERGY_TIME_NS} ns")
        if self.execution not in EXECUTIONS:
            raise ValueError(f"execution is one of {', '.join(EXECUTIONS)}")


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A job dispatched at ``at`` on units ``first`` to ``first + units - 1``; its kernel executes over [start, end)."""

    task: int
    job: int
    gpu: int
    units: int
    first: int
    release: int
    at: int
    start: int
    end: int
    finish: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A job that was still pending at its deadline, and never ran."""

    task: int
    job: int
    release: int
    at: int


@dataclass(frozen=True, slots=True)
class TaskCount:
    """A task's jobs: released, judged (deadline before the horizon), late, skipped, and the latest finish.

    ``late`` jobs finished after their deadline or not at all, ``skipped`` jobs never ran.  ``lateness``: the largest
    finish minus deadline of jobs that ran, ns; None if none ran.
    """

    released: int
    judged: int
    late: int
    skipped: int
    lateness: int | None

    @property
    def missed(self) -> int:
        """Judged jobs that missed their deadline."""
        return self.late + self.skipped


@dataclass(frozen=True, slots=True)
class GpuCount:
    """A GPU's energy over the run, its busy time, and the sums of its kernels' lengths and unit times."""

    energy: Energy
    busy: int
    kernel_time: int
    unit_time: int


@dataclass(frozen=True)
class EnergyOutcome:
    """A run's results; ``dispatches`` and ``skips`` are empty if they were not recorded.

    ``away``: dispatches on another GPU than the assigned one.  ``overflows``: decisions whose window did not fit.
    ``end``: the length of the run, ns: its horizon, or longer if it is complete.
    """

    tasks: tuple[TaskCount, ...]
    gpus: tuple[GpuCount, ...]
    dispatches: tuple[Dispatch, ...] = ()
    skips: tuple[Skip, ...] = ()
    away: int = 0
    overflows: int = 0
    end: int = 0

    @property
    def judged(self) -> int:
        """Jobs whose deadline is before the horizon."""
        return sum(task.judged for task in self.tasks)

    @property
    def missed(self) -> int:
        """Judged jobs that missed their deadline."""
        return sum(task.missed for task in self.tasks)

    @property
    def energy(self) -> Energy:
        """The energy of all GPUs."""
        return sum((gpu.energy for gpu in self.gpus), Energy(0, 0, 0))


def priced(
    system: SpatialSystem, horizon: int, busy: Sequence[int], unit_time: Sequence[Sequence[int]]
) -> list[Energy]:
    """The energies in closed form, from each GPU's busy time and the unit time (m len) of each task on it."""
    found = []
    for index, gpu in enumerate(system.gpus):
        used = [times[index] for times in unit_time]
        dynamic = sum(
            time * task.on(index).power for time, task in zip(used, system.tasks, strict=True) if time
        )
        found.append(Energy(gpu.static * horizon, gpu.idle * (gpu.units * busy[index] - sum(used)), dynamic))
    return found


def executions(setup: Setup, dispatches: tuple[Dispatch, ...]) -> list[list[Execution]]:
    """The kernels of each GPU."""
    found: list[list[Execution]] = [[] for _ in setup.system.gpus]
    for one in dispatches:
        power = setup.kernel(one.task, one.gpu).power
        found[one.gpu].append(Execution(one.gpu, one.units, one.start, one.end, power))
    return found

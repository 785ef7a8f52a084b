# SPDX-License-Identifier: GPL-2.0
"""The facts that a scheduler decides by: jobs that are ready, jobs that run, and when the next ones can come."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.energy.policies import Order
from analysis.energy.setup import Setup


@dataclass(frozen=True, slots=True)
class ReleasedJob:
    """A released job; ``number`` counts the task's jobs from 0."""

    task: int
    number: int
    release: int
    deadline: int


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job as planned: its kernel over [start, end) in the worst case, its units and slot until ``free``, ns."""

    task: int
    units: int
    start: int
    end: int
    free: int
    finish: int


@dataclass
class UnitsState:
    """``running``: by GPU.  ``earliest``: when the next job of each task can come.  ``ready``: not dispatched."""

    now: int
    running: list[list[RunningJob]]
    earliest: list[int]
    ready: list[ReleasedJob] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dispatching:
    """The job is dispatched now, on so many units of this GPU."""

    gpu: int
    units: int


def planned(setup: Setup, gpu: int, task: int, units: int, dispatch: int) -> RunningJob:
    """A dispatch in the worst case: copy in, kernel, copy out (specification, section 1.3)."""
    kernel = setup.kernel(task, gpu)
    start = dispatch + kernel.copy_in
    end = start + kernel.time(units)
    finish = end + kernel.copy_out
    return RunningJob(task, units, start, end, finish if setup.hold_job else end, finish)


def free_units(setup: Setup, state: UnitsState, gpu: int) -> int:
    """Units of a GPU that no job holds, as an allowed count."""
    device = setup.system.gpus[gpu]
    return device.allowed(device.whole - sum(job.units for job in state.running[gpu]))


def is_full(setup: Setup, state: UnitsState, gpu: int) -> bool:
    """Whether no job can start on a GPU now."""
    slots = setup.slots(setup.system.gpus[gpu])
    return len(state.running[gpu]) >= slots or free_units(setup, state, gpu) == 0


def in_order(setup: Setup, jobs: list[ReleasedJob]) -> list[ReleasedJob]:
    """The ready queue: by deadline, by period or by release; ties by release, then in file order."""

    def key(job: ReleasedJob) -> tuple[int, int, int]:
        first = {Order.EDF: job.deadline, Order.RM: setup.system.tasks[job.task].period, Order.FIFO: job.release}
        return first[setup.policy.order], job.release, job.task

    return sorted(jobs, key=key)

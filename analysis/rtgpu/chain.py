# SPDX-License-Identifier: GPL-2.0
"""A job as a chain of steps; each needs a CPU, the bus, or the task's own units (RTGPU section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby

from analysis.model import Copy, CpuSegment, GpuSegment, Kernel, Span, Task, Taskset


class Need(Enum):
    """The resource on which a step executes."""

    CPU = 0
    BUS = 1
    UNITS = 2


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One segment with its bounds, ns.  ``plain``: the worst case without the addition for interleaving."""

    need: Need
    best: int
    worst: int
    plain: int


@dataclass(frozen=True)
class Chain:
    """A task whose kernels have their units; ``steps`` in order."""

    task: Task
    steps: tuple[ChainStep, ...]

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    def lengths(self, need: Need) -> list[int]:
        """Worst cases of the steps that need it, ns; steps of length 0 request nothing and are left out."""
        return [step.worst for step in self.steps if step.need is need and step.worst]

    def total(self, need: Need) -> int:
        """The sum of ``lengths``, ns."""
        return sum(self.lengths(need))


def kernels(task: Task) -> list[Kernel]:
    """The kernels of a job; a GPU segment without parts is a kernel with the same time on any number of units."""
    found: list[Kernel] = []
    for segment in task.gpu_segments:
        if segment.parts:
            found += (part for part in segment.parts if isinstance(part, Kernel))
        elif segment.pure.worst:
            found.append(Kernel(segment.pure, times=(segment.pure,)))
    return found


def needs_units(task: Task) -> bool:
    """Whether the task has a kernel; others need no units."""
    return bool(kernels(task))


def chain(task: Task, units: int) -> Chain:
    """The task on ``units`` units.  Raises ValueError if it has a kernel and there are none."""
    steps: list[ChainStep] = []
    for segment in task.segments:
        steps += _steps(segment, units, task.name)
    return Chain(task, tuple(steps))


def _steps(segment: CpuSegment | GpuSegment, units: int, name: str) -> list[ChainStep]:
    if isinstance(segment, CpuSegment):
        return [_step(Need.CPU, segment.time)]
    if not segment.parts:
        halves = (Need.CPU, segment.misc), (Need.UNITS, segment.pure)
        return [_step(need, span) for need, span in halves if span.worst]
    return [
        _step(Need.BUS, part.time) if isinstance(part, Copy) else _kernel(part, units, name) for part in segment.parts
    ]


def _step(need: Need, span: Span) -> ChainStep:
    return ChainStep(need, span.best, span.worst, span.worst)


def _kernel(part: Kernel, units: int, name: str) -> ChainStep:
    if units < 1:
        raise ValueError(f"{name} has a kernel and no units")
    time = part.best_of(units)
    return ChainStep(Need.UNITS, time.best, time.worst, time.plain)


def on_its_cpu(taskset: Taskset) -> Taskset:
    """The taskset in which CPU segments and G^m of 0 ns take 1 ns.

    A thread that waits for a kernel, and starts the next one, needs its CPU for that, for however short a time.
    """
    tasks = tuple(replace(task, segments=tuple(map(_on_its_cpu, task.segments))) for task in taskset)
    return taskset if tasks == taskset.tasks else replace(taskset, tasks=tasks)


def _on_its_cpu(segment: CpuSegment | GpuSegment) -> CpuSegment | GpuSegment:
    if isinstance(segment, CpuSegment):
        return segment if segment.time.worst else CpuSegment(Span(1, 0))
    return segment if segment.misc.worst or segment.parts else replace(segment, misc=Span(1, 0))


def exact_chain(task: Task) -> Task:
    """The task with lower bounds equal to upper bounds, as in the paper's experiments."""
    return replace(task, segments=tuple(_exact(segment) for segment in task.segments))


def _exact(segment: CpuSegment | GpuSegment) -> CpuSegment | GpuSegment:
    if isinstance(segment, CpuSegment):
        return CpuSegment(Span.exactly(segment.time.worst))
    parts = tuple(
        Copy(Span.exactly(part.time.worst)) if isinstance(part, Copy) else replace(
            part, work=Span.exactly(part.work.worst), times=tuple(Span.exactly(time.worst) for time in part.times)
        )
        for part in segment.parts
    )  # fmt: skip
    return GpuSegment(Span.exactly(segment.misc.worst), Span.exactly(segment.pure.worst), parts=parts)


def merged(found: Chain) -> Chain:
    """The chain in which each run of copies and kernels is one request to one resource, as under self-suspension."""
    steps: list[ChainStep] = []
    for on_cpu, run in groupby(found.steps, key=lambda step: step.need is Need.CPU):
        part = list(run)
        if on_cpu:
            steps += part
        else:
            best, worst, plain = (sum(getattr(step, bound) for step in part) for bound in ("best", "worst", "plain"))
            steps.append(ChainStep(Need.BUS, best, worst, plain))
    return Chain(found.task, tuple(steps))

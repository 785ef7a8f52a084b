# SPDX-License-Identifier: GPL-2.0
"""How much may change before tasks that own units miss: units, interleaving, overhead, copies, and chunks of copies.

Each by itself, by binary search on the test with an allocation found anew, except units, which are tried one by one.
A factor that is found passes, and the next one fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from analysis.answers.sensitivity import Tick, bisected, steps, unwatched
from analysis.model import Copy, GpuSegment, Kernel, Span, Task, Taskset
from analysis.model.kernel import WHOLE
from analysis.rtgpu import compiled
from analysis.rtgpu.analyse import System, Units
from analysis.rtgpu.method import Method

#: Factors are searched in steps of a thousandth, up to a hundred; interleaving up to 2.
UNIT_FACTOR_STEPS = 1000
UNLIMITED = 100 * UNIT_FACTOR_STEPS

Changed = Callable[[Taskset, int], Taskset]


class Trial(Protocol):
    """Whether a taskset passes, on ``units`` units and with chunks of ``chunk`` ns."""

    def __call__(self, changed: Taskset, units: int = ..., chunk: int = ...) -> bool:
        """Runs the test."""


@dataclass(frozen=True, slots=True)
class PassingLimits:
    """The limits that pass; None if nothing does.

    ``units``: the fewest of the GPU's.  ``interleave``: the largest alpha of all kernels.  ``overhead`` and ``copies``:
    the largest factors of all kernels' overheads and of all copies.  ``chunk``: the longest chunk of copies, ns, where
    whole copies fail; 0 where whole copies pass.
    """

    units: int | None
    interleave: Fraction | None
    overhead: Fraction | None
    copies: Fraction | None
    chunk: int | None


def limits(method: Method, taskset: Taskset, tick: Tick = unwatched) -> PassingLimits:
    """The limits of a taskset under a test, on the units of its platform.

    ``tick``: told of the ``effort`` that is done, whenever the test has run.
    """
    total = taskset.platform.compute_units

    def run(changed: Taskset, units: int = total, chunk: int = 0) -> bool:
        system = System(method, changed, chunk or changed.platform.bus_chunk)
        answer = compiled.run_method(system, Units(units)).schedulable
        tick(1)
        return answer

    units = next((count for count in range(total + 1) if run(taskset, count)), None)
    interleave = _largest(run, taskset, _interleaved, 2 * WHOLE, WHOLE)
    overhead = _largest(run, taskset, _loaded, UNLIMITED)
    copies = _largest(run, taskset, _copying, UNLIMITED)
    return PassingLimits(units, interleave, overhead, copies, _chunk(run, taskset))


def effort(taskset: Taskset) -> int:
    """The most times that `limits` runs the test."""
    kinds = steps(2 * WHOLE), steps(UNLIMITED), steps(UNLIMITED), 1 + steps(_longest_copy(taskset))
    return taskset.platform.compute_units + 1 + sum(kinds)


def _largest(run: Trial, taskset: Taskset, changed: Changed, most: int, least: int = 0) -> Fraction | None:
    """The largest factor that passes, searched between ``least`` and ``most`` thousandths; None if the least fails."""
    found = bisected(lambda factor: run(changed(taskset, factor)), least, most)
    return None if found is None else Fraction(found, UNIT_FACTOR_STEPS)


def _chunk(run: Trial, taskset: Taskset) -> int | None:
    if run(taskset):
        return 0
    return bisected(lambda chunk: run(taskset, chunk=chunk), 1, _longest_copy(taskset))


def _longest_copy(taskset: Taskset) -> int:
    copies = (part.time.worst for task in taskset for part in _parts(task) if isinstance(part, Copy))
    return max(copies, default=1)


def _parts(task: Task) -> list[Copy | Kernel]:
    return [part for segment in task.gpu_segments for part in segment.parts]


def _with(taskset: Taskset, change: Callable[[Copy | Kernel], Copy | Kernel]) -> Taskset:
    """The taskset with every copy and kernel changed."""

    def task(one: Task) -> Task:
        return replace(one, segments=tuple(
            replace(s, parts=tuple(map(change, s.parts))) if isinstance(s, GpuSegment) else s for s in one.segments
        ))  # fmt: skip

    return replace(taskset, tasks=tuple(map(task, taskset.tasks)))


def _interleaved(taskset: Taskset, alpha: int) -> Taskset:
    return _with(taskset, lambda part: replace(part, interleave=alpha) if isinstance(part, Kernel) else part)


def _loaded(taskset: Taskset, factor: int) -> Taskset:
    """The taskset with overheads scaled.  An overhead is part of the work where two halves interleave, and grows no
    further."""

    def change(part: Copy | Kernel) -> Copy | Kernel:
        if isinstance(part, Copy):
            return part
        most = max(part.interleave * part.work.worst // WHOLE, part.overhead if factor >= UNIT_FACTOR_STEPS else 0)
        return replace(part, overhead=min(-(-part.overhead * factor // UNIT_FACTOR_STEPS), most))

    return _with(taskset, change)


def _copying(taskset: Taskset, factor: int) -> Taskset:
    def change(part: Copy | Kernel) -> Copy | Kernel:
        if isinstance(part, Kernel):
            return part
        worst = -(-part.time.worst * factor // UNIT_FACTOR_STEPS)
        return Copy(Span(worst, min(part.time.best, part.time.best * factor // UNIT_FACTOR_STEPS, worst)))

    return _with(taskset, change)

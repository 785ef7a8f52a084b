# SPDX-License-Identifier: GPL-2.0
"""How much may change before tasks that own units miss: units, interleaving, overhead, copies, and chunks of copies.

Each by itself, by binary search on the test with an allocation found anew, except units, which are tried one by one.
A factor that is found passes, and the next one fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from analysis.model import Copy, GpuSegment, Kernel, Span, Task, Taskset
from analysis.rtgpu import compiled
from analysis.rtgpu.analyse import System, Units
from analysis.rtgpu.kernel import WHOLE
from analysis.rtgpu.method import Method

#: Factors are searched in steps of a thousandth, up to a hundred; interleaving up to 2.
STEPS = 1000
UNLIMITED = 100 * STEPS

Changed = Callable[[Taskset, int], Taskset]


@dataclass(frozen=True, slots=True)
class Limits:
    """What passes; None if nothing does.

    ``units``: the fewest of the GPU's.  ``interleave``: the largest alpha of all kernels.  ``overhead`` and ``copies``:
    the largest factors of all kernels' overheads and of all copies.  ``chunk``: the longest chunk of copies, ns, where
    whole copies fail; 0 where whole copies pass.
    """

    units: int | None
    interleave: Fraction | None
    overhead: Fraction | None
    copies: Fraction | None
    chunk: int | None


def limits(method: Method, taskset: Taskset) -> Limits:
    """The limits of a taskset under a test, on the units of its platform."""
    total = taskset.platform.compute_units
    units = next((count for count in range(total + 1) if _passes(method, taskset, count)), None)
    interleave = _largest(method, taskset, _interleaved, 2 * WHOLE, WHOLE)
    overhead = _largest(method, taskset, _loaded, UNLIMITED)
    copies = _largest(method, taskset, _copying, UNLIMITED)
    return Limits(units, interleave, overhead, copies, _chunk(method, taskset, total))


def _passes(method: Method, taskset: Taskset, units: int, chunk: int = 0) -> bool:
    return compiled.run(System(method, taskset, chunk or taskset.platform.bus_chunk), Units(units)).schedulable


def _largest(method: Method, taskset: Taskset, changed: Changed, most: int, least: int = 0) -> Fraction | None:
    """The largest factor that passes, searched between ``least`` and ``most`` thousandths; None if the least fails."""
    units = taskset.platform.compute_units

    def passes(factor: int) -> bool:
        return _passes(method, changed(taskset, factor), units)

    found = _search(passes, least, most)
    return None if found is None else Fraction(found, STEPS)


def _search(passes: Callable[[int], bool], low: int, high: int) -> int | None:
    if not passes(low):
        return None
    if passes(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def _chunk(method: Method, taskset: Taskset, units: int) -> int | None:
    if _passes(method, taskset, units):
        return 0
    copies = (part.time.worst for task in taskset for part in _parts(task) if isinstance(part, Copy))
    return _search(lambda chunk: _passes(method, taskset, units, chunk), 1, max(copies, default=1))


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
    """Overheads are part of the work where two halves interleave, and end there: more would be a longer kernel."""

    def change(part: Copy | Kernel) -> Copy | Kernel:
        if isinstance(part, Copy):
            return part
        most = max(part.interleave * part.work.worst // WHOLE, part.overhead if factor >= STEPS else 0)
        return replace(part, overhead=min(-(-part.overhead * factor // STEPS), most))

    return _with(taskset, change)


def _copying(taskset: Taskset, factor: int) -> Taskset:
    def change(part: Copy | Kernel) -> Copy | Kernel:
        if isinstance(part, Kernel):
            return part
        worst = -(-part.time.worst * factor // STEPS)
        return Copy(Span(worst, min(part.time.best, worst)))

    return _with(taskset, change)

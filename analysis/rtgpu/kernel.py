# SPDX-License-Identifier: GPL-2.0
"""The time of a kernel on so many units of its own (RTGPU equation 3, lemma 5.1; readings, "Kernel times")."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from analysis.model import Kernel

#: ``Kernel.interleave`` of a kernel whose halves do not slow each other down.
WHOLE = 1000
#: ``Kernel.interleave`` where nothing says how much halves slow each other down: at most, they take as long as in turn.
LONGEST = 2 * WHOLE


@dataclass(frozen=True, slots=True)
class KernelSpan:
    """GR of a kernel, ns.  ``plain``: the worst case without what interleaving and granularity add to it."""

    best: int
    worst: int
    plain: int


def on(kernel: Kernel, units: int) -> KernelSpan:
    """GR on exactly so many units, two blocks on each (lemma 5.1).

    The upper bound is ``(alpha GW - GL) / 2g + GL``, and ``alpha b (1 - 1 / 2g)`` more for blocks of up to b ns.  The
    2g virtual units take blocks from a list, and finish at most so much later than if work divided without end (Graham
    1969).  The upper bound is rounded up, the lower bound ``GW / 2g`` down.
    """
    if kernel.times:
        span = kernel.times[units - 1]
        return KernelSpan(span.best, span.worst, span.worst)
    virtual = 2 * units
    grown = kernel.interleave * (kernel.work.worst + kernel.block * (virtual - 1)) - WHOLE * kernel.overhead
    worst = kernel.overhead + -(-grown // (WHOLE * virtual))
    alone = max(kernel.work.worst - kernel.overhead, 0)
    return KernelSpan(kernel.work.best // virtual, worst, min(worst, kernel.overhead + -(-alone // virtual)))


def most_units(kernel: Kernel, units: int) -> int:
    """How many of the units it can use: a table has no more than it was measured with."""
    return min(units, len(kernel.times)) if kernel.times else units


def best_of(kernel: Kernel, units: int) -> KernelSpan:
    """GR if the kernel may leave units idle: on a number with the shortest worst case.

    The shortest best case of equals counts, because nothing says which of them the kernel uses.
    """
    found = (on(kernel, used) for used in range(1, most_units(kernel, units) + 1))
    return min(found, key=lambda time: (time.worst, time.best))


def on_all(kernel: Kernel, units: int) -> KernelSpan:
    """GR of a kernel that leaves no unit idle, as where tasks share the GPU in time: no table is needed to be monotone.

    On more units than it was measured with: the time on the most of these.
    """
    return on(kernel, most_units(kernel, units))


def times(kernel: Kernel, units: int) -> list[KernelSpan]:
    """``best_of`` for 1 to ``units`` units."""
    found: list[KernelSpan] = []
    for used in range(1, most_units(kernel, units) + 1):
        time = on(kernel, used)
        found.append(time if not found else min(time, found[-1], key=lambda one: (one.worst, one.best)))
    return found + found[-1:] * (units - len(found))


def monotone(kernel: Kernel, units: int) -> bool:
    """Whether neither bound grows with units; then the least allocation is exact.  Upper bounds never grow here."""
    lower = [time.best for time in times(kernel, units)]
    return all(after <= before for before, after in pairwise(lower))

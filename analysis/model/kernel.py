# SPDX-License-Identifier: GPL-2.0
"""The time of GPU work by number of units (SMs, CUs), for all analyses of a GPU that is shared in space.

It is GR(m) of RTGPU (equation 3, lemma 5.1; docs/readings, "Kernel times"), C(m) = a / m + b of contention-aware
partitioning (section 3.3), e(m) of sBEET, or a table of measured times.  All times are whole nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

#: ``Kernel.interleave`` of a kernel whose halves do not slow each other down.
WHOLE = 1000
#: ``Kernel.interleave`` if unknown: two halves at a time take at most as long as one after the other.
MAX_INTERLEAVE = 2 * WHOLE
#: A factor of 1: no slow-down.
ALONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Span:
    """Worst-case and best-case execution time of one piece of a segment, in nanoseconds."""

    worst: int
    best: int

    @classmethod
    def exactly(cls, time: int) -> Span:
        """A span whose best and worst case are the same."""
        return cls(time, time)


@dataclass(frozen=True, slots=True)
class KernelSpan:
    """GR of a kernel, ns.  ``plain``: the worst case without the additions for interleaving and granularity."""

    best: int
    worst: int
    plain: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, whose time depends on how many units (SMs or CUs) it has: a formula, or a table of measured times.

    ``work``: GW, its time alone on one unit, ``overhead`` included, ns.  ``overhead``: GL, the part that more units do
    not shorten, ns.  ``interleave``: alpha in thousandths.  ``block``: the longest thread block alone, ns; 0: work
    divides without limit.  ``times``: a table; it replaces the formula.  ``counts``: the numbers of units to which the
    table's rows apply, ascending; empty: 1, 2, ...  Between two counts, and above, the time on the next lower count is
    used.  Nothing assumes that more units make a kernel faster: measured times have steps up.
    """

    work: Span
    overhead: int = 0
    interleave: int = WHOLE
    block: int = 0
    times: tuple[Span, ...] = ()
    counts: tuple[int, ...] = ()

    @classmethod
    def linear(cls, parallel: int, serial: int = 0) -> Kernel:
        """The semi-linear form parallel / m + serial, ns: two blocks on each unit share all but the overhead."""
        return cls(Span.exactly(2 * parallel + serial), serial)

    @classmethod
    def measured(cls, times: Sequence[Span]) -> Kernel:
        """A table of times on 1, 2, ... units."""
        return cls(times[0], times=tuple(times))

    @classmethod
    def table(cls, worst: Sequence[int], best: Sequence[int] | None = None) -> Kernel:
        """A table of worst and best cases on 1, 2, ... units, ns; the two are equal unless both are given."""
        return cls.measured([Span(*pair) for pair in zip(worst, worst if best is None else best, strict=True)])

    @classmethod
    def saturating(cls, work: int, most: int) -> Kernel:
        """Times e(m) = ceil(work / min(m, most))."""
        return cls.table([-(-work // m) for m in range(1, most + 1)])

    @classmethod
    def falling(cls, table: Sequence[tuple[int, int]]) -> Kernel:
        """A table of (units, time).

        Raises ValueError unless the counts increase and the times do not: more units never make work slower
        (contention-aware partitioning, section 4.1).
        """
        if not table:
            raise ValueError("no time is given")
        for (units, time), (more, later) in pairwise(table):
            if more <= units:
                raise ValueError(f"{more} units are listed after {units}")
            if later > time:
                raise ValueError(f"the time on {more} units is longer than on {units}")
        spans = tuple(Span.exactly(time) for _, time in table)
        return cls(spans[0], times=spans, counts=tuple(units for units, _ in table))

    def changed(self, change: Callable[[int], int]) -> Kernel:
        """A table in which ``change`` has changed each time, also the best cases."""
        times = tuple(Span(change(span.worst), change(span.best)) for span in self.times)
        return replace(self, work=times[0], times=times)

    @property
    def smallest(self) -> int:
        """The least number of units with a known time."""
        return self.counts[0] if self.counts else 1

    @property
    def one_size(self) -> bool:
        """Whether its time was measured on one number of units only."""
        return len(self.times) == 1

    def most(self, units: int) -> int:
        """The number of units beyond which its time no longer shrinks; ``units`` if that is smaller."""
        return min(units, self.counts[-1] if self.counts else len(self.times)) if self.times else units

    def row(self, units: int) -> Span:
        """The row of the table for ``units`` units.  Raises ValueError below the smallest count."""
        if not self.counts:
            return self.times[min(units, len(self.times)) - 1]
        at = bisect_right(self.counts, units)
        if not at:
            raise ValueError(f"no time is known on {units} units, the smallest measured are {self.smallest}")
        return self.times[at - 1]

    def worst(self, units: int, factor: Fraction = ALONE) -> int:
        """The worst case on that many units times ``factor``, ns, rounded up once.  Raises ValueError as ``row``."""
        if self.times:
            return -(-factor.numerator * self.row(units).worst // factor.denominator)
        virtual = 2 * units
        grown = self.interleave * (self.work.worst + self.block * (virtual - 1)) + WHOLE * self.overhead * (virtual - 1)
        return -(-factor.numerator * grown // (factor.denominator * WHOLE * virtual))

    def on(self, units: int) -> KernelSpan:
        """GR on exactly ``units`` units, none of them idle, two blocks on each (lemma 5.1).

        The upper bound is ``(alpha GW - GL) / 2g + GL``, plus ``alpha b (1 - 1 / 2g)`` for blocks of up to b ns.  The
        2g virtual units take blocks from a list, and finish at most this much later than with work that divides without
        limit (Graham 1969).  The upper bound is rounded up, the lower bound ``GW / 2g`` down.
        """
        if self.times:
            span = self.row(units)
            return KernelSpan(span.best, span.worst, span.worst)
        worst, alone = self.worst(units), max(self.work.worst - self.overhead, 0)
        return KernelSpan(self.work.best // (2 * units), worst, min(worst, self.overhead + -(-alone // (2 * units))))

    def best_of(self, units: int) -> KernelSpan:
        """GR if the kernel may leave units idle: on a number of units with the shortest worst case.

        If there are several, the shortest best case counts, because it is unknown which one the kernel uses.
        """
        return min((self.on(used) for used in range(1, self.most(units) + 1)), key=lambda time: (time.worst, time.best))

    def up_to(self, units: int) -> list[KernelSpan]:
        """``best_of`` for 1 to ``units`` units."""
        found: list[KernelSpan] = []
        for used in range(1, self.most(units) + 1):
            time = self.on(used)
            found.append(time if not found else min(time, found[-1], key=lambda one: (one.worst, one.best)))
        return found + found[-1:] * (units - len(found))

    def monotone(self, units: int) -> bool:
        """Whether neither bound grows with units; then the least allocation is exact.  Upper bounds never grow here."""
        lower = [time.best for time in self.up_to(units)]
        return all(after <= before for before, after in pairwise(lower))

    def memory_bound(self, units: int) -> bool:
        """Definition 1 of partitioning: whether the last 40 % of the units speed it up by less than 10 %."""
        return 10 * self.worst(compared(units)) < 11 * self.worst(units)


def compared(units: int) -> int:
    """60 % of the units, rounded up: definition 1 compares the times on this number and on all units."""
    return -(-3 * units // 5)

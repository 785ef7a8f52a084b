# SPDX-License-Identifier: GPL-2.0
"""Measurements of kernels by number of units: times, interleaving, conflicts, and which resource bounds them.

Interleaving: alpha of RTGPU's figure 6, the time of two launches at once on the same units, divided by that of one.
Conflicts: the factors of contention-aware partitioning, figure 4, of a kernel beside another one.  Memory- or
compute-bound: its definition 1.  No measurement proves a bound: a longer time may still come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from analysis.model import Kernel, Span
from analysis.model.kernel import compared


class How(str, Enum):
    """The other work: none; the same kernel, once, on the same units; another kernel there, or on other units."""

    ALONE = "alone"
    TWICE = "twice"
    SAME = "same"
    APART = "apart"


@dataclass(frozen=True)
class Case:
    """A case to measure: a kernel on ``units`` units; ``other``: the kernel beside it, or empty."""

    kernel: str
    units: int
    how: How = How.ALONE
    other: str = ""


@dataclass(frozen=True)
class PartitionSizes:
    """The numbers of units that partitions of a GPU can have: ``least`` to ``most`` in ``step``s; ``all``: the GPU."""

    least: int
    step: int
    most: int
    all: int

    def some(self) -> tuple[int, ...]:
        """Sizes to show how times scale: doubled from the least, those compared by definition 1, and the largest."""
        counts, count = {self.most, self.all}, self.least
        while count < self.most:
            counts.add(count)
            count *= 2
        few = compared(self.all) // self.step * self.step
        return tuple(sorted(counts | ({few} if self.least <= few <= self.most else set())))

    @property
    def half(self) -> int:
        """The largest size, in units, of two equal partitions of a GPU; 0 if two do not fit."""
        half = self.most // 2 // self.step * self.step
        return half if half >= self.least else 0

    def has(self, count: int) -> bool:
        """Whether a kernel can have ``count`` units: those of a partition, or the whole GPU."""
        return count == self.all or (self.least <= count <= self.most and count % self.step == 0)


@dataclass
class Observed:
    """Times, ns, by the measured case."""

    units: PartitionSizes
    times: dict[Case, list[int]] = field(default_factory=dict)

    def add(self, case: Case, times: Sequence[int]) -> None:
        """Adds measured times."""
        self.times.setdefault(case, []).extend(times)

    def span(self, case: Case) -> Span | None:
        """The longest and the shortest time; None if the case was not measured."""
        return Span(max(times), min(times)) if (times := self.times.get(case)) else None

    def alone(self, kernel: str) -> Mapping[int, Span]:
        """The spans of a kernel that executes alone, by its units, ascending."""
        found = {case.units: self.span(case) for case in self.times if case.kernel == kernel and case.how is How.ALONE}
        return {units: span for units, span in sorted(found.items()) if span}

    def factor(self, case: Case) -> Fraction | None:
        """The kernel's longest time divided by its longest time alone; None unless both were measured."""
        beside, alone = self.span(case), self.span(Case(case.kernel, case.units))
        return Fraction(beside.worst, alone.worst) if beside and alone else None

    def interleave(self, kernel: str) -> Fraction | None:
        """Alpha: the largest factor of two launches at once, over all numbers of units; None if none was measured."""
        cases = [case for case in self.times if case.kernel == kernel and case.how is How.TWICE]
        return max((factor for case in cases if (factor := self.factor(case))), default=None)

    def memory_bound(self, kernel: str) -> bool | None:
        """Definition 1, by shortest times, which outliers do not affect; None if the last 40 % were not measured."""
        spans = self.alone(kernel)
        if self.units.all not in spans or min(spans) > compared(self.units.all):
            return None
        table: list[tuple[int, int]] = []
        for units, span in spans.items():
            table.append((units, min(span.best, table[-1][1]) if table else span.best))
        return Kernel.falling(table).memory_bound(self.units.all)

    def conflict(self, kernel: str, bound: Mapping[str, bool | None], how: How) -> Fraction | None:
        """The largest factor beside kernels with the same bound, itself included; None if none was measured."""
        alike = [case for case in self.times if case.kernel == kernel and case.how is how
                 and bound.get(case.other) is not None and bound.get(case.other) == bound.get(kernel)]  # fmt: skip
        return max((factor for case in alike if (factor := self.factor(case))), default=None)


def cases(units: PartitionSizes, kernels: Sequence[str], counts: Sequence[int], pairs: int) -> list[Case]:
    """The cases to measure: each kernel on each number of units, alone and twice; two kernels on ``pairs`` units."""
    single = [Case(kernel, count, how) for kernel in kernels for count in counts for how in (How.ALONE, How.TWICE)]
    if not pairs:
        return single
    also = [] if pairs in counts else [Case(kernel, pairs) for kernel in kernels]
    room = units.most - pairs >= units.least and pairs <= units.most
    ways = (How.SAME, How.APART) if room else (How.SAME,)
    return [*single, *also, *(Case(one, pairs, how, other) for one in kernels for other in kernels for how in ways)]

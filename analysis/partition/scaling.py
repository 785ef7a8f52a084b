# SPDX-License-Identifier: GPL-2.0
"""How long GPU work takes on m compute units: C^n(m) and C^c(m) of contention-aware partitioning (section 3.3).

All times are whole nanoseconds, rounded up once.  No curve increases with the number of units.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

#: A factor of 1: no slow-down.
ALONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Linear:
    """The semi-linear form: parallel / m + serial, ns (the paper's a / m + b)."""

    parallel: int
    serial: int

    @property
    def smallest(self) -> int:
        """The least number of units with a known time."""
        return 1

    def time(self, units: int, factor: Fraction = ALONE) -> int:
        """The time on that many units times ``factor``, ns, rounded up."""
        numerator = factor.numerator * (self.parallel + units * self.serial)
        return -(-numerator // (factor.denominator * units))


@dataclass(frozen=True, slots=True)
class MeasuredScaling:
    """Times measured on some numbers of units, ascending; between them, the one for the largest measured count below.

    Raises ValueError if the counts do not increase or the times do: more units never make work slower (section 4.1).
    """

    table: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.table:
            raise ValueError("no time is given")
        for (units, time), (more, later) in zip(self.table, self.table[1:], strict=False):
            if more <= units:
                raise ValueError(f"{more} units are listed after {units}")
            if later > time:
                raise ValueError(f"the time on {more} units is longer than on {units}")

    @property
    def smallest(self) -> int:
        """The least number of units with a known time."""
        return self.table[0][0]

    def time(self, units: int, factor: Fraction = ALONE) -> int:
        """The time on that many units times ``factor``, ns, rounded up.  Raises ValueError below the smallest."""
        at = bisect_right(self.table, units, key=lambda entry: entry[0])
        if not at:
            raise ValueError(f"no time is known on {units} units, the smallest measured are {self.smallest}")
        return -(-factor.numerator * self.table[at - 1][1] // factor.denominator)


Curve: TypeAlias = Linear | MeasuredScaling


def printed(parallel: int, serial: int) -> Linear:
    """C = k (a/m + b), the scaling that the paper prints (section 7.1)."""
    return Linear(parallel, serial)


def shared(parallel: int, serial: int) -> Linear:
    """C = k (a + b) / m, the scaling of the paper's figures (docs/readings/partitioning.md, "Partitioning")."""
    return Linear(parallel + serial, 0)


def memory_bound(curve: Curve, units: int) -> bool:
    """Definition 1 for a curve: whether the last 40 % of the units speed it up by less than 10 %."""
    return 10 * curve.time(compared(units)) < 11 * curve.time(units)


def compared(units: int) -> int:
    """The number of units, 60 % rounded up, on which definition 1 looks beside all of them."""
    return -(-3 * units // 5)

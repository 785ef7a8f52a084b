# SPDX-License-Identifier: GPL-2.0
"""Whether the largest of repeated measurements still grows, judged by how many records the later ones set.

A record is a value larger than all before it.  Every order of n values without ties is equally likely if their
conditions were put into a random order and nothing else changes.  Value i is then a record with probability 1 / i,
independently of the others (A. Renyi, Theorie des elements saillants d'une suite d'observations, Ann. Fac. Sci. Univ.
Clermont-Ferrand 8, 1962).  The theorem holds for every distribution.  Ties only make records rarer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

#: Later values that set so many records, or more, with at most this probability are said to grow.
UNLIKELY = Fraction(1, 20)
#: Below this number of values no number of records is that unlikely.
FEWEST = 5
#: The unit of probabilities, which are rounded up.
_ONE = 1 << 64


@dataclass(frozen=True, slots=True)
class Growth:
    """The records of the second half of a sequence of measurements.

    ``split``: how many values are before it.  ``before``: the largest of these, and ``largest``: of all.  ``records``:
    how many the second half set.  ``chance``: the probability of so many or more, if every order is equally likely.
    """

    split: int
    before: int
    largest: int
    records: int
    chance: Fraction

    @property
    def unlikely(self) -> bool:
        """Whether a sequence without growth would rarely set this many records."""
        return self.chance <= UNLIKELY


def late_records(values: Sequence[int]) -> Growth | None:
    """The records of the second half of the values, in the order in which they were measured; None if too few.

    The first half has the smaller part of an odd number.
    """
    if len(values) < FEWEST:
        return None
    split = len(values) // 2
    before = most = max(values[:split])
    records = 0
    for value in values[split:]:
        if value > most:
            most, records = value, records + 1
    return Growth(split, before, most, records, chance(split + 1, len(values), records))


def chance(first: int, last: int, least: int) -> Fraction:
    """The probability that of places ``first`` to ``last``, from 1, ``least`` or more are records; rounded up.

    The number of records among them is a sum of independent events, of which that of place i has probability 1 / i.
    """
    fewer = [_ONE, *[0] * (least - 1)] if least else []  # with which probability there are 0, 1, ... so far
    for place in range(first, last + 1):
        fewer = [
            (here * (place - 1) + (fewer[index - 1] if index else 0)) // place for index, here in enumerate(fewer)
        ]
    return Fraction(_ONE - sum(fewer), _ONE)

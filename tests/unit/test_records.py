# SPDX-License-Identifier: GPL-2.0
"""Records of repeated measurements, against counting over all orders."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import factorial

from pycontrol.measure.summary import FEWEST_RUNS, UNLIKELY_RECORDS, late_records


def chance(first: int, last: int, least: int) -> Fraction:
    """The probability that of places ``first`` to ``last`` so many or more are records: place i is with 1 / i."""
    fewer = [Fraction(1), *[Fraction(0)] * (least - 1)]  # with which probability there are 0, 1, ... so far
    for place in range(first, last + 1):
        fewer = [(here * (place - 1) + (fewer[at - 1] if at else 0)) / place for at, here in enumerate(fewer)]
    return 1 - sum(fewer)


def test_the_chance_is_the_share_of_all_orders() -> None:
    orders = list(permutations(range(7)))
    share = Fraction(sum(late_records(order) >= UNLIKELY_RECORDS for order in orders), factorial(7))
    assert share == chance(4, 7, UNLIKELY_RECORDS) < Fraction(1, 30)
    with_ties = sum(late_records([value // 3 for value in order]) >= UNLIKELY_RECORDS for order in orders)
    assert Fraction(with_ties, factorial(7)) < share


def test_three_records_are_rare_however_many_values_there_are_and_two_are_not() -> None:
    """docs/manual/measure-times.md says so; in the limit they have a Poisson law of mean ln 2."""
    for count in [*range(FEWEST_RUNS, 40), 301]:
        two, three = (chance(count // 2 + 1, count, least) for least in (2, 3))
        assert three < Fraction(1, 30) < Fraction(1, 20) < two


def test_by_hand() -> None:
    assert late_records([5, 9, 7, 10, 11]) == 2
    assert late_records([3, 9, 9, 9, 9, 9]) == late_records([9, 3, 3, 9, 0, 9]) == 0  # a tie is no record
    assert late_records([1, 2, 3, 4, 5]) == 3
    assert late_records(list(range(FEWEST_RUNS - 1))) < UNLIKELY_RECORDS

# SPDX-License-Identifier: GPL-2.0
"""Records of repeated measurements, against counting over all orders."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import factorial

import pytest

from analysis.model.records import FEWEST, UNLIKELY, chance, late_records


def records(values: tuple[int, ...], first: int) -> int:
    """How many of the values from place ``first`` on, from 1, are larger than all before."""
    return sum(value > max(values[:at], default=-1) for at, value in enumerate(values) if at + 1 >= first)


@pytest.mark.parametrize("count", range(1, 7))
def test_the_chance_is_the_share_of_all_orders(count: int) -> None:
    orders = list(permutations(range(count)))
    for first, least in product(range(1, count + 1), range(count + 2)):
        share = Fraction(sum(records(order, first) >= least for order in orders), factorial(count))
        assert share <= chance(first, count, least) <= share + Fraction(count, 2**60)


def test_values_in_any_order_rarely_seem_to_grow_and_with_ties_more_rarely() -> None:
    for levels in (7, 3, 1):
        orders = [late_records([value * levels // 7 for value in order]) for order in permutations(range(7))]
        share = Fraction(sum(one is not None and one.unlikely for one in orders), factorial(7))
        assert share <= UNLIKELY
        assert (share > 0) == (levels == 7)


def test_what_grows_is_seen_from_the_fewest_values_on() -> None:
    for count in range(1, 40):
        seen = late_records([10 + at for at in range(count)])
        assert (seen is not None) == (count >= FEWEST)
        if seen:
            assert (seen.split, seen.before, seen.largest, seen.records) == (
                count // 2, 9 + count // 2, 9 + count, count - count // 2)  # fmt: skip
            assert seen.unlikely


def test_three_records_are_warned_of_however_many_values_there_are() -> None:
    # docs/manual/measure-times.md says so, and how rare they are; in the limit they have a Poisson law of mean ln 2
    for count in [*range(FEWEST, 200), 1001]:
        two, three = (chance(count // 2 + 1, count, least) for least in (2, 3))
        assert two > UNLIKELY
        assert three < Fraction(1, 30)


def test_by_hand() -> None:
    # places 3, 4, 5 of five: two or three records: (1/3 1/4 4/5) + (1/3 3/4 1/5) + (2/3 1/4 1/5) + 1/60 = 10/60
    assert abs(chance(3, 5, 2) - Fraction(1, 6)) < Fraction(1, 2**60)
    seen = late_records([5, 9, 7, 10, 11])
    assert seen
    assert (seen.split, seen.before, seen.largest, seen.records, seen.unlikely) == (2, 9, 11, 2, False)
    assert late_records([3, 9, 9, 9, 9, 9]) == late_records([9, 3, 3, 9, 0, 9])  # a tie is no record


def test_many_values_take_little_time() -> None:
    seen = late_records(list(range(100_000, 0, -1)))
    assert seen
    assert (seen.records, seen.chance) == (0, 1)

# SPDX-License-Identifier: GPL-2.0
"""Admission: the ways in their order, and that nobody admitted before loses his guarantee."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from analysis.model import Kernel
from analysis.partition.admit import Admission, How, Place, admit_task
from analysis.partition.merge import Merger
from analysis.partition.workload import Item, Workload


def item(name: str, work: int, period: int = 100, memory: bool = False) -> Item:
    return Item(name, period, period, memory, (Kernel.linear(work),), Fraction(2), priority=1000 - period)


def places(answer: Admission) -> list[tuple[str | None, int, tuple[int, ...]]]:
    return [(place.name, place.size, place.tasks) for place in answer.places]


def test_the_most_utilized_partition_with_room_comes_first() -> None:
    """On 1 unit c takes 20: beside a (60) it has room, beside b (90) it has not, d (10) is emptier."""
    given = Workload((item("a", 60), item("b", 90), item("d", 10), item("c", 20, memory=True)), 4)
    answer = admit_task(given, [Place("pa", 1, (0,)), Place("pb", 1, (1,)), Place("pd", 1, (2,))], 3)
    assert (answer.how, answer.tried) == (How.EXISTING, ())
    assert places(answer) == [("pa", 1, (0, 3)), ("pb", 1, (1,)), ("pd", 1, (2,))]


def test_then_a_new_partition_then_growth_then_a_new_division() -> None:
    """Beside a (90 on 1 unit), c (60) takes 180 + 120 in conflict: 3 units, two more."""
    pair = (item("a", 90), item("c", 60))
    new = admit_task(Workload(pair, 2), [Place("p", 1, (0,))], 1)
    assert (new.how, places(new)) == (How.NEW, [("p", 1, (0,)), (None, 1, (1,))])
    grown = admit_task(Workload(pair, 3, most=1), [Place("p", 1, (0,))], 1)
    assert (grown.how, places(grown)) == (How.GROWN, [("p", 3, (0, 1))])
    assert grown.tried == (
        "an existing partition of the same size: none of 1 has room for it",
        "a new partition: there are 1 already, 1 at most",
    )  # fmt: skip
    large = [Place("p", 2, (0,))]
    assert admit_task(Workload(pair, 2), large, 1).how is None
    moved = admit_task(Workload(pair, 2), large, 1, move=True)
    assert (moved.how, places(moved)) == (How.MOVED, [(None, 1, (0,)), (None, 1, (1,))])


def test_growth_takes_the_fewest_units_more() -> None:
    """Beside a: 190 + 160 = 350, 4 units; beside b in conflict: 300 + 320 = 620, 7 units."""
    given = Workload((item("a", 190), item("b", 150, memory=True), item("c", 160, memory=True)), 9, most=2)
    answer = admit_task(given, [Place("pa", 2, (0,)), Place("pb", 2, (1,))], 2)
    assert (answer.how, places(answer)) == (How.GROWN, [("pa", 4, (0, 2)), ("pb", 2, (1,))])


def test_a_task_that_fits_nowhere_is_told_way_by_way() -> None:
    answer = admit_task(Workload((item("a", 90), item("c", 900)), 4), [Place("p", 1, (0,))], 1, move=True)
    assert answer.how is None
    assert [reason.split(":")[0] for reason in answer.tried] == [how.value for how in How]
    assert places(answer) == [("p", 1, (0,))]


def test_partitions_that_miss_deadlines_already_admit_nothing() -> None:
    answer = admit_task(Workload((item("a", 190), item("c", 10)), 4), [Place("p", 1, (0,))], 1)
    assert answer.how is None
    assert "p would miss deadlines" in answer.tried[0]


@pytest.mark.parametrize("inside", ["fp", "edf"])
def test_nobody_loses_his_guarantee(inside: str) -> None:
    """Arrivals one by one: after each, every partition passes its test, and only one has changed."""
    rng, ways = random.Random(1), set()
    for _ in range(12):
        drawn = [(rng.randint(20, 180), rng.choice((60, 100, 150)), rng.random() < 0.5) for _ in range(8)]
        items = tuple(item(f"t{i}", *one) for i, one in enumerate(drawn))
        known: tuple[Place, ...] = ()
        for count in range(1, 9):
            given = Workload(items[:count], 9, inside, most=3)
            answer = admit_task(given, known, count - 1)
            if answer.how is None:
                break
            ways.add(answer.how)
            merger = Merger(given)
            named = tuple(Place(place.name or f"p{count}", place.size, place.tasks) for place in answer.places)
            assert all(merger.passes(place.tasks, place.size) for place in named)
            assert sum(place.size for place in named) <= 9
            assert len(set(named) - set(known)) == 1
            known = named
    assert ways == {How.EXISTING, How.NEW, How.GROWN}

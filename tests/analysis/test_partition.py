# SPDX-License-Identifier: GPL-2.0
"""The planner's golden values: the paper's examples, and the ones of our reading, worked by hand."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from fewest_units import exact

from analysis.model import MS, Kernel
from analysis.partition.inside import SporadicTask, demand
from analysis.partition.merge import Infeasible, Merger
from analysis.partition.variants import HEURISTICS, LIST_ORDERS, Allocation, best, run_variant
from analysis.partition.workload import SHIFT, Item, Workload

HEURISTICS = [variant for variant in HEURISTICS if variant != "1g"]


def item(name: str, kind: str, a: int, period: int = 100, deadline: int | None = None) -> Item:
    """A task of the paper's experiments; times in ms."""
    memory = kind == "memory"
    curve = Kernel.linear(a * MS, a * MS // (10 if memory else 50))
    factor = Fraction("2.3") if memory else Fraction("1.2")
    until = (deadline or period * 3 // 4) * MS
    return Item(name, period * MS, until, memory, (curve,), factor, priority=10**6 - period)


def of(units: int, *items: Item, inside: str = "edf", **more: object) -> Workload:
    return Workload(tuple(items), units, inside, **more)  # type: ignore[arg-type]


def sizes(outcome: Allocation | Infeasible) -> dict[tuple[int, ...], int] | None:
    """The partitions; None if they do not fit."""
    return outcome.sets if isinstance(outcome, Allocation) and outcome.fits else None


def test_a_lonely_memory_task_among_compute_tasks_has_no_conflict() -> None:
    """Section 4.2's example: of 10 kernels, 9 compute and 1 memory, the 9 are in conflict."""
    workload = of(68, *(item(f"c{i}", "compute", 10) for i in range(9)), item("m", "memory", 10))
    assert workload.conflicts(range(10)) == (True, False)
    assert [sum(workload.times(range(10), m)) for m in (1, 2)] == [121_160_000, 62_160_000]
    assert Merger(workload).least(range(10), 1, 68) == 2


@pytest.mark.parametrize(("kind", "a", "size"), [("compute", 300, 5), ("memory", 300, 7)])
def test_lemma_2_sizes_a_task_alone(kind: str, a: int, size: int) -> None:
    parts = Merger(of(68, item("t", kind, a))).singles
    assert not isinstance(parts, Infeasible)
    assert [part.size for part in parts] == [size]


def test_a_task_that_fits_nowhere_is_named() -> None:
    outcome = best(of(68, item("fine", "compute", 10), item("long", "memory", 800)))
    assert isinstance(outcome, Infeasible)
    assert (outcome.lemma, outcome.task) == (2, "long")
    assert "has 75000000 ns" in str(outcome)


@pytest.mark.parametrize(
    ("kinds", "least"), [(("compute", "memory"), 3), (("compute", "compute"), 4), (("memory", "memory"), 13)]
)
def test_merges(kinds: tuple[str, str], least: int) -> None:
    """Two tasks of size 2: a merge is valid on 3 units only (definition 2)."""
    merger = Merger(of(68, *(item(kind, kind, 90) for kind in kinds)))
    one, other = merger.singles
    assert (one.size, other.size) == (2, 2)
    merged = merger.merge(one, other)
    assert (merged.size if merged else None) == (3 if least == 3 else None)
    assert merger.least((0, 1), 1, 68) == least


def test_best_fit_compares_utilizations_at_the_larger_size() -> None:
    """Definition 4's example: 1.008 with the memory task, 1.1232 with another compute task."""
    workload = of(68, *(item(str(i), kind, 90) for i, kind in enumerate(("compute", "memory", "compute"))))
    together = [workload.utilization(pair, 2) / 2**SHIFT for pair in ((0, 1), (0, 2))]
    assert together == pytest.approx([1.008, 1.1232], abs=1e-8)


def g3(units: int) -> Workload:
    return of(units, item("t0", "memory", 280, 400), item("t1", "compute", 165, 200), item("t2", "compute", 215, 200))


def test_g3_sizes_and_merges_by_hand() -> None:
    merger = Merger(g3(5))
    assert [part.size for part in merger.singles] == [2, 2, 2]
    least = {pair: merger.least(pair, 1, 5) for pair in [(0, 1), (0, 2), (1, 2), (0, 1, 2)]}
    assert least == {(0, 1): 2, (0, 2): 3, (1, 2): 4, (0, 1, 2): 4}
    times = [
        SporadicTask(c * 10**4, d * MS, t * MS) for c, d, t in ((9800, 300, 400), (5346, 150, 200), (6966, 150, 200))
    ]
    assert g3(5).times((0, 1, 2), 4) == [job.cost for job in times]
    assert [demand(times, t * MS) / 10**4 for t in (150, 300, 350, 550, 700)] == [12312, 22112, 34424, 46736, 56536]


ALL, SPLIT, OTHER = {(0, 1, 2): 4}, {(0, 1): 2, (2,): 2}, {(0, 2): 3, (1,): 2}
G3 = {
    (4, "dec", "sms-ina"): ALL, (4, "dec", "bf-ina"): ALL, (4, "dec", "fit-ina"): ALL,
    (4, "dec", "sms-act"): None, (4, "dec", "bf-act"): None, (4, "dec", "fit-act"): None,
    (4, "inc", "sms-ina"): SPLIT, (4, "inc", "sms-act"): SPLIT, (4, "inc", "bf-ina"): SPLIT,
    (4, "inc", "bf-act"): SPLIT, (4, "inc", "fit-ina"): ALL, (4, "inc", "fit-act"): None,
    **{(5, "dec", f"{rule}-{mode}"): OTHER for rule in ("sms", "bf", "fit") for mode in ("ina", "act")},
    **{(5, "inc", f"{rule}-{mode}"): SPLIT for rule in ("sms", "bf") for mode in ("ina", "act")},
    **{(5, "inc", f"fit-{mode}"): OTHER for mode in ("ina", "act")},
    **{(3, order, variant): None for order in LIST_ORDERS for variant in HEURISTICS},
}  # fmt: skip


@pytest.mark.parametrize(("units", "order", "variant"), G3, ids=lambda value: str(value))
def test_g3(units: int, order: str, variant: str) -> None:
    assert sizes(run_variant(g3(units), variant, order)) == G3[units, order, variant]


def test_g3_goes_through_a_merge_of_what_cannot_be_merged_alone() -> None:
    """INA merges t1 and t2 through {t0, t2}; section 7.2 says so."""
    outcome = run_variant(g3(4), "sms-ina")
    assert isinstance(outcome, Allocation)
    assert [step.merged.tasks for step in outcome.steps] == [(0, 2), (0, 1, 2)]


def test_g3_needs_4_units_at_least() -> None:
    for units in (3, 4, 5):
        outcome = exact(g3(units))
        assert isinstance(outcome, Allocation)
        assert (outcome.units, outcome.fits) == (4, units >= 4)
    found = best(g3(4))
    assert isinstance(found, Allocation)
    assert (found.units, found.fits) == (4, True)


def test_lemma_3_holds_at_equality() -> None:
    two = [item("a", "memory", 90), item("b", "memory", 90)]
    assert sizes(run_variant(of(4, *two), "sms-ina")) == {(0,): 2, (1,): 2}
    assert sizes(run_variant(of(3, *two), "sms-ina")) is None


def test_the_strong_form_of_lemma_1_refuses_more() -> None:
    """Two compute tasks with a = 196: 3.9984 units by the printed form, 4.1552 by ours, of 4."""
    workload = of(4, item("a", "compute", 196), item("b", "compute", 196))
    assert sum(workload.time(i, 1, False) for i in (0, 1)) == 399_840_000  # in 100 ms: 3.9984
    outcome = run_variant(workload, "fit-ina")
    assert isinstance(outcome, Infeasible)
    assert outcome.lemma == 1
    assert "4.2 units of 4" in str(outcome)


def test_a_partition_has_one_of_the_allowed_sizes() -> None:
    """Green contexts of compute capability 9: 8 and steps of 8."""
    tasks = [item(f"c{i}", "compute", 300) for i in range(3)]
    assert sizes(best(of(24, *tasks, sizes=(8, 16, 24)))) == {(0,): 8, (1,): 8, (2,): 8}
    assert sizes(best(of(15, *tasks, sizes=(8, 16, 24)))) is None
    assert sizes(best(of(15, *tasks))) == {(0,): 5, (1,): 5, (2,): 5}


def test_at_most_k_partitions_grow_where_a_merge_saves_nothing() -> None:
    two = [item("a", "compute", 90), item("b", "compute", 90)]
    assert sizes(best(of(4, *two))) == {(0,): 2, (1,): 2}
    assert sizes(best(of(4, *two, most=1))) == {(0, 1): 4}
    assert sizes(best(of(3, *two, most=1))) is None
    assert sizes(exact(of(4, *two, most=1))) == {(0, 1): 4}


def test_nothing_to_partition_fits() -> None:
    assert sizes(best(of(4))) == {}


@pytest.mark.parametrize(("part", "memory"), [(10, True), (50, False)])
def test_definition_1_for_the_papers_model(part: int, memory: bool) -> None:
    """C(41) is 8.4 % above C(68) for b = a / 10, and 27.9 % for b = a / 50."""
    assert Kernel.linear(10**9, 10**9 // part).memory_bound(68) is memory


def test_scalings() -> None:
    assert Kernel.linear(100, 7).worst(3) == 41
    assert Kernel.linear(107).worst(3) == 36
    assert Kernel.linear(100, 7).worst(3, Fraction("2.3")) == 93  # ceil(2.3 * 40.333), rounded once
    table = Kernel.falling(((4, 60), (8, 32)))
    assert [table.worst(m) for m in (4, 7, 8, 68)] == [60, 60, 32, 32]
    with pytest.raises(ValueError, match="no time is known on 3 units"):
        table.worst(3)
    with pytest.raises(ValueError, match="8 units is longer"):
        Kernel.falling(((4, 60), (8, 61)))


def test_a_measured_task_takes_no_partition_below_its_table() -> None:
    measured = Item("m", 100, 100, False, (Kernel.falling(((4, 10), (8, 5))),))
    assert sizes(best(of(8, measured, inside="fp"))) == {(0,): 4}
    outcome = best(of(3, measured, inside="fp"))
    assert isinstance(outcome, Infeasible)
    assert "known for 4 units" in str(outcome)


def test_exact_is_what_trying_every_partitioning_finds() -> None:
    """Independent of the dynamic programme: each set partition, each size from 1 up."""
    for seed, count in enumerate((4, 4, 4, 4, 5, 6)):
        tasks = [item(f"t{i}", ("memory", "compute")[(seed + i) % 2], 40 + 37 * (seed * i % 7), 100 + 100 * (i % 3))
                 for i in range(count)]  # fmt: skip
        workload = of(9, *tasks)
        merger = Merger(workload)
        fewest = min(
            sum(next((m for m in range(1, 10) if merger.passes(group, m)), 99) for group in groups)
            for groups in set_partitions(range(count))
        )
        outcome = exact(workload)
        assert (outcome.units if isinstance(outcome, Allocation) else None) == (fewest if fewest < 99 else None)


def set_partitions(elements: range) -> list[list[tuple[int, ...]]]:
    """All partitions of a set, by the group of each element."""
    found = []
    for groups in itertools.product(*(range(i + 1) for i in elements)):
        if all(group <= max(groups[:i], default=-1) + 1 for i, group in enumerate(groups)):
            found.append([tuple(i for i in elements if groups[i] == g) for g in range(max(groups) + 1)])
    return found

# SPDX-License-Identifier: GPL-2.0
"""Allocation of units: least, search, grid and greedy agree where they must, and the objectives are met."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from builders import cpu, ms
from effort import tries
from own_units import random_units
from rtgpu_sets import EXAMPLE_B, copy, kernel, part, task

from analysis.model import Kernel, Platform, Span, Taskset
from analysis.papers.registry import METHODS, RTGPU_PRINTED
from analysis.papers.rtgpu_tasksets import Parameters, draw
from analysis.rta.result import Bound, Reason
from analysis.rtgpu import allocate
from analysis.rtgpu.allocate import Allocation, named_allocation
from analysis.rtgpu.analyse import System, Units, on_units
from analysis.rtgpu.method import RTGPU

LONG = bool(os.environ.get("GPURT_LONG"))
SETS, DRAWN, TABLES = (10_000, 2_000, 2_000) if LONG else (150, 25, 25)


def grid(system: System, units: Units) -> Iterator[Allocation]:
    """What allocate.search finds, by Algorithm 2 of the paper: every allocation is analysed as a whole."""

    def every(index: int, left: int) -> Iterator[tuple[int, ...]]:
        if index == len(system.tasks):
            yield ()
            return
        for option in allocate._options(system, index, units, left):
            for rest in every(index + 1, left - option):
                yield (option, *rest)

    return (given for given in every(0, units.total) if allocate.allocation_passes(system, given))


def test_example_b_needs_four_units() -> None:
    system = System(RTGPU_PRINTED, EXAMPLE_B)
    assert allocate.least_units(system, Units(7)) == (2, 1, 1)
    assert allocate.find_allocation(system, Units(4)) == (2, 1, 1)
    assert allocate.find_allocation(system, Units(3)) is None
    assert allocate.run_allocation(system, Units(7)).units == {"t1": 2, "t2": 1, "t3": 1}


def test_the_most_slack_of_example_b_is_that_of_brute_force() -> None:
    system, units = System(RTGPU_PRINTED, EXAMPLE_B), Units(7)
    every = list(grid(system, units))
    best = max(allocate.slack(system, given) for given in every)
    found = allocate.most_slack(system, units)
    assert found in every
    assert allocate.slack(system, found) == best > allocate.slack(system, (2, 1, 1))


def test_units_handed_out_one_by_one_never_make_it_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocate, "MAX_ALLOCATIONS_SEARCHED", 2)
    system, units = System(RTGPU, EXAMPLE_B), Units(9)
    found = allocate.most_slack(system, units)
    assert found is not None
    assert allocate.slack(system, found) >= allocate.slack(system, allocate.find_allocation(system, units) or ())
    assert sum(found) <= 9


def agree(system: System, units: Units) -> bool:
    """Compares the grid with everything else.  Whether there is an allocation."""
    first = next(grid(system, units), None)
    assert next(allocate.search(system, units), None) == first
    assert allocate.find_allocation(system, units) == first
    assert allocate.run_allocation(system, units).schedulable is (first is not None)
    return first is not None


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_what_is_found_is_what_the_grid_finds_first(method) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(7)
    count = max(SETS // 5, 30)
    found = sum(
        agree(System(method, random_units(rng, 3, rng.choice([1, 1, 2]))), Units(rng.randint(2, 6)))
        for _ in range(count)
    )
    assert count // 10 < found < count


@pytest.mark.parametrize("name", ["rtgpu", "rtgpu-tight", "stgm", "self-suspension"])
def test_the_search_is_exact_for_measured_times_and_equal_priorities(name: str) -> None:
    rng, found = random.Random(8), 0
    for _ in range(TABLES):
        tied = rng.random() < 0.3
        system = System(METHODS[name], random_units(rng, 3, 1, table=True, ties=tied))
        found += agree(system, Units(4))
    assert TABLES // 10 < found < TABLES


@pytest.mark.parametrize(("seed", "name"), [(350, "rtgpu"), (838, "rtgpu-tight"), (116, "rtgpu-expected")])
def test_a_task_without_a_bound_does_not_end_the_search_among_equals(seed: int, name: str) -> None:
    """The units of equals after it decide whether it has one.  Few sets have no other allocation; these have none."""
    drawn = random_units(random.Random(seed), 3, 1, ties=True)
    tasks = (replace(t, segments=tuple(s for s in t.segments if s in t.gpu_segments or s.time.worst)) for t in drawn)
    system = System(METHODS[name], replace(drawn, tasks=tuple(tasks)))
    assert system.ties
    assert agree(system, Units(4))


def allocations(total: int, tasks: int) -> Iterator[tuple[int, ...]]:
    """All of up to so many units, at least one for each task, in lexicographic order: by where each one's units end."""
    for ends in combinations(range(1, total + 1), tasks):
        yield tuple(end - begin for begin, end in pairwise((0, *ends)))


def test_the_least_allocation_is_the_first_one_of_the_whole_grid() -> None:
    """Sets of table 1's form: 2 to 6 tasks, 1 to 5 CPU segments, one or two copies a kernel, up to 10 units."""
    rng = random.Random(10)
    found = 0
    for index in range(DRAWN):
        tasks, total, segments = rng.randint(2, 6), rng.randint(1, 10), rng.randint(1, 5)
        form = Parameters(tasks, segments, rng.choice([1, 2]), utilization=rng.uniform(0.2, 1.6), units=total,
                          best=rng.choice([0, 500, 1000]))  # fmt: skip
        for method in (RTGPU, RTGPU_PRINTED):
            system = System(method, draw(form, 10, 1, index).taskset(0))
            every = allocations(total, tasks) if segments > 1 else iter([(0,) * tasks])
            first = next((one for one in every if allocate.allocation_passes(system, one)), None)
            assert allocate.find_allocation(system, Units(total)) == first
            found += first is not None
    assert DRAWN // 4 < found < 2 * DRAWN


def greedy(system: System, units: Units) -> Allocation | None:
    """The paper's other way: all start with the least, and the first task that misses gets more; None if it fails."""
    smallest = allocate._smallest(units)
    given = [smallest if user else 0 for user in system.users]
    while sum(given) <= units.total:
        result = on_units(system, named_allocation(system, given))
        missing = next((i for i, t in enumerate(system.tasks) if not isinstance(result.verdicts[t.name], Bound)), None)
        if missing is None:
            return tuple(given)
        if not system.users[missing]:
            return None
        given[missing] += units.step
    return None


def test_greedy_is_as_good_where_units_help_nobody_else() -> None:
    """Both are exact for R1 to R4: a task that misses can only be helped by units of its own."""
    rng = random.Random(9)
    for _ in range(tries(60)):
        system, units = System(RTGPU, random_units(rng, 4)), Units(5)
        assert greedy(system, units) == allocate.find_allocation(system, units)


@pytest.mark.parametrize("name", ["rtgpu", "rtgpu-tight"])
def test_least_is_never_better_than_the_search(name: str) -> None:
    """With measured times, or bounds of higher tasks in the place of deadlines, units of a task can help others."""
    rng = random.Random(3)
    for _ in range(tries(200)):
        system, units = System(METHODS[name], random_units(rng, 3, table=True)), Units(4)
        assert allocate.least_units(system, units) is None or allocate.find_allocation(system, units) is not None


def test_units_come_in_steps() -> None:
    units = Units(10, step=2, least=3)
    assert list(units.choices(9)) == [4, 6, 8]
    assert allocate.find_allocation(System(RTGPU_PRINTED, EXAMPLE_B), Units(12, step=2)) == (2, 2, 2)
    assert allocate.find_allocation(System(RTGPU_PRINTED, EXAMPLE_B), Units(5, step=2)) is None


def test_a_failure_names_the_task_that_no_number_of_units_saves() -> None:
    hard = Taskset(Platform(1), (
        task("a", 2, 50, 50, cpu(1), part(copy(1), kernel(10, 1800, 1))),
        task("b", 1, 50, 9, cpu(1), part(copy(1), kernel(90, 1800, 8))),
    ))  # fmt: skip
    result = allocate.run_allocation(System(RTGPU, hard), Units(6))
    assert result.wcrt("a") is not None
    assert [(f.task, f.reason) for f in result.failures] == [("b", Reason.ABOVE_DEADLINE)]
    assert result.units == {"a": 1, "b": 5}


def test_too_few_units_are_a_failure_that_says_how_many_lack() -> None:
    three = Taskset(Platform(1), tuple(task(f"t{i}", 3 - i, 90, 90, part(kernel(1, 1000, 0))) for i in range(3)))
    failures = allocate.run_allocation(System(RTGPU, three), Units(2)).failures
    assert {f.reason for f in failures} == {Reason.NO_UNITS}
    assert "3 tasks have kernels and need 3 units of the GPU, and there are 2" in str(failures[-1])
    none = allocate.run_allocation(System(RTGPU, three), Units(0)).failures
    assert "there are 0" in str(none[0])


def test_tasks_without_kernels_need_no_units() -> None:
    plain = Taskset(Platform(1), (task("t", 1, 9, 9, cpu(1), part(copy(1))),))
    assert allocate.run_allocation(System(RTGPU, plain), Units(0)).schedulable
    table = Taskset(Platform(1), (task("t", 1, 9, 9, part(Kernel(Span.exactly(1), times=(Span.exactly(ms(1)),)))),))
    assert allocate.find_allocation(System(RTGPU, table), Units(5)) == (1,)


def test_a_search_that_does_not_end_is_a_failure_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocate, "MOST_TRIED", 40)
    tied = Taskset(Platform(1), tuple(task(f"t{i}", 1, 90, 9, part(kernel(20, 1000, 0))) for i in range(3)))
    with pytest.raises(allocate.Endless):
        list(allocate.search(System(RTGPU, tied), Units(9)))
    failures = allocate.run_allocation(System(RTGPU, tied), Units(9)).failures
    assert {f.reason for f in failures} == {Reason.NO_UNITS}
    assert "did not end: give each task with a kernel a partition" in str(failures[0])

# SPDX-License-Identifier: GPL-2.0
"""The compiled bounds and allocations equal the readable ones, ns by ns."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import product

import pytest
from builders import cpu, ms
from effort import tries
from own_units import random_units
from rtgpu_sets import EXAMPLE_A, EXAMPLE_B, FEASIBLE_B, SHORTER, copy, fixed, kernel, part, slowed, task
from units_searched import bounds as bounds_of

from analysis.model import Platform, Taskset
from analysis.papers import rtgpu_sweep as sweep
from analysis.papers.registry import METHODS, RTGPU_PRINTED
from analysis.rta.result import Bound
from analysis.rtgpu import allocate, compiled
from analysis.rtgpu.analyse import System, Units, on_units
from analysis.rtgpu.method import RTGPU, Method
from analysis.rtgpu.simulate import simulate_units

SETS = 20_000 if os.environ.get("GPURT_LONG") else tries(120, 40)
BEST_EFFORT = task("b", 0, 90, 90, cpu(5), part(copy(4)))


def readable(system: System, given: tuple[int, ...]) -> tuple[int, ...]:
    """Bounds before the first task without one."""
    found = []
    for one in system.tasks:
        verdict = on_units(system, allocate.named_allocation(system, given)).verdicts[one.name]
        if not isinstance(verdict, Bound):
            break
        found.append(verdict.wcrt)
    return tuple(found)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_equal_allocations_and_bounds(method: Method) -> None:
    rng = random.Random(11)
    passing = 0
    for index in range(SETS):
        taskset = random_units(rng, 4, rng.choice([1, 1, 2, 3]), table=index % 4 == 0)
        if rng.random() < 0.2:
            taskset = Taskset(taskset.platform, (*taskset, BEST_EFFORT))
        system = System(method, taskset, chunk=rng.choice([0, 0, 2]))
        units = Units(rng.randint(1, 5), rng.choice([1, 1, 2]))
        found, expected = compiled.find_units(system, units), allocate.find_allocation(system, units)
        assert (found and found[0]) == expected
        if found:
            passing += 1
            assert found[1] == readable(system, found[0])
    assert SETS // 10 < passing < SETS


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_equal_bounds_on_given_units(method: Method) -> None:
    rng = random.Random(12)
    for _ in range(SETS // 2):
        system = System(method, random_units(rng, 4, rng.choice([1, 2])))
        given = tuple(rng.randint(1, 4) * user for user in system.users)
        found, expected = bounds_of(system, given), readable(system, given)
        if len(expected) == len(system.tasks) or method.forms:
            assert found == expected
        else:  # a bound for STGM also rests on lower tasks of other CPUs, which the readable one withdraws
            assert len(found) < len(system.tasks)


def test_lemma_2_1_by_hand() -> None:
    """Golden values 9.1.  Below (2, susp. 4, 1) with T = D = 20, a task of C has the least x = C + W(x)."""
    first = task("t1", 2, 20, 20, cpu(2), part(fixed(4)), cpu(1))
    for length, bound in ((3, 6), (4, 7), (5, 10), (8, 13), (9, 15), (15, 21), (17, 23), (21, 27)):
        two = Taskset(Platform(1), (first, task("t2", 1, 60, 60, cpu(length))))
        assert bounds_of(System(RTGPU_PRINTED, two), (1, 0)) == (ms(7), ms(bound))
    second = task("t2", 1, 30, 30, cpu(3), part(fixed(5)), cpu(7))
    assert bounds_of(System(RTGPU_PRINTED, Taskset(Platform(1), (first, second))), (1, 1)) == (ms(7), ms(21))


@pytest.mark.parametrize(("units", "best", "worst"), [(1, 10, 19.2), (2, 5, 10.8), (10, 1, 4.08)])
def test_lemma_5_1(units: int, best: float, worst: float) -> None:
    """Golden values 9.8.  A lower task meets the second CPU segment after the shortest kernel."""
    high = task("t1", 2, 90, 45, cpu(1), part(kernel(20, 1800, 2.4)), cpu(1))
    for length in (best / 2, best + 1):
        two = Taskset(Platform(1), (high, task("t2", 1, 90, 90, cpu(length))))
        meets = 1 if length <= best else 2
        assert bounds_of(System(RTGPU_PRINTED, two), (units, 0)) == (ms(worst + 2), ms(length + meets))


def test_example_a() -> None:
    """Golden values 9.2."""
    for name, units, bounds in (
        ("rtgpu", (1, 1), (16, 29.5)), ("rtgpu-tight", (1, 1), (16, 25.5)), ("rtgpu-printed", (1, 1), (16, 29.5)),
        ("rtgpu", (1, 2), (16, 25.25)), ("rtgpu", (2, 1), (13, 29.5)), ("rtgpu-printed", (2, 1), (13, 29.5)),
    ):  # fmt: skip
        assert bounds_of(System(METHODS[name], EXAMPLE_A), units) == tuple(map(ms, bounds))


def test_example_b() -> None:
    """Golden values 9.3."""
    slow = System(RTGPU_PRINTED, slowed(EXAMPLE_B, 3))
    every = [units for units in product(range(1, 6), repeat=3) if sum(units) <= 7]
    assert {units for units in every if len(bounds_of(slow, units)) == 3} == FEASIBLE_B
    assert len(every) == 35
    for units, bounds in (
        ((2, 1, 1), (21.95, 75, 83)), ((2, 1, 2), (21.95, 75, 62)), ((2, 1, 4), (21.95, 75, 51.5)),
        ((2, 2, 1), (21.95, 63, 85)), ((2, 3, 1), (21.95, 59, 89)),
    ):  # fmt: skip
        assert bounds_of(slow, units) == tuple(ms(3 * bound) for bound in bounds)
    tight = METHODS["rtgpu-tight"]
    published = bounds_of(System(replace(tight, refined=False), EXAMPLE_B), (2, 1, 2))
    assert published == (ms(21.95), ms(67), ms(62))
    assert bounds_of(System(tight, EXAMPLE_B), (2, 1, 2)) == (ms(21.95), ms(67), ms(58))
    assert compiled.find_units(System(RTGPU_PRINTED, EXAMPLE_B), Units(7)) == ((2, 1, 1), (ms(21.95), ms(75), ms(83)))


def test_lower_bounds() -> None:
    """Golden values 9.7."""
    assert bounds_of(System(METHODS["rtgpu-expected"], SHORTER), (1, 0))[1] == ms(8)
    assert bounds_of(System(RTGPU, SHORTER), (1, 0))[1] == ms(11)


def test_verdicts_of_a_batch() -> None:
    rng = random.Random(13)
    systems = [System(RTGPU, random_units(rng, 4)) for _ in range(60)]
    batch = compiled.from_systems(systems, 4)
    expected = [allocate.find_allocation(system, Units(4)) is not None for system in systems]
    assert sweep.unit_verdicts(batch, RTGPU, Units(4)).tolist() == expected


def test_a_nanosecond_below_a_second_ends() -> None:
    """One step a nanosecond would take 10^9 steps; a full resource ends, too."""
    second = 10**9 / 10**6
    long = Taskset(Platform(1), (
        task("a", 2, 100 * second, 100 * second, cpu(second)), task("b", 1, 100 * second, 100 * second, cpu(1e-6)),
    ))  # fmt: skip
    assert bounds_of(System(RTGPU_PRINTED, long), (0, 0)) == (10**9, 2 * 10**9 + 1)
    assert bounds_of(System(RTGPU, long), (0, 0)) == (10**9, 10**9 + 1)
    full = Taskset(Platform(1), (task("a", 2, 1e-5, 1e-5, cpu(1e-5)), task("b", 1, second, second, cpu(1e-6))))
    for name in ("rtgpu", "stgm", "stgm-published"):
        assert bounds_of(System(METHODS[name], full), (0, 0)) == (10,)


def test_a_lower_task_without_any_bound_does_not_overflow() -> None:
    """Copies of 10^4 s each 100 ns on another CPU: the products exceed 63 bits."""
    long = task("b", 1, 1e-4, 1e-4, part(copy(1e7)), core=1)
    two = Taskset(Platform(2), (task("a", 2, 1e9, 1e9, cpu(1), part(copy(1))), long))
    assert bounds_of(System(METHODS["stgm"], two), (0, 0)) == (ms(1 + 1 + 1e7),)


def test_what_is_too_long_or_tied_is_left_to_the_readable_implementation() -> None:
    long = Taskset(Platform(1), (task("a", 1, 2**59 / 1e6, 2**59 / 1e6, cpu(1)),))
    with pytest.raises(OverflowError):
        compiled.find_units(System(RTGPU, long), Units(1))
    tied = Taskset(Platform(1), (task("a", 1, 20, 20, cpu(1)), task("b", 1, 20, 20, cpu(1))))
    with pytest.raises(ValueError, match="equal priority"):
        compiled.find_units(System(RTGPU, tied), Units(1))
    for taskset in (long, tied):
        assert compiled.run_method(System(RTGPU, taskset), Units(1)).schedulable


def test_run_says_the_same_as_the_readable_allocation() -> None:
    rng = random.Random(14)
    for _ in range(tries(60)):
        system = System(RTGPU, random_units(rng, 3))
        assert compiled.run_method(system, Units(3)) == allocate.run_allocation(system, Units(3))


def test_kernels_without_units_are_refused() -> None:
    with pytest.raises(ValueError, match="needs units"):
        bounds_of(System(RTGPU, EXAMPLE_A), (1, 0))
    batch = compiled.from_systems([System(RTGPU, EXAMPLE_A)], 2)
    for given in ((0, 1), (1, 3)):
        with pytest.raises(ValueError, match="needs 1 to 2 units"):
            simulate_units(batch, 0, RTGPU, given, (0, 0))

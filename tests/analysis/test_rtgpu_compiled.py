# SPDX-License-Identifier: GPL-2.0
"""The compiled bounds and allocations equal the readable ones, ns by ns."""

from __future__ import annotations

import os
import random

import pytest
from builders import cpu, ms
from rtgpu_sets import EXAMPLE_A, EXAMPLE_B, SHORTER, copy, part, task

from analysis.model import Platform, Taskset
from analysis.rta.result import Bound
from analysis.rtgpu import allocate, compiled
from analysis.rtgpu.analyse import System, Units, on_units
from analysis.rtgpu.attack import random_taskset
from analysis.rtgpu.method import METHODS, RTGPU, Method
from analysis.rtgpu.simulate import simulate

SETS = 3000 if os.environ.get("GPURT_LONG") else 120
BEST_EFFORT = task("b", 0, 90, 90, cpu(5), part(copy(4)))


def readable(system: System, given: tuple[int, ...]) -> tuple[int, ...]:
    """Bounds before the first task without one."""
    found = []
    for one in system.tasks:
        verdict = on_units(system, allocate.named(system, given)).verdicts[one.name]
        if not isinstance(verdict, Bound):
            break
        found.append(verdict.wcrt)
    return tuple(found)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_equal_allocations_and_bounds(method: Method) -> None:
    rng = random.Random(11)
    passing = 0
    for index in range(SETS):
        taskset = random_taskset(rng, 4, rng.choice([1, 1, 2, 3]), table=index % 4 == 0)
        if rng.random() < 0.2:
            taskset = Taskset(taskset.platform, (*taskset, BEST_EFFORT))
        system = System(method, taskset, chunk=rng.choice([0, 0, 2]))
        units = Units(rng.randint(1, 5), rng.choice([1, 1, 2]))
        found, expected = compiled.find(system, units), allocate.find(system, units)
        assert (found and found[0]) == expected
        if found:
            passing += 1
            assert found[1] == readable(system, found[0])
    assert SETS // 10 < passing < SETS


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_equal_bounds_on_given_units(method: Method) -> None:
    rng = random.Random(12)
    for _ in range(SETS // 2):
        system = System(method, random_taskset(rng, 4, rng.choice([1, 2])))
        given = tuple(rng.randint(1, 4) * user for user in system.users)
        found, expected = compiled.bounds(system, given), readable(system, given)
        if len(expected) == len(system.tasks) or method.forms:
            assert found == expected
        else:  # a bound for STGM also rests on lower tasks of other CPUs, which the readable one withdraws
            assert len(found) < len(system.tasks)


def test_the_worked_examples() -> None:
    assert compiled.bounds(System(METHODS["rtgpu-printed"], EXAMPLE_B), (2, 1, 2)) == (ms(21.95), ms(75), ms(62))
    assert compiled.bounds(System(METHODS["rtgpu-tight"], EXAMPLE_A), (1, 1)) == (ms(16), ms(25.5))
    assert compiled.bounds(System(METHODS["rtgpu-expected"], SHORTER), (1, 0))[1] == ms(8)
    assert compiled.bounds(System(RTGPU, SHORTER), (1, 0))[1] == ms(11)


def test_verdicts_of_a_batch() -> None:
    rng = random.Random(13)
    systems = [System(RTGPU, random_taskset(rng, 4)) for _ in range(60)]
    batch = compiled.from_systems(systems, 4)
    expected = [allocate.find(system, Units(4)) is not None for system in systems]
    for threads in (1, 2):
        assert compiled.verdicts(batch, RTGPU, Units(4), threads).tolist() == expected


def test_a_nanosecond_below_a_second_ends() -> None:
    """One step a nanosecond would take 10^9 steps; a full resource ends, too."""
    second = 10**9 / 10**6
    long = Taskset(Platform(1), (
        task("a", 2, 100 * second, 100 * second, cpu(second)), task("b", 1, 100 * second, 100 * second, cpu(1e-6)),
    ))  # fmt: skip
    assert compiled.bounds(System(RTGPU, long), (0, 0)) == (10**9, 2 * 10**9 + 1)
    full = Taskset(Platform(1), (task("a", 2, 1e-5, 1e-5, cpu(1e-5)), task("b", 1, second, second, cpu(1e-6))))
    for name in ("rtgpu", "stgm", "stgm-published"):
        assert compiled.bounds(System(METHODS[name], full), (0, 0)) == (10,)


def test_a_lower_task_without_any_bound_does_not_overflow() -> None:
    """Copies of 10^4 s each 100 ns on another CPU: the products exceed 63 bits."""
    long = task("b", 1, 1e-4, 1e-4, part(copy(1e7)), core=1)
    two = Taskset(Platform(2), (task("a", 2, 1e9, 1e9, cpu(1), part(copy(1))), long))
    assert compiled.bounds(System(METHODS["stgm"], two), (0, 0)) == (ms(1 + 1 + 1e7),)


def test_what_is_too_long_or_tied_is_left_to_the_readable_implementation() -> None:
    long = Taskset(Platform(1), (task("a", 1, 2**59 / 1e6, 2**59 / 1e6, cpu(1)),))
    with pytest.raises(OverflowError):
        compiled.find(System(RTGPU, long), Units(1))
    tied = Taskset(Platform(1), (task("a", 1, 20, 20, cpu(1)), task("b", 1, 20, 20, cpu(1))))
    with pytest.raises(ValueError, match="equal priority"):
        compiled.find(System(RTGPU, tied), Units(1))
    for taskset in (long, tied):
        assert compiled.run(System(RTGPU, taskset), Units(1)).schedulable


def test_run_says_the_same_as_the_readable_allocation() -> None:
    rng = random.Random(14)
    for _ in range(60):
        system = System(RTGPU, random_taskset(rng, 3))
        assert compiled.run(system, Units(3)) == allocate.run(system, Units(3))


def test_kernels_without_units_are_refused() -> None:
    with pytest.raises(ValueError, match="needs units"):
        compiled.bounds(System(RTGPU, EXAMPLE_A), (1, 0))
    batch = compiled.from_systems([System(RTGPU, EXAMPLE_A)], 2)
    for given in ((0, 1), (1, 3)):
        with pytest.raises(ValueError, match="needs 1 to 2 units"):
            simulate(batch, 0, RTGPU, given, (0, 0))

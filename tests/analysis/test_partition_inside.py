# SPDX-License-Identifier: GPL-2.0
"""The tests inside partitions against schedules: no accepted partition misses, and exact tests refuse no other."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm

import pytest
from effort import tries
from partition_schedule import Release, first_miss, periodic, shared_first_miss

from analysis.papers.zahaf_tasksets import Parameters, generate_zahaf, zahaf_workload
from analysis.partition.inside import (
    TESTS,
    SporadicTask,
    edf,
    fixed_priority,
    overloaded,
)
from analysis.partition.merge import Merger, partition_jobs
from analysis.partition.variants import Allocation, run_variant

#: Accepted partitions that are simulated; GPURT_LONG: those of the issue.
ACCEPTED = 100_000 if os.environ.get("GPURT_LONG") else tries(150, 50)
POLICY = {"edf": "edf", "fp": "fp"}


def drawn(rng: random.Random) -> list[SporadicTask]:
    """Two to four small tasks with a hyperperiod of at most 120, distinct priorities, near full load."""
    found = []
    for index in range(rng.randint(2, 4)):
        period = rng.choice((4, 5, 6, 8, 10, 12, 20, 24))
        cost = rng.randint(1, max(1, period // 2))
        found.append(SporadicTask(cost, rng.randint(cost, period), period, 10 - index))
    return found


def rows(tasks: Sequence[SporadicTask]) -> list[tuple[int, int, int, int]]:
    return [(job.cost, job.deadline, job.period, job.priority) for job in tasks]


def exactly_schedulable(tasks: Sequence[SporadicTask], policy: str) -> bool:
    """By the schedule of one hyperperiod and a deadline more from a synchronous release, where that is the worst."""
    if sum(Fraction(job.cost, job.period) for job in tasks) > 1:
        return False
    return first_miss(periodic(rows(tasks), 2 * lcm(*(job.period for job in tasks))), policy) is None


@pytest.mark.parametrize(("test", "policy"), [(edf, "edf"), (fixed_priority, "fp")])
def test_preemptive_tests_are_exact(test: object, policy: str) -> None:
    rng, seen = random.Random(1), set()
    for _ in range(tries(600)):
        tasks = drawn(rng)
        answer = TESTS[policy](tasks)
        assert answer == exactly_schedulable(tasks, policy), tasks
        seen.add(answer)
    assert seen == {True, False}


def test_equal_priorities_serve_the_order_of_arrival() -> None:
    """Each counts the other: 3 + 3 > 5."""
    tasks = [SporadicTask(3, 5, 10, 1), SporadicTask(3, 9, 10, 1)]
    assert not fixed_priority(tasks)
    assert fixed_priority([tasks[0], SporadicTask(3, 9, 10, 0)])


def test_sums_that_rounding_could_change_are_exact() -> None:
    thirds = [SporadicTask(10**9 // 3 * 3 // 3, 10**9, 10**9 // 3 * 3, 1)] * 3
    assert not overloaded(thirds)
    assert overloaded([*thirds, SporadicTask(1, 10**12, 10**12, 1)])
    assert edf([SporadicTask(1, 3, 3), SporadicTask(1, 3, 3), SporadicTask(1, 3, 3)])  # U = 1


@pytest.mark.parametrize("inside", ["edf", "fp"])
def test_accepted_partitions_meet_deadlines_and_a_unit_less_does_not(inside: str) -> None:
    """Two-sided: with offsets, sporadic releases and shorter execution; and at m* - 1 in the synchronous worst case."""
    rng, left, smaller, seed = random.Random(3), ACCEPTED, 0, 0
    while left > 0:
        seed += 1
        row = generate_zahaf(Parameters(50, 46 if seed % 2 else 40, shared=bool(seed % 3)), seed, 1)[0]
        given = zahaf_workload(row, 68, inside)
        outcome = run_variant(given, ("fit-ina", "sms-ina", "bf-act")[seed % 3])
        if not isinstance(outcome, Allocation):
            continue
        merger = Merger(given)
        for part in [part for part in outcome.parts if len(part.tasks) > 1]:
            left -= 1
            assert not any(
                first_miss(releases(rng, partition_jobs(given, part.tasks, part.size)), inside) for _ in range(2)
            )
            least = merger.least(part.tasks, 1, part.size)
            assert least is not None
            if least > 1:
                smaller += 1
                assert misses_or_overloads(partition_jobs(given, part.tasks, least - 1), inside)
    assert smaller > ACCEPTED / 4


def releases(rng: random.Random, tasks: Sequence[SporadicTask]) -> list[Release]:
    """Random offsets; periodic or sporadic; execution of 100 % or 60 to 100 % of C."""
    found, sporadic, short = [], rng.random() < 0.5, rng.random() < 0.5
    until = 4 * max(job.period for job in tasks)
    for index, job in enumerate(tasks):
        at = rng.randrange(job.period)
        while at < until:
            work = rng.randint(-(-job.cost * 3 // 5), job.cost) if short else job.cost
            found.append(Release(at, work, at + job.deadline, job.priority, index))
            at += job.period + (rng.randrange(job.period) if sporadic else 0)
    return found


def misses_or_overloads(tasks: Sequence[SporadicTask], policy: str) -> bool:
    if sum(Fraction(job.cost, job.period) for job in tasks) > 1:
        return True
    return first_miss(periodic(rows(tasks), lcm(*(job.period for job in tasks))), policy) is not None


def test_the_attack_finds_planted_mistakes() -> None:
    """Tests that forget a conflict, a preemption or a period are broken by the same schedules."""
    rng = random.Random(4)

    def demand_only(tasks: Sequence[SporadicTask]) -> bool:
        return not overloaded(tasks)

    def one_preemption(tasks: Sequence[SporadicTask]) -> bool:
        return all(
            job.cost + sum(other.cost for other in tasks if other.priority > job.priority) <= job.deadline
            for job in tasks
        )

    for mutant, policy in ((demand_only, "edf"), (one_preemption, "fp")):
        sets = (drawn(rng) for _ in range(2000))
        assert any(mutant(tasks) and not exactly_schedulable(tasks, policy) for tasks in sets), mutant.__name__


def test_a_planner_that_forgets_conflicts_is_broken() -> None:
    """Sizes for times without conflicts miss deadlines once conflicts slow the tasks down."""
    row = generate_zahaf(Parameters(50, 40), 5, 1)[0]
    honest, naive = zahaf_workload(row, 68), zahaf_workload(forgetful(row), 68)
    outcome = run_variant(naive, "fit-ina")
    assert isinstance(outcome, Allocation)
    crowded = [part for part in outcome.parts if any(honest.conflicts(part.tasks))]
    assert crowded
    assert any(misses_or_overloads(partition_jobs(honest, part.tasks, part.size), "edf") for part in crowded)


def test_contention_across_partitions_breaks_sizes_that_do_not_count_it() -> None:
    """Memory tasks slowed down 1.5 times by other partitions: sizes for 1 miss, sizes for 1.5 hold."""
    cross, seen = Fraction(3, 2), set()
    for seed in range(6):
        plain = zahaf_workload(generate_zahaf(Parameters(30, 24), seed, 1)[0], 68)
        slowed = replace(plain, items=tuple(replace(i, always=cross) if i.memory else i for i in plain.items))
        for declared in (plain, slowed):
            outcome = run_variant(declared, "fit-ina")
            if isinstance(outcome, Allocation):
                late = any(misses_or_overloads(partition_jobs(slowed, p.tasks, p.size), "edf") for p in outcome.parts)
                assert not (late and declared is slowed)
                seen.add((declared is slowed, late))
    assert {(False, True), (True, False)} <= seen


def forgetful(row: object) -> object:
    changed = row.copy()  # type: ignore[attr-defined]
    changed["numerator"][..., 1] = changed["denominator"][..., 1] = 1
    return changed


def test_jobs_that_run_at_once_break_an_accepted_partition() -> None:
    """The counterexample of docs/partitioning.md: one at a time both are in time; sharing the units, i ends at 8.

    So a partition of several tasks needs a policy that runs one at a time; CUDA streams or MPS alone do not do that.
    """
    tasks = [SporadicTask(4, 6, 6, 2), SporadicTask(6, 20, 20, 1)]
    assert edf(tasks)
    assert fixed_priority(tasks)
    released = [Release(0, 4, 6, 2, 0), Release(0, 6, 20, 1, 1)]
    assert first_miss(periodic(rows(tasks), 60), "edf") is None
    assert first_miss(periodic(rows(tasks), 60), "fp") is None
    found = shared_first_miss(released)
    assert found is not None
    assert (found[0].task, found[1]) == (0, Fraction(8))

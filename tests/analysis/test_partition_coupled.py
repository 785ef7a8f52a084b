# SPDX-License-Identifier: GPL-2.0
"""Planning where tasks of all partitions share CPUs: what the test of merges depends on, and what a plan proves."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from builders import cpu, ms, task

from analysis.answers import coupled
from analysis.answers import partitions as plan
from analysis.answers.coupled import Coupled, Place
from analysis.model import GpuSegment, Kernel, Platform, Span, Task, Taskset
from analysis.partition.variants import Allocation
from analysis.rta import Reason, partitioned
from analysis.rta.recurrence import solve
from analysis.rta.system import System

UNITS = 12


def scaling(rng: random.Random, period: float) -> GpuSegment:
    curve = Kernel.linear(ms(period * rng.uniform(0.1, 1)), ms(period * rng.uniform(0.01, 0.1)))
    return GpuSegment(Span.exactly(ms(period * 0.01)), Span.exactly(curve.worst(UNITS)), scaling=curve)


def system(rng: random.Random) -> Taskset:
    """Four to six tasks on two CPUs, one of them without GPU work."""
    tasks: list[Task] = []
    for at in range(rng.randint(4, 6)):
        period = rng.choice([10, 20, 40, 80])
        work = [cpu(period * rng.uniform(0.01, 0.1))]
        segments = [scaling(rng, period) for _ in range(rng.randint(1, 2))] if at else []
        tasks.append(task(f"t{at}", rng.randrange(2), 9 - at, period, *work, *segments))
    alpha = ms(rng.choice([0, 0.1, 0.5]))
    return Taskset(Platform(2, alpha, compute_units=UNITS, policy="segment"), tuple(tasks))


def test_no_bound_grows_with_the_size_of_its_partition() -> None:
    """L4: sizes can be searched for by halves, although more jobs can count where each takes less."""
    rng, changes = random.Random(4), 0
    for _ in range(40):
        taskset = system(rng)
        given = plan.workload(taskset, "gcaps-suspend")
        merger = Coupled(given, taskset)
        members = tuple(sorted(rng.sample(range(len(given.items)), rng.randint(1, 3))))
        passed = [merger.passes(members, size) for size in range(1, UNITS + 1)]
        assert passed == sorted(passed)
        changes += len(set(passed)) > 1
        least = merger.least(members, 1, UNITS)
        assert least == (passed.index(True) + 1 if any(passed) else None)
    assert changes > 5


def test_the_test_of_a_merge_does_not_depend_on_the_sizes_of_other_partitions() -> None:
    rng = random.Random(5)
    for _ in range(30):
        taskset = system(rng)
        given = plan.workload(taskset, "gcaps-suspend")
        rest = range(1, len(given.items))
        for size in (1, UNITS):
            others = [Place(f"p{index}", size, (index,)) for index in rest]
            divided = coupled.divided_taskset(taskset, given, [Place("a", 3, (0,)), *others])
            one = next(t for t in divided if t.name == given.items[0].name)
            verdict = solve(one, partitioned.suspend(one, System(divided)))
            assert (getattr(verdict, "wcrt", None) is not None) is Coupled(given, taskset).passes((0,), 3)


@pytest.mark.parametrize("inside", ["gcaps-suspend", "gcaps-busy"])
def test_a_plan_fails_only_by_tasks_without_gpu_work_or_for_lack_of_units(inside: str) -> None:
    """Under suspension all others passed the test of merges; under busy waiting partitions grow as far as they can."""
    rng, proved = random.Random(6), 0
    for _ in range(60):
        taskset = system(rng)
        taskset = replace(taskset, tasks=tuple(replace(t, waiting=plan.COUPLED[inside]) for t in taskset))
        given = plan.workload(taskset, inside)
        found = coupled.plan_coupled(taskset, given)
        if not isinstance(found, Allocation) or not found.fits:
            continue
        result = coupled.coupled_verdict(taskset, given, coupled.places_of(found))
        proved += result.schedulable
        failed = {one.task for one in result.failures if one.reason is not Reason.DEPENDS_ON} - {"t0"}
        assert not failed or (inside == "gcaps-busy" and found.units == UNITS)
    assert proved > 2

# SPDX-License-Identifier: GPL-2.0
"""The compiled simulation makes the decisions and the energies of the readable one, for every policy and option."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
from energy_readable import simulate

from analysis.energy import compiled
from analysis.energy.outcome import EXECUTIONS, EnergyOutcome, EnergyRun
from analysis.energy.policies import POLICIES, Readings, UnitsPolicy
from analysis.energy.setup import Setup, prepare_tables
from analysis.model import Kernel
from analysis.model.energy import PoweredKernel, SpatialGpu, SpatialSystem, SpatialTask

SYSTEMS = 4000 if os.environ.get("GPURT_LONG") == "1" else 25


def some_gpu(rng: random.Random, index: int) -> SpatialGpu:
    units = rng.randint(1, 12)
    granularity = rng.choice([1, 1, 2, 3]) if units >= 3 else 1
    limit = rng.randint(granularity, units)
    return SpatialGpu(
        f"g{index}", units, limit, rng.randint(0, 50), rng.randint(0, 9), granularity, rng.choice([1, 2, 2, 2])
    )


def some_kernel(rng: random.Random, gpu: SpatialGpu) -> PoweredKernel:
    """Not monotone, with equal times, and now and then with units that draw less than idle ones."""
    work = rng.randint(1, 60)
    counts = range(1, gpu.units + 1)
    worst = tuple(max(1, work // (m if rng.random() < 0.7 else 1) + rng.randint(-2, 2)) for m in counts)
    best = tuple(rng.randint(0, time) for time in worst)
    measured = tuple(rng.randint(-9, 99) for _ in counts)
    return PoweredKernel(Kernel.table(worst, best), rng.randint(0, 20), rng.randint(0, 5), rng.randint(0, 5), measured)


def some_system(rng: random.Random, single: bool) -> SpatialSystem:
    gpus = tuple(some_gpu(rng, index) for index in range(1 if single else rng.randint(1, 3)))
    tasks = []
    for index in range(rng.randint(1, 6)):
        kernels: list[PoweredKernel | None] = [some_kernel(rng, gpu) for gpu in gpus]
        if len(gpus) > 1 and rng.random() < 0.2:
            kernels[rng.randrange(len(gpus))] = None
        period = rng.randint(10, 120)
        deadline = rng.randint(period // 2, period)
        tasks.append(SpatialTask(f"t{index}", period, deadline, tuple(kernels), rng.randint(0, period)))
    return SpatialSystem(gpus, tuple(tasks))


def some_options(rng: random.Random) -> Readings:
    names = ("active", "hold_job", "at_best", "run_late", "weigh", "copies", "measured")
    return Readings(**{name: rng.random() < 0.3 for name in names})


def some_run(rng: random.Random) -> EnergyRun:
    sporadic, offsets = rng.random() < 0.4, rng.random() < 0.4
    seed, complete = rng.randrange(2**64), rng.random() < 0.3
    return EnergyRun(rng.randint(1, 600), rng.choice(EXECUTIONS), sporadic, offsets, seed, complete)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
def test_compiled_equals_readable(policy: UnitsPolicy) -> None:
    migrated = 0
    for seed in range(SYSTEMS):
        rng = random.Random(f"{policy.name} {seed}")
        setup, run = prepare_tables(some_system(rng, policy.single), policy, some_options(rng)), some_run(rng)
        expected = simulate.simulate(setup, run)
        assert compiled.simulate_compiled(setup, run, log=10_000) == expected, seed
        assert_sound(setup, expected)
        migrated += expected.away
    if policy.name in ("sbeet-mg", "lcf", "bcf", "ld"):
        assert migrated > 0


def assert_sound(setup: Setup, outcome: EnergyOutcome) -> None:
    """Units and slots are never held twice, no job starts early or runs with its predecessor."""
    finish: dict[int, int] = {}
    for one in outcome.dispatches:
        gpu = setup.system.gpus[one.gpu]
        assert one.at >= max(one.release, finish.get(one.task, 0))
        finish[one.task] = one.finish
        beside = [other for other in outcome.dispatches if other is not one and other.gpu == one.gpu
                  and other.at <= one.at < (other.finish if setup.hold_job else other.end)]  # fmt: skip
        beside = [other for other in beside if other.at < one.at]
        assert len(beside) < setup.slots(gpu)
        assert one.units in gpu.counts
        if not setup.sets:
            assert one.units + sum(other.units for other in beside) <= gpu.limit


def test_units_of_jobs_side_by_side_are_disjoint() -> None:
    for seed in range(SYSTEMS):
        rng = random.Random(seed)
        setup = prepare_tables(some_system(rng, False), POLICIES["sbeet-mg"])
        for one in (found := simulate.simulate(setup, EnergyRun(600)).dispatches):
            for other in found:
                if other is not one and other.gpu == one.gpu and one.at < other.end and other.at < one.end:
                    assert one.first + one.units <= other.first or other.first + other.units <= one.first


def test_a_window_without_room_counts_as_not_in_time() -> None:
    """The decision is as if a deadline were missed, and it is counted."""
    for seed in range(40):
        rng = random.Random(seed)
        setup, run = prepare_tables(some_system(rng, True), POLICIES["sbeet"]), some_run(rng)
        full = compiled.simulate_compiled(setup, run)
        tight = compiled.simulate_compiled(setup, run, tables=compiled.Tables(setup, window=1))
        assert full.overflows == 0
        if tight.overflows:
            return
    pytest.fail("no window overflowed")


def test_equal_seeds_release_equal_jobs_under_every_policy() -> None:
    rng = random.Random(5)
    system, run = some_system(rng, True), EnergyRun(600, "random", True, True, 9)
    runs = [compiled.simulate_compiled(prepare_tables(system, one), run) for one in POLICIES.values()]
    released = {tuple(t.released for t in one.tasks) for one in runs}
    assert len(released) == 1
    other = compiled.simulate_compiled(prepare_tables(system, POLICIES["rm"]), replace(run, seed=10))
    assert tuple(t.released for t in other.tasks) not in released or other.energy

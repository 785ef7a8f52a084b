# SPDX-License-Identifier: GPL-2.0
"""Guarantees of `gpurt plan energy`, against schedules by hand: bounds of one job at a time.

Nothing here uses the project's simulations.  GPURT_LONG=1 takes a hundred times as many systems.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from analysis.energy.bounds import energy_bounds
from analysis.energy.policies import POLICIES
from analysis.energy.setup import prepare_tables
from analysis.model import Kernel
from analysis.model.energy import PoweredKernel, SpatialGpu, SpatialSystem, SpatialTask

TIMES = 100 if os.environ.get("GPURT_LONG") else 1
PERIODS = [(4, 8, 16), (6, 12), (5, 10, 20), (3, 4, 6), (10,), (7, 14, 21)]


def systems(seed: str, count: int, most_gpus: int) -> Iterator[tuple[random.Random, SpatialSystem]]:
    """Systems with times of a few ns, so that instants coincide; kernels may take no time, and longer on more units."""
    for number in range(count * TIMES):
        rng = random.Random(f"{seed} {number}")
        gpus = tuple(gpu(rng, at) for at in range(rng.randint(1, most_gpus)))
        tasks, periods = rng.randint(1, 4), rng.choice(PERIODS)
        yield rng, SpatialSystem(gpus, tuple(task(rng, at, gpus, rng.choice(periods), tasks) for at in range(tasks)))


def gpu(rng: random.Random, at: int) -> SpatialGpu:
    units, granularity = rng.choice([2, 4, 6]), rng.choice([1, 1, 2])
    return SpatialGpu(f"g{at}", units, rng.choice([units, max(granularity, units - 1)]), 1000, 10, granularity,
               rng.choice([1, 2]), f"k{at}")  # fmt: skip


def task(rng: random.Random, at: int, gpus: tuple[SpatialGpu, ...], period: int, tasks: int) -> SpatialTask:
    kernels = [kernel(rng, one.units, 1.6 * period / tasks) for one in gpus]
    if len(gpus) > 1 and rng.random() < 0.3:
        kernels[rng.randrange(len(gpus))] = None
    deadline = max(1, period - rng.choice([0, 0, 1, 2]))
    return SpatialTask(f"t{at}", period, deadline, tuple(kernels), rng.choice([0, 0, rng.randrange(period)]))


def kernel(rng: random.Random, units: int, most: float) -> PoweredKernel | None:
    worst = [rng.randint(0, max(1, int(most))) for _ in range(units)]
    worst = sorted(worst, reverse=True) if rng.random() < 0.6 else worst
    best = tuple(rng.choice([time, time, 0, time // 2]) for time in worst)
    times = Kernel.table(worst, best)
    return PoweredKernel(times, rng.randint(11, 50), rng.choice([0, 0, 1]), rng.choice([0, 0, 1, 2]))


def arrivals(rng: random.Random, system: SpatialSystem) -> list[tuple[int, int, int]]:
    """Releases, tasks and lengths of a dozen jobs of each task, sporadic or periodic, in order of time."""
    jobs, sporadic, units = [], rng.random() < 0.5, system.gpus[0].whole
    for index, one in enumerate(system.tasks):
        at, own = rng.choice([0, 1, rng.randrange(one.period)]), one.on(0)
        for _ in range(12):
            time = own.times.row(units)
            least = time.best if sporadic else time.worst
            length = rng.randint(min(least, time.worst), time.worst)
            jobs.append((at, index, own.copy_in + length + own.copy_out))
            at += one.period + (rng.choice([0, 0, 1, 3]) if sporadic else 0)
    return sorted(jobs)


def responses(jobs: list[tuple[int, int, int]], system: SpatialSystem, policy: str) -> dict[int, int]:
    """The longest response of each task if one job after the other executes to its end."""
    now, waiting, longest = 0, list[tuple[int, int, int]](), defaultdict[int, int](int)
    while jobs or waiting:
        now = now if waiting else max(now, jobs[0][0])
        while jobs and jobs[0][0] <= now:
            waiting.append(jobs.pop(0))
        first = min(waiting, key=lambda one: (system.tasks[one[1]].period if policy == "rm" else 0, one[0], one[1]))
        waiting.remove(first)
        now += first[2]
        longest[first[1]] = max(longest[first[1]], now - first[0])
    return longest


@pytest.mark.parametrize("policy", ["rm", "fcfs"])
def test_no_schedule_exceeds_a_bound(policy: str) -> None:
    reached = 0
    for rng, system in systems(f"bounds {policy}", 120, 1):
        bound = energy_bounds(prepare_tables(system, POLICIES[policy]))
        assert bound is not None
        for _ in range(5):
            for index, seen in responses(arrivals(rng, system), system, policy).items():
                most = bound[index]
                assert most is None or seen <= most, (system, index)
                reached += seen == most
    assert reached > 100  # the bounds are exact where nothing is rounded

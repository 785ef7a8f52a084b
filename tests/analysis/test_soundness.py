"""Bounds are claims: small random tasksets are simulated, and no response time may exceed a sound bound."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest
from effort import tries
from random_tasksets import with_random_modes, with_random_partitions, with_random_slices

from analysis.model import MS, CpuSegment, GpuSegment, Platform, Segment, Span, Task, Taskset
from analysis.papers import registry
from analysis.simulation.simulate import Options, worst_over_offsets

SOUND = [name for name, test in registry.TESTS.items() if test.sound and not test.assigns]
UNSOUND = [name for name, test in registry.TESTS.items() if not test.sound]


def span(rng: random.Random, worst: float) -> Span:
    ns = int(worst * MS)
    return Span(ns, int(ns * rng.choice([0, 0.5, 0.8, 1])))


def random_task(rng: random.Random, index: int, cpus: int, priority: int) -> Task:
    period = rng.choice([10, 15, 20, 30, 40, 60, 100])
    count = rng.randint(1, 3)
    part = period * rng.uniform(0.05, 0.5) / count
    segments: list[Segment] = []
    for _ in range(count):
        if rng.random() < 0.45:
            segments.append(CpuSegment(span(rng, part)))
        else:
            misc = part * rng.choice([0, 0.1, 0.5, 0.9])
            segments.append(GpuSegment(span(rng, misc), span(rng, part - misc)))
    return Task(f"t{index}", rng.randrange(cpus), priority, period * MS, period * MS, tuple(segments))


def random_taskset(rng: random.Random) -> Taskset:
    cpus, count = rng.choice([1, 2, 3]), rng.randint(2, 7)
    priorities = rng.sample(range(1, count + 1), count)
    tasks = tuple(
        random_task(rng, i, cpus, priorities[i] if rng.random() < 0.9 else 0) for i in range(count)
    )
    epsilon = rng.choice([0, 0.05, 0.3])
    theta = epsilon * rng.choice([0, 0.5, 1])
    slice_ = rng.choice([0.5, 1.024])
    return Taskset(Platform(cpus, int((epsilon - theta) * MS), int(theta * MS), int(slice_ * MS)), tasks)


def exceeded(name: str, seed: int, tasksets: int) -> Iterator[bool]:
    """Of each bound that is checked, whether it was exceeded."""
    test, rng = registry.find(name), random.Random(seed)
    for _ in range(tasksets):
        system = random_taskset(rng)
        if test.waiting is None:
            system = with_random_modes(system, rng)
        if test.sharing:
            system = with_random_slices(system, rng, test.sharing)
        if test.partitions:
            system = with_random_partitions(system, rng)
        bounds = test.run(system)
        if not bounds.schedulable:
            continue
        for form, execution in product(test.forms, ("worst", "random")):
            late = execution == "random" and not test.periodic
            options = Options(
                test.policy, test.waiting, execution, late, 600 * MS, test.poll, seed=rng.getrandbits(60), form=form
            )
            seen = worst_over_offsets(system, options, 10)
            for entry in system.real_time:
                bound = bounds.wcrt(entry.name)
                assert bound is not None
                yield seen.tasks[entry.name].worst > bound


@pytest.mark.parametrize("name", SOUND)
def test_no_sound_bound_is_exceeded(name: str) -> None:
    checked = list(exceeded(name, seed=2024, tasksets=tries(250, 80)))
    assert len(checked) > tries(250, 80) // 2
    assert not any(checked)


@pytest.mark.parametrize("name", UNSOUND)
def test_the_attack_breaks_what_is_marked_unsound(name: str) -> None:
    """The attack can break a bound, so that it says something about the bounds that it does not break."""
    assert any(exceeded(name, seed=2024, tasksets=250))

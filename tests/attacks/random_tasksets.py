# SPDX-License-Identifier: GPL-2.0
"""Tasksets to attack bounds with: small and of every kind, unlike those of the papers' evaluations."""

from __future__ import annotations

import random
from dataclasses import replace

from analysis.model import (
    MS,
    US,
    CpuSegment,
    GpuSegment,
    Partition,
    Platform,
    Segment,
    Sharing,
    Span,
    Task,
    Taskset,
    Waiting,
)

DRAWN_PERIODS = (5, 8, 10, 12, 15, 20, 30, 40, 60, 100)


def random_taskset(rng: random.Random) -> Taskset:
    """Two to seven tasks on up to three CPUs, light enough that about half of them pass a typical test.

    In some the least urgent task has segments that outlast several periods of the others.
    """
    cpus, count = rng.choice([1, 2, 2, 3]), rng.randint(2, 7)
    priorities = rng.sample(range(1, count + 1), count)
    if rng.random() < 0.1:
        priorities[0] = priorities[-1]
    load = rng.uniform(0.2, 1.8) / count
    tasks = tuple(
        _random_task(rng, i, cpus, priorities[i] if rng.random() < 0.93 else 0, load) for i in range(count)
    )
    if rng.random() < 0.2:
        last = min(tasks, key=lambda t: t.priority)
        segments = tuple(_long_segment(rng) for _ in range(rng.randint(1, 3)))
        long = replace(last, period=200 * MS, deadline=200 * MS, segments=segments)
        tasks = tuple(long if t is last else t for t in tasks)
    epsilon = rng.choice([0, 0.02, 0.1, 0.4])
    theta = epsilon * rng.choice([0, 0.5, 1])
    platform = Platform(
        cpus, _ns(epsilon - theta), _ns(theta), _ns(rng.choice([0.2, 0.5, 1.024]))
    )
    return Taskset(platform, tasks)


def with_random_modes(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset with a random waiting mode for each task."""
    return replace(taskset, tasks=tuple(replace(t, waiting=rng.choice(list(Waiting))) for t in taskset))


def with_random_slices(taskset: Taskset, rng: random.Random, sharing: Sharing) -> Taskset:
    """The taskset with random slices and levels of TSGs, some shared by several tasks, in that order."""
    homes = [
        Partition(
            name=f"p{index}", slice=rng.choice([None, 96, 128, 200, 248, 512, 1024, 2000]),
            interleave=rng.choice([None, "low", "medium", "high"]), shared=rng.choice([None, None, sharing]),
        )
        for index in range(rng.randint(1, len(taskset)))
    ]  # fmt: skip
    homes = [replace(home, slice=home.slice and home.slice * US) for home in homes]
    homes = [home if home.in_time else replace(home, interleave="low") for home in homes]
    tasks = tuple(replace(t, partition=rng.choice([None, *homes])) for t in taskset)
    return replace(taskset, tasks=tasks, partitions=tuple(homes))


def with_random_partitions(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset with each GPU-using task in one of up to three partitions, some of which have update costs.

    In half of them few tasks keep their CPU's order on the GPU across partitions; in many, costs are a large part.
    """
    costs = [None, None, 0, 20 * US, 400 * US, MS]
    homes = [
        Partition(4, name=f"p{index}", alpha=rng.choice(costs), theta=rng.choice(costs[:4]))
        for index in range(rng.choice([2, 2, 3]))
    ]
    tasks = tuple(replace(t, partition=rng.choice(homes)) if t.uses_gpu else t for t in taskset)
    if rng.random() < 0.5:
        tasks = tuple(_reordered(t, rng) for t in tasks)
    platform = replace(taskset.platform, compute_units=4 * len(homes), policy="segment")
    return replace(taskset, platform=platform, tasks=tasks, partitions=tuple(homes))


def _reordered(task: Task, rng: random.Random) -> Task:
    """The task with a GPU priority of its partition's range: the order within a partition is that of CPUs."""
    if task.best_effort or task.partition is None:
        return task
    offset = {"p0": 0, "p1": 30, "p2": 60}[task.partition.name or ""]
    return replace(task, gpu_priority=task.priority + (offset if rng.random() < 0.9 else rng.choice([0, 30, 60])))


def _random_task(rng: random.Random, index: int, cpus: int, priority: int, load: float) -> Task:
    period, count = rng.choice(DRAWN_PERIODS), rng.randint(1, 4)
    part = period * load * rng.uniform(0.1, 1.5) / count
    segments: list[Segment] = []
    for _ in range(count):
        length = part * rng.choice([0.1, 1, 1, 1.5])
        if rng.random() < 0.5:
            segments.append(CpuSegment(_span(rng, length)))
        else:
            misc = length * rng.choice([0, 0.1, 0.5, 0.9])
            segments.append(GpuSegment(_span(rng, misc), _span(rng, length - misc)))
    deadline = period if rng.random() < 0.7 else round(period * rng.uniform(0.5, 1), 1)
    return Task(f"t{index}", rng.randrange(cpus), priority, period * MS, _ns(deadline), tuple(segments))


def _long_segment(rng: random.Random) -> Segment:
    span = _span(rng, rng.uniform(1, 25))
    return CpuSegment(span) if rng.random() < 0.5 else GpuSegment(Span.exactly(0), span)


def _ns(ms: float) -> int:
    return round(ms * MS)


def _span(rng: random.Random, ms: float) -> Span:
    worst = _ns(ms)
    return Span(worst, int(worst * rng.choice([0, 0.5, 0.8, 1])))

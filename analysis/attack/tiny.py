# SPDX-License-Identifier: GPL-2.0
"""Tasksets so small that every schedule of them can be looked at: whole numbers of ms, few of them."""

from __future__ import annotations

import random
from dataclasses import replace

from analysis.attack.tasksets import with_random_modes
from analysis.model import MS, CpuSegment, GpuSegment, Partition, Platform, Segment, Sharing, Span, Task, Taskset
from analysis.model.platform import YIELD, Yield
from analysis.rta import Test

#: Slices and interleave levels that TSGs can have.
SLICES, LEVELS = (None, MS, 2 * MS), (None, "low", "medium", "high")


def tiny(rng: random.Random, longest: int = 9, empty: bool = True) -> Taskset:
    """Two or three tasks on one or two CPUs, with periods of up to ``longest`` ms; ``empty``: GPU segments may be."""
    count, cpus = rng.choice([2, 2, 3]), rng.choice([1, 2, 2])
    priorities = rng.sample(range(1, count + 1), count)
    if rng.random() < 0.1:
        priorities[0] = priorities[-1]
    if rng.random() < 0.1:
        priorities[-1] = 0
    platform = Platform(cpus, rng.choice([0, 0, 1]) * MS, rng.choice([0, 0, 0, 1]) * MS, MS)
    tasks = tuple(_task(rng, f"t{i}", rng.randrange(cpus), priorities[i], longest, empty) for i in range(count))
    return Taskset(platform, tasks)


def tiny_for(test: Test, rng: random.Random, longest: int = 9, empty: bool = True) -> Taskset:
    """A tiny taskset of the kind that a test is about."""
    taskset = tiny(rng, longest, empty)
    if test.waiting is None:
        taskset = with_random_modes(taskset, rng)
    if test.any_order and rng.random() < 0.3:
        taskset = _reordered(taskset, rng)
    if test.sharing:
        taskset = _in_turns(taskset, rng, test.sharing)
    if test.partitions:
        taskset = _partitioned(taskset, rng)
    return taskset


def _task(rng: random.Random, name: str, cpu: int, priority: int, longest: int, empty: bool) -> Task:
    period = rng.randint(3, longest)
    most = max(1, period // 3)
    segments: list[Segment] = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.45:
            segments.append(CpuSegment(_span(rng, rng.randint(1, most))))
        else:
            segments.append(GpuSegment(_span(rng, rng.choice([0, 0, 1])), _span(rng, rng.randint(not empty, most))))
    deadline = period if rng.random() < 0.8 else rng.randint(2, period)
    return Task(name, cpu, priority, period * MS, deadline * MS, tuple(segments))


def _span(rng: random.Random, worst: int) -> Span:
    return Span(worst * MS, rng.choice([worst, worst, worst, 0]) * MS)


def _reordered(taskset: Taskset, rng: random.Random) -> Taskset:
    """GPU priorities in a random order."""
    order = rng.sample(range(1, len(taskset) + 1), len(taskset))
    tasks = (t if t.best_effort else replace(t, gpu_priority=order[i]) for i, t in enumerate(taskset))
    return replace(taskset, tasks=tuple(tasks))


def yielding(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset whose segments begin by yield, where a decision and an order take nothing or the longest time."""
    groups, theta = sum(t.best_effort and t.uses_gpu for t in taskset), taskset.platform.theta
    decision, call = (rng.choice([0, 0, 1]) * MS for _ in range(2))
    calls = sum(t.uses_gpu for t in taskset) + 1
    platform = replace(
        taskset.platform, alpha=theta + 3 * (decision + calls * call), begin=YIELD, policy="segment",
        yields=Yield(MS, groups, decision, 0),
    )  # fmt: skip
    tasks = (replace(t, segments=tuple(
        replace(s, ready=rng.choice([None, 1, 2])) if isinstance(s, GpuSegment) else s for s in t.segments
    )) for t in taskset)  # fmt: skip
    return replace(taskset, platform=platform, tasks=tuple(tasks))


def _in_turns(taskset: Taskset, rng: random.Random, sharing: Sharing) -> Taskset:
    homes = [
        Partition(name=f"p{i}", slice=rng.choice(SLICES), interleave=rng.choice(LEVELS),
                  shared=rng.choice([None, sharing]))
        for i in range(2)
    ]  # fmt: skip
    homes = [home if home.in_time else replace(home, interleave="low") for home in homes]
    tasks = tuple(replace(t, partition=rng.choice([None, *homes])) for t in taskset)
    return replace(taskset, tasks=tasks, partitions=tuple(homes))


def _partitioned(taskset: Taskset, rng: random.Random) -> Taskset:
    homes = [Partition(4, name=f"p{i}", alpha=rng.choice([None, 0, MS]), theta=rng.choice([None, 0])) for i in range(2)]
    tasks = tuple(replace(t, partition=rng.choice(homes)) if t.uses_gpu else t for t in taskset)
    platform = replace(taskset.platform, compute_units=8, policy="segment")
    return replace(taskset, platform=platform, tasks=tasks, partitions=tuple(homes))

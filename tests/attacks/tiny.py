# SPDX-License-Identifier: GPL-2.0
"""Tasksets so small that every schedule of them can be looked at: whole numbers of ms, few of them."""

from __future__ import annotations

import random
from dataclasses import replace

from kinds import held_by_workers
from random_tasksets import with_random_modes

from analysis.model import (
    MS,
    CpuSegment,
    Fork,
    GpuSegment,
    Partition,
    Platform,
    Segment,
    Sharing,
    Span,
    Task,
    Taskset,
)
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


def tiny_forks(rng: random.Random) -> Taskset:
    """A task with up to three workers beside up to two tasks, or two tasks with workers, in whole ms."""
    cpus, count = rng.choice([1, 2, 2, 3]), rng.choice([1, 2, 2, 3, 3])
    platform = Platform(cpus, rng.choice([0, 0, 1]) * MS, rng.choice([0, 0, 0, 1]) * MS, rng.choice([1, 1, 2]) * MS)
    two = rng.random() < 0.25
    others = 0 if two else rng.choice([1, 1, 2])
    priorities = rng.sample(range(1, 20), 10)
    if rng.random() < 0.1:
        priorities[2] = priorities[1]
    tasks: list[Task] = []
    forks: list[Fork] = []
    for number in range(1 + two):
        made, fork = _group(rng, f"p{number}", cpus, 2 if two else count, priorities)
        tasks += made
        forks.append(fork)
    for number in range(others):
        period = rng.randint(4, 10)
        segments = _segments(rng, rng.choice([1, 1, 2]), max(1, period // 3))
        own = priorities.pop(0)
        tasks.append(Task(f"t{number}", rng.randrange(cpus), own, period * MS, period * MS, segments))
    if rng.random() < 0.4:  # GPU priorities in another order than those of CPUs
        order = rng.sample(range(1, 20), len(tasks))
        given = {name: order[number] for number, fork in enumerate(forks) for name in fork.members}
        given |= {t.name: order[i] for i, t in enumerate(tasks) if t.uses_gpu and t.name not in given}
        tasks = [replace(t, gpu_priority=given.get(t.name)) for t in tasks]
    if rng.random() < 0.3:  # others at the level of a group
        level = tasks[0].segment_priority
        members = {name for fork in forks for name in fork.members}
        tasks = [replace(t, gpu_priority=level) if t.uses_gpu and t.name not in members else t for t in tasks]
    if rng.random() < 0.3:
        tasks = _spiked(rng, tasks)
    return Taskset(platform, tuple(tasks), forks=tuple(forks))


def _spiked(rng: random.Random, tasks: list[Task]) -> list[Task]:
    """The tasks with three times the periods, and some segments that take much longer on their CPUs."""

    def spiked(segment: Segment) -> Segment:
        if rng.random() < 0.6:
            return segment
        long = Span.exactly(rng.randint(4, 9) * MS)
        return replace(segment, time=long) if isinstance(segment, CpuSegment) else replace(segment, misc=long)

    return [
        replace(t, period=3 * t.period, deadline=3 * t.deadline, segments=tuple(map(spiked, t.segments)))
        for t in tasks
    ]


def _group(
    rng: random.Random, name: str, cpus: int, workers: int, priorities: list[int]
) -> tuple[list[Task], Fork]:  # fmt: skip
    """A task with so many workers."""
    period, level = rng.randint(10, 18) * MS, rng.randint(1, 19)
    before = _segments(rng, rng.choice([0, 1, 1, 2]), 1)
    after = _segments(rng, rng.choice([0, 1, 1, 2]), 1)
    names = [f"{name}w{number}" for number in range(workers)]
    made = [Task(name, rng.randrange(cpus), priorities.pop(0), period, period, before + after, gpu_priority=level)]
    for one in names:
        segments = _segments(rng, rng.choice([1, 1, 2]), 2)
        made.append(Task(one, rng.randrange(cpus), priorities.pop(0), period, period, segments, gpu_priority=level))
    return made, Fork(name, len(before), tuple(names))


def _segments(rng: random.Random, count: int, most: int) -> tuple[Segment, ...]:
    found: list[Segment] = []
    for _ in range(count):
        if rng.random() < 0.4:
            found.append(CpuSegment(_span(rng, rng.randint(1, most))))
        else:
            found.append(GpuSegment(_span(rng, rng.choice([0, 0, 1])), _span(rng, rng.randint(0, most))))
    return tuple(found)


def tiny_holds(rng: random.Random) -> Taskset:
    """A task or two that hold a segment while one to three workers execute, beside up to two tasks; few states each."""
    cpus, two = rng.choice([1, 2, 2, 3]), rng.random() < 0.25
    platform = Platform(cpus, rng.choice([0, 0, 1]) * MS, rng.choice([0, 0, 0, 1]) * MS, rng.choice([1, 2]) * MS)
    priorities, level = rng.sample(range(1, 30), 12), rng.randint(1, 9)
    tasks: list[Task] = []
    forks: list[Fork] = []

    def made(name: str, own: int, period: int, most: int, counts: list[int]) -> Task:
        segments = _segments(rng, rng.choice(counts), most)
        return Task(
            name, rng.randrange(cpus), priorities.pop(), period * MS, period * MS, segments, gpu_priority=own
        )  # fmt: skip

    for number in range(1 + two):
        own, period = rng.choice([level, rng.randint(1, 9)]), rng.randint(5, 9 + 3 * two)
        names = [f"p{number}w{worker}" for worker in range(rng.choice([1, 1, 2, 2, 3]))]
        tasks.append(made(f"p{number}", own, period, 1, [0, 0, 0, 1, 2]))
        forks.append(Fork(f"p{number}", rng.randint(0, len(tasks[-1].segments)), tuple(names)))
        tasks += [made(name, own, period, rng.choice([1, 2, 3]), [1, 1, 2]) for name in names]
    for number in range(0 if two else rng.choice([1, 1, 2])):
        own = rng.choice([level, rng.randint(1, 9), rng.randint(1, 9)])
        tasks.append(made(f"t{number}", own, rng.choice([4, 5, 6, 8, 12]), rng.choice([1, 2, 3]), [1, 1, 2]))
    return held_by_workers(Taskset(platform, tuple(tasks), forks=tuple(forks)))

# SPDX-License-Identifier: GPL-2.0
"""Tasksets whose tasks have workers, to attack bounds with."""

from __future__ import annotations

import random
from dataclasses import replace

from analysis.model import MS, CpuSegment, Fork, GpuSegment, Platform, Segment, Span, Task, Taskset


def with_random_workers(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset, one or two of whose real-time tasks have others as workers, all of them with its period."""
    left = [t.name for t in taskset.real_time]
    rng.shuffle(left)
    forks, made = [], {t.name: t for t in taskset}
    for _ in range(rng.choice([1, 1, 2])):
        names, left = left[: rng.randint(2, 4)], left[4:]
        if len(names) < 2:
            break
        parent = made[names[0]]
        after = rng.randint(0, len(parent.segments))
        forks.append(Fork(parent.name, after, tuple(names[1:])))
        for name in names:
            made[name] = replace(
                made[name], period=parent.period, deadline=parent.deadline, gpu_priority=parent.segment_priority
            )
    return replace(taskset, tasks=tuple(made[t.name] for t in taskset), forks=tuple(forks))


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


def _span(rng: random.Random, worst: int) -> Span:
    return Span(worst * MS, rng.choice([worst, worst, worst, 0]) * MS)


def held_by_workers(taskset: Taskset) -> Taskset:
    """The taskset in which each task with workers is inside a segment while these execute."""
    at = {fork.task: fork.after for fork in taskset.forks}
    whole = GpuSegment(Span(0, 0), Span(0, 0))
    tasks = tuple(
        replace(t, segments=(*t.segments[: at[t.name]], whole, *t.segments[at[t.name] :])) if t.name in at else t
        for t in taskset
    )
    return replace(taskset, tasks=tasks, forks=tuple(replace(fork, hold=True) for fork in taskset.forks))


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

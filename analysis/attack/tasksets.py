# SPDX-License-Identifier: GPL-2.0
"""Tasksets to attack bounds with: small and of every kind, unlike those of the papers' evaluations."""

from __future__ import annotations

import random
from dataclasses import replace

from analysis.model import (
    MS,
    US,
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
    Waiting,
)
from analysis.model.callbacks import Callback, Order, Thread
from analysis.model.platform import YIELD, Yield

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


def with_random_yield(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset where segments begin by yield, beside up to three processes that keep the GPU busy.

    In half of them one real-time task uses the GPU.  In some k is not known, in some orders take as long as if agents
    were late, in some they are nearly free.
    """
    only = rng.choice([*taskset.real_time, None]) if rng.random() < 0.7 else None
    own = tuple(_in_gaps(t, rng) if only in (None, t) or t.best_effort else _on_cpu(t) for t in taskset)
    tasks = (*own, *(_busy(f"b{i}", taskset.platform.cpus, rng) for i in range(rng.choice([0, 1, 1, 2, 3]))))
    groups = sum(t.best_effort and t.uses_gpu for t in tasks)
    theta, slice_ = (_ns(rng.choice(some)) for some in ([0, 0.05, 0.25], [0.002, 0.1, 0.5, 1]))
    alpha = theta + _ns(rng.choice([0, 0.05, 0.2, 1, 2, 30]) * rng.choice([0.2, 1]))
    found = Yield(slice_, groups, _ns(rng.choice([0, 0.02, 0.1, 0.5])), 0)
    platform = replace(taskset.platform, alpha=alpha, theta=theta, begin=YIELD, yields=found, policy="segment")
    return replace(taskset, platform=platform, tasks=tasks)


def _busy(name: str, cpus: int, rng: random.Random) -> Task:
    """Best effort that has work for the GPU nearly always."""
    period = rng.choice(DRAWN_PERIODS) * MS
    worst = int(period * rng.uniform(0.05, 1.2))
    work = GpuSegment(Span.exactly(0), Span(worst, worst // 2), ready=rng.choice([1, 3]))
    return Task(name, rng.randrange(cpus), 0, period, period, (work,))


def _in_gaps(task: Task, rng: random.Random) -> Task:
    """The task with segments that become ready several times, or nobody knows how often."""
    segments = (replace(s, ready=rng.choice([None, 1, 1, 2, 3, 5])) if isinstance(s, GpuSegment) else s
                for s in task.segments)  # fmt: skip
    return replace(task, segments=tuple(segments))


def _on_cpu(task: Task) -> Task:
    """The task without what it does on the GPU."""
    return replace(task, segments=tuple(CpuSegment(s.misc) if isinstance(s, GpuSegment) else s for s in task.segments))


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


def with_random_threads(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset with up to two threads in a random order, each of which serves up to four of its real-time tasks."""
    tasks = list(taskset)
    left = [t.name for t in taskset.real_time]
    rng.shuffle(left)
    for number in range(rng.choice([1, 1, 2])):
        names, left = left[: rng.randint(2, 4)], left[4:]
        tasks = _served(tasks, names, Thread(f"thread{number}", rng.choice(list(Order))), rng)
    return replace(taskset, tasks=tuple(tasks))


def _served(tasks: list[Task], names: list[str], thread: Thread, rng: random.Random) -> list[Task]:
    """The named tasks on one thread, which has the CPU and the priorities of the first."""
    first = next((t for t in tasks if t.name in names), None)
    timers = rng.randint(0, len(names))
    made = []
    for task in tasks:
        if task.name not in names or first is None:
            made.append(task)
            continue
        rank = names.index(task.name)
        timer = rank < timers if thread.order is Order.LIVE_TIMERS else rng.random() < 0.5
        made.append(replace(
            task, cpu=first.cpu, priority=first.priority, gpu_priority=first.gpu_priority, partition=first.partition,
            thread=thread, rank=rank, callback=Callback.TIMER if timer else Callback.SUBSCRIPTION,
        ))  # fmt: skip
    return made


def with_random_pending(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset with release jitter and deadlines beyond the period for some of its tasks, in whole ms."""
    return replace(taskset, tasks=tuple(_pending(task, rng) for task in taskset))


def with_latency(taskset: Taskset, latency: int) -> Taskset:
    """The taskset on a platform whose wake-ups take up to ``latency`` ns."""
    return replace(taskset, platform=replace(taskset.platform, cpu_latency=latency))


def _pending(task: Task, rng: random.Random) -> Task:
    if rng.random() < 0.35:
        return task
    period = task.period // MS
    most = rng.choice([0, period // 3, period // 2, period, 2 * period])
    deadline = task.deadline if rng.random() < 0.3 else rng.choice([2, 3, 4]) * task.period
    return replace(task, jitter=rng.randint(0, most) * MS, deadline=deadline)


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


def held_by_workers(taskset: Taskset) -> Taskset:
    """The taskset in which each task with workers is inside a segment while these execute."""
    at = {fork.task: fork.after for fork in taskset.forks}
    whole = GpuSegment(Span(0, 0), Span(0, 0))
    tasks = tuple(
        replace(t, segments=(*t.segments[: at[t.name]], whole, *t.segments[at[t.name] :])) if t.name in at else t
        for t in taskset
    )
    return replace(taskset, tasks=tasks, forks=tuple(replace(fork, hold=True) for fork in taskset.forks))

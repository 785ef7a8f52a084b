# SPDX-License-Identifier: GPL-2.0
"""Tasksets of which several jobs of a task can be pending, or wake-ups take time, to attack bounds with."""

from __future__ import annotations

import random
from dataclasses import replace

from analysis.model import MS, Protocol, Resource, Section, Task, Taskset


def with_random_pending(taskset: Taskset, rng: random.Random) -> Taskset:
    """The taskset with release jitter and deadlines beyond the period for some of its tasks, in whole ms."""
    return replace(taskset, tasks=tuple(_pending(task, rng) for task in taskset))


def with_latency(taskset: Taskset, latency: int) -> Taskset:
    """The taskset on a platform whose wake-ups take up to ``latency`` ns."""
    return replace(taskset, platform=replace(taskset.platform, cpu_latency=latency))


def with_random_resources(taskset: Taskset, rng: random.Random, unit: int = MS) -> Taskset:
    """The taskset with up to two resources, whose sections are in CPU segments of some of its tasks; whole ``unit``."""
    room = {t.name: [s.time.worst // unit for s in t.cpu_segments if s.time.worst >= unit] for t in taskset}
    found: list[Resource] = []
    for name in ("r", "q")[: rng.choice([1, 1, 2])]:
        protocol = rng.choice(list(Protocol))
        cpu = rng.choice([t.cpu for t in taskset])
        sections = []
        for task in taskset:
            free = room[task.name]
            if free and rng.random() < 0.9 and (protocol is Protocol.SPIN or task.cpu == cpu):
                at = rng.randrange(len(free))
                length = rng.randint(1, free[at])
                free[at] -= length
                room[task.name] = [one for one in free if one]
                sections.append(Section(task.name, length * unit))
        if sections:
            found.append(Resource(name, protocol, tuple(sections)))
    return replace(taskset, resources=tuple(found))


def _pending(task: Task, rng: random.Random) -> Task:
    if rng.random() < 0.35:
        return task
    period = task.period // MS
    most = rng.choice([0, period // 3, period // 2, period, 2 * period])
    deadline = task.deadline if rng.random() < 0.3 else rng.choice([2, 3, 4]) * task.period
    return replace(task, jitter=rng.randint(0, most) * MS, deadline=deadline)

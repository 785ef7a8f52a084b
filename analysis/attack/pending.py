# SPDX-License-Identifier: GPL-2.0
"""Tasksets of which several jobs of a task can be pending, or wake-ups take time, to attack bounds with."""

from __future__ import annotations

import random
from dataclasses import replace

from analysis.model import MS, Task, Taskset


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

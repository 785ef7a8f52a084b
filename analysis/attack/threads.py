# SPDX-License-Identifier: GPL-2.0
"""Tasksets in which threads serve several tasks, to attack bounds with."""

from __future__ import annotations

import random
from dataclasses import replace

from analysis.model import Task, Taskset
from analysis.model.callbacks import Callback, Order, Thread


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

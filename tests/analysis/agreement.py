# SPDX-License-Identifier: GPL-2.0
"""Unusual random tasksets, and whether the compiled and the readable analyses agree on them."""

from __future__ import annotations

import random
from dataclasses import replace

from random_tasksets import with_random_modes

from analysis.answers import compiled
from analysis.model import MS, CpuSegment, GpuSegment, Platform, Segment, Span, Task, Taskset
from analysis.papers import registry
from analysis.rta.result import Bound, Verdict

COMPILED = [name for name, test in registry.TESTS.items() if test.compiled]


def random_taskset(rng: random.Random) -> Taskset:
    """Up to eight tasks on up to four CPUs: ties, best effort, late deadlines, empty segments, odd GPU priorities."""
    cpus, count = rng.randint(1, 4), rng.randint(0, 8)
    levels = rng.choice([count, count, 3])
    tasks = [_task(rng, index, rng.randrange(cpus), levels) for index in range(count)]
    if rng.random() < 0.5:  # distinct priorities, as is usual
        order = rng.sample(range(1, count + 1), count)
        tasks = [t if t.best_effort else replace(t, priority=p) for t, p in zip(tasks, order, strict=True)]
    if rng.random() < 0.2:
        tasks = [replace(t, gpu_priority=rng.randint(0, 9)) for t in tasks]
    epsilon = rng.choice([0, 0.05, 0.3, 1])
    theta = epsilon * rng.choice([0, 0.2, 1])
    platform = Platform(cpus, _ns(epsilon - theta), _ns(theta), _ns(rng.choice([0.5, 1.024])))
    return with_random_modes(Taskset(platform, tuple(tasks)), rng)


def _task(rng: random.Random, index: int, cpu: int, levels: int) -> Task:
    period = rng.choice([5, 10, 15, 20, 30, 40, 60, 100, 500])
    part = period * rng.choice([0.02, 0.1, 0.3]) * rng.random()
    segments = tuple(_segment(rng, part) for _ in range(rng.randint(0, 4)))
    priority = rng.randint(1, levels) if levels and rng.random() < 0.9 else 0
    deadline = period * rng.choice([0.5, 1, 1, 1, 1.7])
    return Task(f"t{index}", cpu, priority, _ns(period), _ns(deadline), segments)


def _segment(rng: random.Random, part: float) -> Segment:
    if rng.random() < 0.5:
        return CpuSegment(_span(rng, part))
    misc = part * rng.choice([0, 0.1, 0.5, 1])
    return GpuSegment(_span(rng, misc), _span(rng, part - misc))


def _span(rng: random.Random, worst: float) -> Span:
    time = _ns(worst) if rng.random() < 0.9 else 0
    return Span(time, int(time * rng.choice([0, 0.5, 1])))


def _ns(ms: float) -> int:
    return round(ms * MS)


def disagreement(name: str, taskset: Taskset) -> str | None:
    """How the compiled verdicts of a test differ from the readable ones; None if they do not."""
    readable = registry.find(name).run(taskset)
    single = compiled.run_compiled(registry.find(name), taskset)
    for task, verdict in readable.verdicts.items():
        if not same(verdict, single.verdicts[task]):
            return f"{name}: {task}: {verdict} against {single.verdicts[task]}"
    test = registry.find(name)
    if compiled.passes(test, taskset) is not readable.schedulable:
        return f"{name}: {readable.schedulable} against {not readable.schedulable}"
    return None


def same(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts are equal: the same bound, or the same failure with reason and value reached."""
    if isinstance(one, Bound) and isinstance(other, Bound):
        return (one.task, one.wcrt, one.deadline) == (other.task, other.wcrt, other.deadline)
    return one == other

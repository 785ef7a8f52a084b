# SPDX-License-Identifier: GPL-2.0
"""The examples of the RTGPU analyses, whose values were computed by hand and by another program; times in ms."""

from __future__ import annotations

import random
from dataclasses import replace

from builders import cpu, ms

from analysis.model import Copy, CpuSegment, GpuSegment, Kernel, Platform, Segment, Span, Task, Taskset


def copy(length: float) -> Copy:
    return Copy(Span.exactly(ms(length)))


def kernel(work: float, alpha: int, overhead: float) -> Kernel:
    return Kernel(Span.exactly(ms(work)), ms(overhead), alpha)


def part(*parts: Copy | Kernel) -> GpuSegment:
    return GpuSegment(Span.exactly(0), Span.exactly(0), parts)


def task(name: str, priority: int, period: float, deadline: float, *segments: Segment, core: int = 0) -> Task:
    return Task(name, core, priority, ms(period), ms(deadline), segments)


def span(best: float, worst: float) -> Span:
    return Span(ms(worst), ms(best))


#: 9.2
EXAMPLE_A = Taskset(Platform(1), (
    task("t1", 2, 20, 20, cpu(2), part(copy(1), kernel(8, 1500, 0), copy(1)), cpu(2)),
    task("t2", 1, 40, 40, cpu(3), part(copy(2), kernel(12, 1500, 1), copy(2)), cpu(3)),
))  # fmt: skip

#: 9.3.  On three units lengths of kernels are thirds; ``slowed`` makes them whole.
EXAMPLE_B = Taskset(Platform(1), (
    task("t1", 3, 40, 25, cpu(1), part(copy(2), kernel(16, 1800, 1), copy(2)), cpu(1)),
    task("t2", 2, 90, 80, cpu(2), part(copy(3), kernel(20, 1700, 2), copy(1)), cpu(3),
         part(copy(1), kernel(10, 1700, 1), copy(2)), cpu(1)),
    task("t3", 1, 160, 90, CpuSegment(span(2, 4)),
         part(Copy(span(2, 4)), Kernel(span(20, 60), ms(3), 1450), copy(4)), CpuSegment(span(2, 4))),
))  # fmt: skip
FEASIBLE_B = {
    (2, 1, 1), (2, 1, 2), (2, 1, 3), (2, 1, 4), (2, 2, 1), (2, 2, 2), (2, 2, 3), (2, 3, 1), (2, 3, 2), (3, 1, 1),
    (3, 1, 2), (3, 1, 3), (3, 2, 1), (3, 2, 2), (4, 1, 1), (4, 1, 2), (4, 2, 1), (5, 1, 1),
}  # fmt: skip



def slowed(taskset: Taskset, factor: int) -> Taskset:
    """The taskset with all times so many times as long."""

    def longer(span: Span) -> Span:
        return Span(span.worst * factor, span.best * factor)

    def one(segment: Segment) -> Segment:
        if isinstance(segment, CpuSegment):
            return CpuSegment(longer(segment.time))
        parts = [
            Copy(longer(p.time)) if isinstance(p, Copy) else Kernel(longer(p.work), p.overhead * factor, p.interleave)
            for p in segment.parts
        ]
        return part(*parts)

    return Taskset(taskset.platform, tuple(
        replace(t, period=t.period * factor, deadline=t.deadline * factor, segments=tuple(map(one, t.segments)))
        for t in taskset
    ))  # fmt: skip


#: 9.7
SHORTER = Taskset(Platform(1), (
    task("t1", 2, 40, 33, cpu(4), part(copy(3), Kernel(span(0, 4), times=(span(0, 4),))), cpu(3)),
    task("t2", 1, 40, 40, cpu(4)),
))  # fmt: skip


def random_span(rng: random.Random, most: int) -> Span:
    worst = rng.randint(0, most) * rng.choice([1, 1, 1, 0])
    return Span(worst, int(worst * rng.choice([0, 0.5, 1, 1, rng.random()])))


def random_parts(rng: random.Random, most: int, table: bool) -> GpuSegment:
    copies = rng.choice([1, 2, 2, 0])
    parts: list[Copy | Kernel] = [Copy(random_span(rng, most)) for _ in range(copies)]
    work = random_span(rng, 4 * most)
    if table and rng.random() < 0.5:
        times = tuple(random_span(rng, 2 * most) for _ in range(rng.randint(1, 5)))
        one = Kernel(work, times=times)
    else:
        one = Kernel(work, rng.randint(0, work.worst), rng.choice([1000, 1450, 1700, 1800]))
    parts.insert(rng.randint(0, copies) if rng.random() < 0.3 else min(copies, 1), one)
    return GpuSegment(Span.exactly(0), Span.exactly(0), tuple(parts))


def random_taskset(
    rng: random.Random, most_tasks: int = 4, cpus: int = 1, table: bool = False, ties: bool = False
) -> Taskset:  # fmt: skip
    """A few tasks with small whole numbers, so that many bounds exist and meet edges."""
    tasks = []
    count = rng.randint(1, most_tasks)
    for index in range(count):
        segments: list[Segment] = []
        for _ in range(rng.randint(1, 3)):
            segments.append(CpuSegment(random_span(rng, 6)))
            if rng.random() < 0.7:
                segments.append(random_parts(rng, 4, table))
        if rng.random() < 0.7:
            segments.append(CpuSegment(random_span(rng, 6)))
        if rng.random() < 0.2:
            segments.reverse()
        period = rng.randint(20, 200)
        deadline = period if rng.random() < 0.5 else rng.randint(period // 2, period)
        priority = rng.randint(1, count) if ties else count - index
        tasks.append(Task(f"t{index}", rng.randrange(cpus), priority, period, deadline, tuple(segments)))
    return Taskset(Platform(cpus, compute_units=8), tuple(tasks))

# SPDX-License-Identifier: GPL-2.0
"""The examples of the RTGPU analyses, whose values were computed by hand and by another program; times in ms."""

from __future__ import annotations

from dataclasses import replace

from builders import cpu, ms

from analysis.model import Copy, CpuSegment, GpuSegment, Kernel, Platform, Segment, Span, Task, Taskset


def copy(length: float) -> Copy:
    return Copy(Span.exactly(ms(length)))


def kernel(work: float, alpha: int, overhead: float) -> Kernel:
    return Kernel(Span.exactly(ms(work)), ms(overhead), alpha)


def fixed(length: float) -> Kernel:
    """Time between two CPU segments that no unit shortens, as lemma 2.1 has suspension."""
    return Kernel(Span.exactly(ms(length)), times=(Span.exactly(ms(length)),))


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

# SPDX-License-Identifier: GPL-2.0
"""Random tasksets by table 1 of RTGPU (section 6.1).

Taskset i of a seed is always the same: its numbers are splitmix64 of the seed, i and their place.  All lengths are
whole ns, drawn uniformly.  Utilizations are drawn from (0, 1) and scaled to their sum, so one of them may exceed 1. A
deadline equals its period: the sum of all lengths over the utilization.  Priorities are deadline monotonic, on one CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.model import MS, Copy, CpuSegment, GpuSegment, Kernel, Platform, Segment, Span, Task, Taskset


@dataclass(frozen=True)
class Parameters:
    """Table 1.  Lengths are ranges in ns; ``segments``: M, CPU segments a job.

    ``copies``: 2 around each kernel, or 1 before it.  ``overhead``: GL in thousandths of GW.  ``interleave``: alpha in
    thousandths of every kernel.  ``best``: lower bounds in thousandths of the lengths; the paper has none, and with
    1000, segments always take their length.
    """

    tasks: int = 5
    segments: int = 5
    copies: int = 2
    cpu: tuple[int, int] = (MS, 20 * MS)
    copy: tuple[int, int] = (MS, 5 * MS)
    kernel: tuple[int, int] = (MS, 20 * MS)
    overhead: int = 120
    interleave: int = 1800
    utilization: float = 1.0
    units: int = 10
    best: int = 1000


#: Table 1 with the values that the experiments use unless they vary them.
TABLE = Parameters()

_GAMMA, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _units(seed: int, start: int, count: int, numbers: int) -> NDArray[np.float64]:
    """``numbers`` numbers in [0, 1) for each of these tasksets."""
    sets = np.arange(start, start + count, dtype=np.uint64)[:, None]
    base = _mixed(sets * np.uint64(_GAMMA) + np.uint64((seed * _GAMMA + 1) & _MASK))
    places = np.arange(1, numbers + 1, dtype=np.uint64)[None, :] * np.uint64(_GAMMA)
    drawn: NDArray[np.float64] = (_mixed(base + places) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return drawn


@dataclass(frozen=True)
class Drawn:
    """Lengths of tasksets, ns, the tasks most urgent first: arrays [taskset, task, segment]."""

    parameters: Parameters
    cpu: NDArray[np.int64]
    copy: NDArray[np.int64]
    kernel: NDArray[np.int64]
    period: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.period)

    def taskset(self, index: int) -> Taskset:
        """One taskset."""
        p = self.parameters
        tasks = tuple(
            Task(f"t{i}", 0, p.tasks - i, int(self.period[index, i]), int(self.period[index, i]), self._job(index, i))
            for i in range(p.tasks)
        )
        return Taskset(Platform(1, compute_units=p.units), tasks)

    def _job(self, index: int, task: int) -> tuple[Segment, ...]:
        p = self.parameters
        cpu, copy, kernel = (values[index, task].tolist() for values in (self.cpu, self.copy, self.kernel))
        segments: list[Segment] = []
        for i, length in enumerate(cpu):
            segments.append(CpuSegment(_span(length, p.best)))
            if i < len(kernel):
                copies = [Copy(_span(length, p.best)) for length in copy[i * p.copies : (i + 1) * p.copies]]
                one = Kernel(_span(kernel[i], p.best), _overhead(kernel[i], p), p.interleave)
                segments.append(GpuSegment(Span.exactly(0), Span.exactly(0), parts=(*copies[:1], one, *copies[1:])))
        return tuple(segments)


def _span(length: int, best: int) -> Span:
    return Span(length, length * best // 1000)


def _overhead(length: int, parameters: Parameters) -> int:
    return length * parameters.overhead // 1000


def draw(parameters: Parameters, seed: int, count: int, start: int = 0) -> Drawn:
    """Tasksets ``start`` to ``start + count - 1`` of a seed."""
    p = parameters
    shapes = (p.tasks, p.segments), (p.tasks, (p.segments - 1) * p.copies), (p.tasks, p.segments - 1)
    sizes = [tasks * segments for tasks, segments in shapes]
    drawn = _units(seed, start, count, sum(sizes) + p.tasks)
    lengths, at = [], 0
    for size, shape, (low, high) in zip(sizes, shapes, (p.cpu, p.copy, p.kernel), strict=True):
        part = drawn[:, at : at + size].reshape(count, *shape)
        lengths.append((low + part * (high - low + 1)).astype(np.int64))
        at += size
    share = np.maximum(drawn[:, at:], 2.0**-20)
    share *= p.utilization / share.sum(axis=1, keepdims=True)
    total = sum(values.sum(axis=2) for values in lengths)
    period = np.ceil(total / share).astype(np.int64)
    order = np.argsort(period, axis=1, kind="stable")
    cpu, copy, kernel = (np.take_along_axis(values, order[:, :, None], axis=1) for values in lengths)
    return Drawn(p, cpu, copy, kernel, np.take_along_axis(period, order, axis=1))

# SPDX-License-Identifier: GPL-2.0
"""Energy over a window in closed form (equations 2.2, 2.5, 3.2, 3.3); the simulator integrates power."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.energy.power import Energy, Execution
from analysis.model.energy import SpatialGpu


def closed_form(gpu: SpatialGpu, executions: Iterable[Execution], begin: int, end: int) -> Energy:
    """P^s (end - begin) + M p B + sum of m len (pd - p), split.

    B is the measure of the union of the kernels' intervals.  Proof: while the GPU is busy each unit costs p, and an
    active one pd - p more.
    """
    cut = ((max(one.start, begin), min(one.end, end), one) for one in executions)
    clipped = [(start, stop, one) for start, stop, one in cut if stop > start]
    busy = union((start, stop) for start, stop, _ in clipped)
    used = sum(one.units * (stop - start) for start, stop, one in clipped)
    dynamic = sum(one.units * (stop - start) * one.power for start, stop, one in clipped)
    return Energy(gpu.static * (end - begin), gpu.idle * (gpu.units * busy - used), dynamic)


def union(intervals: Iterable[tuple[int, int]]) -> int:
    """The measure of the union of intervals."""
    covered, reached = 0, None
    for start, stop in sorted(intervals):
        begin = start if reached is None else max(start, reached)
        if stop > begin:
            covered += stop - begin
            reached = stop
    return covered

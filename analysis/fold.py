# SPDX-License-Identifier: GPL-2.0
"""Copies and kernels as a GPU segment, for analyses of a GPU that tasks share in time."""

from __future__ import annotations

from analysis.model import Copy, GpuSegment, Kernel, Span
from analysis.rtgpu import kernel


def whole_gpu(parts: tuple[Copy | Kernel, ...], units: int) -> GpuSegment:
    """The GPU segment of copies and kernels that have all ``units`` of the GPU to themselves, without misc part.

    Copies count as GPU work, as if they could be preempted like it.  A copy cannot: tests make the longest one a
    non-preemptive region (analysis.rta.regions.whole_segments).
    """
    best = worst = 0
    for part in parts:
        time = part.time if isinstance(part, Copy) else kernel.best_of(part, units)
        best, worst = best + time.best, worst + time.worst
    return GpuSegment(Span.exactly(0), Span(worst, min(best, worst)), parts=parts)

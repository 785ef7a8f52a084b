# SPDX-License-Identifier: GPL-2.0
"""Non-preemptive regions: a preemption of the GPU must wait for the longest thread block or copy chunk."""

from __future__ import annotations

from dataclasses import replace

from analysis.model import Taskset


def with_region(taskset: Taskset, longest: int) -> Taskset:
    """The taskset on a GPU that finishes up to ``longest`` ns of work before it leaves a context.

    Every context switch then takes theta + ``longest`` instead of theta (readings, "Non-preemptive regions").  Raises
    ValueError if ``longest`` is negative.
    """
    if longest < 0:
        raise ValueError(f"a region of {longest} ns cannot be")
    platform = taskset.platform
    return replace(taskset, platform=replace(platform, theta=platform.theta + longest))

# SPDX-License-Identifier: GPL-2.0
"""The energy-optimal number of units, the preferred GPUs, and both utilizations (definitions 3, 10 and 11)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from analysis.model.energy import PoweredKernel, SpatialGpu, SpatialSystem, SpatialTask


def active_energy(kernel: PoweredKernel, gpu: SpatialGpu, units: int) -> int:
    """A(m) = e(m) (m pd + (M - m) p), fJ: the energy that a job alone on the GPU adds to the static energy."""
    return kernel.time(units) * (units * kernel.power + (gpu.units - units) * gpu.idle)


@lru_cache(maxsize=4096)
def best_units(kernel: PoweredKernel, gpu: SpatialGpu, measured: bool = False) -> int:
    """m^opt: the allowed count with the least active energy, modelled or measured; among equals the largest."""
    return min(gpu.counts, key=lambda units: (_alone(kernel, gpu, units, measured), -units))


def _alone(kernel: PoweredKernel, gpu: SpatialGpu, units: int, measured: bool) -> int:
    return kernel.measured[units - 1] if measured else active_energy(kernel, gpu, units)


def least_energy(kernel: PoweredKernel, gpu: SpatialGpu, measured: bool = False) -> int:
    """A(m^opt), fJ."""
    return _alone(kernel, gpu, best_units(kernel, gpu, measured), measured)


def preference(system: SpatialSystem, task: SpatialTask, measured: bool = False) -> tuple[int, ...]:
    """Pi: the GPUs that can run the task by increasing A(m^opt), ties by index (definition 11, corrected)."""
    return tuple(sorted(task.places, key=lambda k: (least_energy(task.on(k), system.gpus[k], measured), k)))


@lru_cache(maxsize=4096)
def _sum(kernel: PoweredKernel, gpu: SpatialGpu) -> int:
    return sum(kernel.whole_job(units) for units in gpu.counts)


def mean_utilization(task: SpatialTask, gpu: SpatialGpu, index: int) -> Fraction:
    """U_i(k): the mean over the allowed counts of G_i(m, k) / T_i (section 3.3.2)."""
    return Fraction(_sum(task.on(index), gpu), len(gpu.counts) * task.period)


def best_utilization(task: SpatialTask, gpu: SpatialGpu, index: int, measured: bool = False) -> Fraction:
    """G_i(m^opt, k) / T_i."""
    kernel = task.on(index)
    return Fraction(kernel.whole_job(best_units(kernel, gpu, measured)), task.period)


def whole_utilization(task: SpatialTask, gpu: SpatialGpu, index: int) -> Fraction:
    """G_i(L, k) / T_i, for a schedule that gives each job the whole GPU."""
    return Fraction(task.on(index).whole_job(gpu.whole), task.period)

# SPDX-License-Identifier: GPL-2.0
"""The assignment of tasks to GPUs: algorithm 4, the packings by decreasing utilization, and STGM's sets of units."""

from __future__ import annotations

from fractions import Fraction

from analysis.energy.preferred import best_utilization, mean_utilization, preference
from analysis.model.energy import SpatialGpu, SpatialSystem, SpatialTask

Sums = list[Fraction]
#: Periods are rounded to whole ns, so a total utilization of 1 is exceeded by up to about this much.
ROUNDED = Fraction(1, 10**6)


def algorithm4(system: SpatialSystem, at_best: bool = False, measured: bool = False) -> tuple[int, ...]:
    """x(i): the first preferred GPU whose mean utilization stays at most 1, else the GPU with the least sum.

    Tasks are taken by increasing period.  ``at_best``: with the utilization at m^opt, as printed in line 6; that
    reading loses against Load-Dist (docs/readings/sbeet.md).  ``measured``: by measured energies.
    """
    sums: Sums = [Fraction(0)] * len(system.gpus)
    assigned = [0] * len(system.tasks)
    for index in system.rate_order:
        task = system.tasks[index]
        pairs = [(k, system.gpus[k]) for k in task.places]
        if at_best:
            own = {k: best_utilization(task, gpu, k, measured) for k, gpu in pairs}
        else:
            own = {k: mean_utilization(task, gpu, k) for k, gpu in pairs}
        fitting = [k for k in preference(system, task, measured) if sums[k] + own[k] <= 1]
        chosen = fitting[0] if fitting else min(task.places, key=lambda k: (sums[k] + own[k], k))
        assigned[index] = chosen
        sums[chosen] += own[chosen]
    return tuple(assigned)


def by_size(system: SpatialSystem, smallest: bool = False) -> tuple[int, ...]:
    """The GPUs by number of units, biggest first unless ``smallest``; ties by index."""
    sign = 1 if smallest else -1
    return tuple(sorted(range(len(system.gpus)), key=lambda k: (sign * system.gpus[k].units, k)))


def packed(system: SpatialSystem, packing: str) -> tuple[int, ...]:
    """Tasks into bins of capacity 1 by decreasing utilization on GPU 0, or on the first GPU that can run them.

    ``packing``: "first" takes the first GPU that fits, "best" the fullest that fits, "worst" the emptiest.  A task that
    fits nowhere goes to the emptiest.
    """
    reference = [mean_utilization(task, system.gpus[task.places[0]], task.places[0]) for task in system.tasks]
    order = sorted(range(len(system.tasks)), key=lambda i: -reference[i])
    sums: Sums = [Fraction(0)] * len(system.gpus)
    assigned = [0] * len(system.tasks)
    for index in order:
        task, own = system.tasks[index], reference[index]
        fitting = [k for k in range(len(system.gpus)) if k in task.places and sums[k] + own <= 1]
        emptiest = min(task.places, key=lambda k: (sums[k], k))
        fullest = min(fitting, key=lambda k: (-sums[k], k), default=emptiest)
        chosen = {"first": min(fitting, default=emptiest), "best": fullest, "worst": emptiest}[packing]
        assigned[index] = chosen
        sums[chosen] += own
    return tuple(assigned)


def static_sets(system: SpatialSystem) -> tuple[frozenset[int], ...] | None:
    """STGM's units of each task on the only GPU; None if it falls back to rate-monotonic on the whole GPU.

    It falls back if the total utilization, of means over unit counts, exceeds 1 (section 2.5.5).  Otherwise each task
    starts with the least count that meets its deadline.  While the utilization at these counts exceeds 1, the task that
    gains most gets the next count.  Then tasks, by period, take the units with the least utilization so far.  The paper
    is not available: this is our reading of sBEET's text about it.
    """
    gpu = system.gpus[0]
    if sum(mean_utilization(task, gpu, 0) for task in system.tasks) > 1 + ROUNDED:
        return None
    counts = [_least(task, gpu) for task in system.tasks]
    if not all(counts):
        return None

    def load(index: int, units: int) -> Fraction:
        return Fraction(system.tasks[index].on(0).whole_job(units), system.tasks[index].period)

    def gain(index: int) -> Fraction:
        more = counts[index] + gpu.granularity
        return load(index, counts[index]) - load(index, more) if more <= gpu.whole else Fraction(0)

    while sum(load(index, units) for index, units in enumerate(counts)) > 1:
        index = max(range(len(counts)), key=lambda i: (gain(i), -i))
        if gain(index) <= 0:
            return None
        counts[index] += gpu.granularity
    carried = [Fraction(0)] * gpu.limit
    sets = [frozenset[int]()] * len(counts)
    for index in system.rate_order:
        taken = sorted(range(gpu.limit), key=lambda unit: (carried[unit], unit))[: counts[index]]
        sets[index] = frozenset(taken)
        for unit in taken:
            carried[unit] += load(index, counts[index])
    return tuple(sets)


def _least(task: SpatialTask, gpu: SpatialGpu) -> int:
    return next((units for units in gpu.counts if task.on(0).whole_job(units) <= task.deadline), 0)

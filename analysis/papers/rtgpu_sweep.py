# SPDX-License-Identifier: GPL-2.0
"""Acceptance by tests, and by simulation, over random tasksets of RTGPU's table 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.papers.registry import METHODS
from analysis.papers.rtgpu_tasksets import Drawn
from analysis.rtgpu.allocate import Allocation, find_allocation
from analysis.rtgpu.analyse import System, Units
from analysis.rtgpu.simulate import Simulated, Way, simulate_units

#: The number of simulated runs of a taskset, each with other first releases.
RUNS_OF_A_TASKSET = 10


def schedulable_on_units(drawn: Drawn, name: str, observed: str = "") -> NDArray[np.bool_]:
    """Whether each taskset passes the test; ``observed``: whether no deadline is missed in RUNS_OF_A_TASKSET runs.

    ``observed``: the length of segments in these runs, "worst" or "random".  Raises Endless if a search did not end.
    """
    method, units = METHODS[name], Units(drawn.parameters.units)
    systems = [System(method, drawn.taskset(index)) for index in range(len(drawn))]
    found = [find_allocation(system, units) for system in systems]
    if not observed:
        return np.array([given is not None for given in found], np.bool_)
    runs = enumerate(zip(systems, found, strict=True))
    return np.array([_no_miss(system, given, index, observed) for index, (system, given) in runs], np.bool_)


def _no_miss(system: System, given: Allocation | None, seed: int, execution: str) -> bool:
    """Runs from random first releases, the first run from 0, on the units that the test finds, or on equal shares."""
    tasks = system.tasks
    simulated = Simulated(system, given or _equal(system.taskset.platform.compute_units, len(tasks)))
    periods, rng = [task.period for task in tasks], np.random.Generator(np.random.Philox(seed))
    for run in range(RUNS_OF_A_TASKSET):
        offsets = [0] * len(tasks) if not run else rng.integers(0, periods).tolist()
        longest, _ = simulate_units(simulated, offsets, Way(execution, seed=run))
        if any(seen > task.deadline for seen, task in zip(longest, tasks, strict=True)):
            return False
    return True


def _equal(units: int, tasks: int) -> tuple[int, ...]:
    return tuple(units // tasks + (i < units % tasks) for i in range(tasks))

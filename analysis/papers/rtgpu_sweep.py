# SPDX-License-Identifier: GPL-2.0
"""Acceptance of tests, and of what simulation shows, over random tasksets of RTGPU's table 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.papers.registry import METHODS
from analysis.papers.rtgpu_tasksets import Drawn
from analysis.rtgpu import compiled
from analysis.rtgpu.analyse import Units
from analysis.rtgpu.method import Method
from analysis.rtgpu.simulate import Way, simulate_units

#: Simulated runs of a taskset, each from other first releases.
RUNS_OF_A_TASKSET = 10


def unit_verdicts(batch: compiled.Batch, method: Method, units: Units) -> NDArray[np.bool_]:
    """Whether there is an allocation for each taskset; kernels' bounds must not grow with units.

    Raises Endless if a search did not end.
    """
    found = [compiled.given(batch, index, method, units) is not None for index in range(len(batch))]
    return np.array(found, np.bool_)


def schedulable_on_units(drawn: Drawn, name: str, observed: str = "") -> NDArray[np.bool_]:
    """Whether each taskset passes the test; ``observed``: whether no deadline is missed in RUNS_OF_A_TASKSET runs.

    ``observed`` is how long segments take in these runs: "worst" or "random".
    """
    method, units = METHODS[name], Units(drawn.parameters.units)
    batch = drawn.batch()
    if not observed:
        return unit_verdicts(batch, method, units)
    return np.array([_no_miss(drawn, batch, index, method, observed) for index in range(len(drawn))], np.bool_)


def _no_miss(drawn: Drawn, batch: compiled.Batch, index: int, method: Method, execution: str) -> bool:
    """Runs from random first releases, the first from 0, on the units that the test finds, or on equal shares."""
    p = drawn.parameters
    given = compiled.given(batch, index, method, Units(p.units)) or _equal(p.units, p.tasks)
    deadlines = drawn.period[index].tolist()
    rng = np.random.Generator(np.random.Philox(index))
    for run in range(RUNS_OF_A_TASKSET):
        offsets = [0] * p.tasks if not run else rng.integers(0, drawn.period[index]).tolist()
        longest, _ = simulate_units(batch, index, method, given, offsets, Way(execution, seed=run))
        if any(seen > deadline for seen, deadline in zip(longest, deadlines, strict=True)):
            return False
    return True


def _equal(units: int, tasks: int) -> tuple[int, ...]:
    return tuple(units // tasks + (i < units % tasks) for i in range(tasks))

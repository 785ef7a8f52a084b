# SPDX-License-Identifier: GPL-2.0
"""Random workloads by section 7.1 of contention-aware partitioning, and the planner's results for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from analysis.model import MS, Kernel
from analysis.model.uunifast import uunifast
from analysis.partition.merge import Merger
from analysis.partition.variants import Allocation, run_variant
from analysis.partition.workload import Item, Workload

#: An array of TASKs or of RESULTs.
Structs: TypeAlias = NDArray[Any]
#: A variant and its order.
Way: TypeAlias = tuple[str, str]
#: A task: times in ns, and the factors of its time without and with a conflict.
TASK = np.dtype([
    ("period", "i8"), ("deadline", "i8"), ("parallel", "i8"), ("serial", "i8"), ("numerator", "u4", 2),
    ("denominator", "u4", 2), ("memory", "?"), ("priority", "u4"),
])  # fmt: skip
#: Whether a way finds partitions that fit, their number, and their load in units of 2^-SHIFT.
RESULT = np.dtype([("fits", "?"), ("parts", "i8"), ("load", "i8")])
#: The divisors of 4000 from 50 on, ms: hyperperiods of 4 s (docs/readings/partitioning.md, "Partitioning").
PERIODS_MS = (50, 80, 100, 125, 160, 200, 250, 400, 500, 800, 1000, 2000, 4000)
#: Conflict factors of compute and memory tasks, and the share of a that no parallelism shortens, as 1 / n.
FACTORS = (Fraction(6, 5), Fraction(23, 10))
SERIAL = (50, 10)


@dataclass(frozen=True)
class Parameters:
    """``utilization``: of all tasks on one unit without conflicts; ``memory``: the share of memory-intensive tasks.

    ``shared``: C = k (a + b) / m, else C = k (a / m + b) as printed.
    """

    tasks: int = 50
    utilization: float = 40
    units: int = 68
    memory: float = 0.5
    shared: bool = True


def generate_zahaf(parameters: Parameters, seed: int, count: int) -> Structs:
    """``count`` tasksets, one in each row.

    A taskset is drawn again if a task fails lemma 2; the condition of UUniFast-Discard cannot be u_i <= 1 here.
    """
    random = np.random.default_rng([seed, parameters.tasks, round(1000 * parameters.utilization), parameters.units])
    found = [_draw(parameters, random, count)]
    while (have := sum(map(len, found))) < count:
        found.append(_draw(parameters, random, count - have))
    return np.concatenate(found)


def _draw(parameters: Parameters, random: np.random.Generator, count: int) -> Structs:
    """Draws ``count`` tasksets, and returns those that lemma 2 does not exclude."""
    shape = count, parameters.tasks
    work = uunifast(random.random((count, parameters.tasks - 1)), parameters.utilization)
    periods = random.choice(np.array(PERIODS_MS, np.int64) * MS, shape)
    memory = (random.random(shape) <= parameters.memory).astype(np.int64)
    parallel = np.rint(work * periods).astype(np.int64)
    serial = parallel // np.array(SERIAL)[memory]
    tasks = np.zeros(shape, TASK)
    tasks["period"], tasks["deadline"], tasks["memory"] = periods, periods * 3 // 4, memory
    tasks["parallel"] = parallel + serial if parameters.shared else parallel
    tasks["serial"] = 0 if parameters.shared else serial
    tasks["numerator"][..., 0], tasks["denominator"][..., 0] = 1, 1
    tasks["numerator"][..., 1] = np.array([factor.numerator for factor in FACTORS])[memory]
    tasks["denominator"][..., 1] = np.array([factor.denominator for factor in FACTORS])[memory]
    tasks["priority"] = TOP_PRIORITY - periods // MS * parameters.tasks - np.arange(parameters.tasks)
    least = -(-(tasks["parallel"] + parameters.units * tasks["serial"]) // parameters.units)
    kept: Structs = tasks[(least <= tasks["deadline"]).all(axis=1)]
    return kept


#: Priorities are deadline monotonic, ties by index.
TOP_PRIORITY = 2**31


def results(parameters: Parameters, tasks: Structs, ways: Sequence[Way]) -> Structs:
    """The RESULT of each way for each taskset, under EDF as in the paper."""
    found = np.zeros((len(tasks), len(ways)), RESULT)
    for at, row in enumerate(tasks):
        workload = zahaf_workload(row, parameters.units)
        merger = Merger(workload)  # shared, because ways try the same merges
        for number, (variant, order) in enumerate(ways):
            outcome = run_variant(workload, variant, order, merger)
            if isinstance(outcome, Allocation):
                found[at, number] = outcome.fits, len(outcome.parts), outcome.load
    return found


def zahaf_workload(row: Structs, units: int, inside: str = "edf") -> Workload:
    """One of the tasksets, for the planner."""
    return Workload(tuple(_item(index, task) for index, task in enumerate(row)), units, inside)


def _item(index: int, task: Structs) -> Item:
    factor = Fraction(int(task["numerator"][1]), int(task["denominator"][1]))
    curve = Kernel.linear(int(task["parallel"]), int(task["serial"]))
    return Item(f"t{index}", int(task["period"]), int(task["deadline"]), bool(task["memory"]), (curve,), factor,
                priority=int(task["priority"]))  # fmt: skip

# SPDX-License-Identifier: GPL-2.0
"""The compiled planner on tasksets of contention-aware partitioning, and the dispatch model; times of one core."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from analysis.papers.experiments.otterness import TABLE_1, Scenario, simulated
from analysis.papers.zahaf_tasksets import Parameters, generate_zahaf, results
from gpurt._gpurt import lib

PAPERS = [(f"{rule}-{mode}", "dec") for rule in ("sms", "bf") for mode in ("ina", "act")]
#: Total utilizations of the paper's figures 5 to 9.
LOADS = range(2, 70, 2)


@dataclass(frozen=True)
class Effort:
    """How much is measured: tasksets of 50 tasks at each load, of 200, of 10, and tasks of the large one."""

    fifty: int = 100_000 // len(LOADS) + 1
    two_hundred: int = 20
    ten: int = 200
    large: int = 10_000
    most_exact: int = 20
    launches: int = 200


QUICK = Effort(2, 1, 2, 100, 17, 5)


def spent(parameters: Parameters, count: int, ways: list[tuple[str, str]]) -> tuple[float, float]:
    """Seconds of the core to run the ways on ``count`` tasksets, and the share of runs that fit."""
    tasks = generate_zahaf(parameters, 1, count)
    start = time.process_time()
    found = results(parameters, tasks, ways)
    seconds = time.process_time() - start
    return seconds, float((found["status"] == lib.GPURT_PARTITION_FITS).mean())


def dispatched(one: Scenario, launches: int) -> float:
    """Seconds of the core to simulate a row of RTNS'21's table 1."""
    start = time.process_time()
    simulated(one, launches, 1)
    return time.process_time() - start


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """The figures: seconds for 10^5 tasksets, for one of 10^4 tasks, for optima, and for a row of a table."""
    effort = QUICK if quick else Effort()
    sums = [spent(Parameters(utilization=load), effort.fifty, PAPERS)[0] for load in LOADS]
    runs = effort.fifty * len(LOADS) * len(PAPERS)
    yield "partition.50_tasks.seconds_of_100000x4", sum(sums) * 400_000 / runs, "s"
    yield "partition.50_tasks.slowest_load", max(sums) / (effort.fifty * len(PAPERS)) * 1e6, "us a run"
    for way in (("sms-ina", "dec"), ("fit-ina", "dec"), ("fit-act", "dec")):
        seconds, _ = spent(Parameters(200, 44), effort.two_hundred, [way])
        yield f"partition.200_tasks.{way[0]}", seconds / effort.two_hundred * 1e3, "ms"
    seconds, _ = spent(Parameters(10, 9, 14), effort.ten, [("exact", "")])
    yield "partition.10_tasks.exact", seconds / effort.ten * 1e3, "ms"
    seconds, _ = spent(Parameters(16, 14, 22), 2, [("exact", "")])
    yield "partition.16_tasks.exact", seconds / 2 * 1e3, "ms"
    seconds, _ = spent(Parameters(effort.most_exact, 17, 26), 1, [("exact", "")])
    yield "partition.20_tasks.exact.seconds", seconds, "s"
    yield "partition.dispatch.slowest_row.seconds", max(dispatched(one, effort.launches) for one in TABLE_1), "s"
    units = effort.large * 2 // 5
    seconds, fits = spent(Parameters(effort.large, 0.55 * units, units), 1, [("fit-ina", "dec")])
    yield "partition.large.fit-ina.seconds", seconds, "s"
    yield "partition.large.fits", fits, "of 1"

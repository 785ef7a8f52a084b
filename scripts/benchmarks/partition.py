# SPDX-License-Identifier: GPL-2.0
"""The planner on tasksets of contention-aware partitioning; CPU times on one core."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from analysis.papers.zahaf_tasksets import Parameters, generate_zahaf, results

PAPERS = [(f"{rule}-{mode}", "dec") for rule in ("sms", "bf") for mode in ("ina", "act")]


@dataclass(frozen=True)
class Effort:
    """How much is measured: tasksets of 50 tasks and of 200."""

    fifty: int = 20
    two_hundred: int = 5


QUICK = Effort(1, 1)


def spent(parameters: Parameters, count: int, ways: list[tuple[str, str]]) -> float:
    """The CPU time of all ways on one of ``count`` tasksets, ms."""
    tasks = generate_zahaf(parameters, 1, count)
    start = time.process_time()
    results(parameters, tasks, ways)
    return (time.process_time() - start) / count * 1e3


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """The figures: a taskset of 50 and of 200 tasks."""
    effort = QUICK if quick else Effort()
    yield "partition.50_tasks.four_variants", spent(Parameters(utilization=44), effort.fifty, PAPERS), "ms"
    for way in (("sms-ina", "dec"), ("fit-ina", "dec"), ("fit-act", "dec")):
        yield f"partition.200_tasks.{way[0]}", spent(Parameters(200, 44), effort.two_hundred, [way]), "ms"

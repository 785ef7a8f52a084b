# SPDX-License-Identifier: GPL-2.0
"""Runs in an environment that has SimSo: tasksets from stdin as JSON, jobs and seconds to stdout."""

from __future__ import annotations

import json
import sys
import time

from simso.configuration import Configuration
from simso.core import Model

NS_PER_MS = 1_000_000


def simulate(tasks: list[list[int]], horizon: int) -> tuple[int, float]:
    """Simulates a taskset ([period, execution time] each, ns, most urgent first); returns its jobs and the time."""
    configuration = Configuration()
    configuration.cycles_per_ms = NS_PER_MS
    configuration.duration = horizon
    configuration.scheduler_info.clas = "simso.schedulers.RM"
    configuration.add_processor(name="CPU", identifier=1)
    for number, (period, execution) in enumerate(tasks, 1):
        configuration.add_task(
            name=f"t{number}", identifier=number, period=period / NS_PER_MS, activation_date=0,
            wcet=execution / NS_PER_MS, deadline=period / NS_PER_MS, abort_on_miss=False,
        )  # fmt: skip
    configuration.check_all()
    model = Model(configuration)
    start = time.perf_counter()
    model.run_model()
    return sum(len(task.jobs) for task in model.task_list), time.perf_counter() - start


def main() -> None:
    """Simulates one taskset after the other."""
    request = json.load(sys.stdin)
    results = [simulate(tasks, request["horizon"]) for tasks in request["tasksets"]]
    json.dump({"jobs": sum(r[0] for r in results), "seconds": sum(r[1] for r in results)}, sys.stdout)


main()

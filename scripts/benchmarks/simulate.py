# SPDX-License-Identifier: GPL-2.0
"""The simulator: jobs per second of the case study, including GPU and overheads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from analysis.simulation.simulate import Options, worst_over_offsets
from analysis.taskset import load

CASE_STUDY = Path(__file__).resolve().parents[2] / "examples/case-study.toml"


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields simulate.jobs_per_s: per second of CPU time on one core, so that other processes matter less."""
    taskset = load(CASE_STUDY).taskset
    rates = []
    for seed in range(5):
        start = time.process_time()
        seen = worst_over_offsets(taskset, Options(seed=seed), 1 if quick else 300)
        rates.append(sum(task.jobs for task in seen.tasks.values()) / (time.process_time() - start))
    yield "simulate.jobs_per_s", sorted(rates)[2], "jobs/s"

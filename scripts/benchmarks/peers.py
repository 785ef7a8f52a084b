# SPDX-License-Identifier: GPL-2.0
"""The simulator compared with SimSo on the same tasksets; SimSo is installed from PyPI into a scratch environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from analysis.model import MS, Platform, Taskset
from analysis.papers.experiments.generate import PAPER, generate
from analysis.simulation.simulate import Options, simulate

INSIDE = Path(__file__).resolve().parent / "inside/simso_jobs.py"
HORIZON, QUICK_HORIZON = 20_000 * MS, 100 * MS
REPEATS = 3
MISSING = 3


def tasksets() -> list[Taskset]:
    """Ten tasks on one CPU without a GPU, rate monotonic: both can simulate these."""
    parameters = replace(PAPER, cpus=1, tasks=10, users=(0, 0), load=(0.7, 0.7))
    return generate(parameters, 1, 10, platform=Platform(1))


def ours(sets: list[Taskset], horizon: int) -> float:
    """Jobs per second of gpurt, with one call per taskset."""
    start = time.perf_counter()
    seen = [simulate(taskset, Options(horizon=horizon)) for taskset in sets]
    return sum(task.jobs for one in seen for task in one.tasks.values()) / (time.perf_counter() - start)


def simso(python: Path, sets: list[Taskset], horizon: int) -> float:
    """Jobs per second of SimSo, without its start-up."""
    tasks = [[[t.period, t.cpu_time] for t in taskset.real_time] for taskset in sets]
    request = json.dumps({"horizon": horizon, "tasksets": tasks})
    done = subprocess.run([python, INSIDE], input=request, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: SimSo failed:\n{done.stderr}")
    result = json.loads(done.stdout)
    return float(result["jobs"] / result["seconds"])


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields peers.simso.jobs_per_s, peers.gpurt.jobs_per_s and simulate.over_simso."""
    sets, horizon = tasksets(), QUICK_HORIZON if quick else HORIZON
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin/python"
        install = [python, "-m", "pip", "install", "-q", "simso==0.8.5"]
        if subprocess.run(install, stdout=sys.stderr, check=False).returncode:
            print("bench: SimSo could not be installed from PyPI", file=sys.stderr)
            sys.exit(MISSING)
        pairs = [(simso(python, sets, horizon), ours(sets, horizon)) for _ in range(REPEATS)]
    yield "peers.simso.jobs_per_s", sorted(a for a, _ in pairs)[REPEATS // 2], "jobs/s"
    yield "peers.gpurt.jobs_per_s", sorted(b for _, b in pairs)[REPEATS // 2], "jobs/s"
    yield "simulate.over_simso", sorted(b / a for a, b in pairs)[REPEATS // 2], "ratio"

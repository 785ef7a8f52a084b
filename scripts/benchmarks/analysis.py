# SPDX-License-Identifier: GPL-2.0
"""The compiled analyses on tasksets of the GCAPS paper's table 3, and experiments as a whole.

Rates are of one core and its own time, so that neighbours matter less; seconds are of a clock on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from analysis import compiled, rta
from analysis.batch import Batch
from analysis.experiments import EXPERIMENTS
from analysis.experiments.gcaps import EIGHT
from analysis.experiments.runner import Settings, evaluate, plan
from analysis.experiments.runner import run as run_experiment
from analysis.generate import PAPER, generate
from analysis.model import MS, Taskset

REPEATS = 7
CPU, WALL = time.process_time, time.perf_counter
TESTS = (
    "gcaps-suspend", "gcaps-busy", "gcaps-suspend+gpu-priority", "gcaps-busy+gpu-priority", "tsg-rr-suspend",
    "tsg-rr-busy", "mpcp-suspend", "mpcp-busy", "fmlp-suspend", "fmlp-busy",
)  # fmt: skip


def seconds(action: Callable[[], object], repeats: int = REPEATS, clock: Callable[[], float] = CPU) -> float:
    """The median time an action takes."""
    times = []
    for _ in range(repeats):
        start = clock()
        action()
        times.append(clock() - start)
    return sorted(times)[repeats // 2]


def rate(batches: list[Batch], name: str) -> float:
    """Tasksets a second, verdicts only; batches of the size that experiments use."""
    return sum(map(len, batches)) / seconds(lambda: [compiled.verdicts(batch, name) for batch in batches])


def readable_rate(tasksets: list[Taskset], name: str) -> float:
    """The same of the readable implementation."""
    test = rta.find(name)
    return len(tasksets) / seconds(lambda: [test.run(taskset) for taskset in tasksets], 3)


def large() -> Taskset:
    """10,000 tasks on eight CPUs, nine of ten with a bound."""
    parameters = replace(PAPER, cpus=8, tasks=10_000, users=(0.3, 0.3), load=(0.1, 0.1), period=(100 * MS, 10**6 * MS))
    batch = generate(parameters, 3, 1).on(800, 200)
    return batch.taskset(0)


def run() -> Iterator[tuple[str, float, str]]:
    """Yields analysis.<test>.tasksets_per_s and .speedup, and what the experiments take."""
    batches = [generate(PAPER, 1, 250, 250 * piece) for piece in range(40)]
    few = [batches[0].taskset(index) for index in range(100)]
    plain = replace(PAPER, cpus=1, tasks=20, users=(0, 0), load=(0.7, 0.9))
    twenty = [generate(plain, 1, 250, 250 * piece) for piece in range(40)]
    yield "analysis.fixed-priority.tasksets_per_s", rate(twenty, compiled.FIXED_PRIORITY), "tasksets/s"
    for name in TESTS:
        fast = rate(batches, name)
        yield f"analysis.{name}.tasksets_per_s", fast, "tasksets/s"
        yield f"analysis.{name}.speedup", fast / readable_rate(few, name), "ratio"
    work = plan(replace(EXPERIMENTS["gcaps-fig8a"], curves=EIGHT), Settings(250))[0]
    eight = replace(work, parameters=PAPER)
    yield "analysis.generate_and_eight.tasksets_per_s", 250 / seconds(lambda: evaluate(eight), 15), "tasksets/s"
    figures = [EXPERIMENTS[f"gcaps-fig8{letter}"] for letter in "abcdef"]
    all_six = seconds(lambda: [run_experiment(figure, Settings(1000), jobs=2) for figure in figures], 1, WALL)
    yield "analysis.fig8_all.seconds", all_six, "s"
    taskset = large()
    tests = [rta.find(name) for name in ("gcaps-suspend", "gcaps-busy")]
    slowest = max(seconds(partial(compiled.run, test, taskset), 1, WALL) for test in tests)
    yield "analysis.large_taskset.seconds", slowest, "s"

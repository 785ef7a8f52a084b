# SPDX-License-Identifier: GPL-2.0
"""The compiled analyses on tasksets of the GCAPS paper's table 3, and whole experiments.

Rates are per second of CPU time on one core, so that other processes matter less; seconds are wall-clock time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.shared.timing import WALL, seconds

from analysis.answers import compiled
from analysis.model import MS, Taskset
from analysis.papers import registry
from analysis.papers.experiments import EXPERIMENTS
from analysis.papers.experiments.engine import run_experiment as run_experiment
from analysis.papers.experiments.gcaps import EIGHT
from analysis.papers.experiments.generate import PAPER, generate, on_costs
from analysis.papers.experiments.plan import Settings

TESTS = (
    "gcaps-suspend", "gcaps-busy", "gcaps-suspend+gpu-priority", "gcaps-busy+gpu-priority", "boosted-suspend",
    "boosted-busy", "boosted-mixed", "boosted-suspend+gpu-priority", "boosted-busy+gpu-priority",
)  # fmt: skip


def rate(tasksets: list[Taskset], name: str, repeats: int) -> float:
    """Tasksets per second; computes verdicts only."""
    test = registry.find(name)
    return len(tasksets) / seconds(lambda: [compiled.passes(test, taskset) for taskset in tasksets], repeats)


def readable_rate(tasksets: list[Taskset], name: str, repeats: int) -> float:
    """Tasksets per second of the readable implementation."""
    test = registry.find(name)
    return len(tasksets) / seconds(lambda: [test.run(taskset) for taskset in tasksets], repeats)


def large(tasks: int) -> Taskset:
    """A taskset of this many tasks on eight CPUs, of which nine of ten have a bound."""
    parameters = replace(PAPER, cpus=8, tasks=tasks, users=(0.3, 0.3), load=(0.1, 0.1), period=(100 * MS, 10**6 * MS))
    return on_costs(generate(parameters, 3, 1), 800, 200)[0]


@dataclass(frozen=True)
class Effort:
    """How much is measured: repeats, tasksets, tasksets of each experiment, and tasks of the large taskset."""

    repeats: int = 7
    tasksets: int = 250
    experiment: int = 1000
    large: int = 10_000


QUICK = Effort(1, 2, 2, 50)


def rates(effort: Effort) -> Iterator[tuple[str, float, str]]:
    """Yields analysis.<test>.tasksets_per_s and .speedup."""
    tasksets = generate(PAPER, 1, effort.tasksets)
    for name in TESTS:
        fast = rate(tasksets, name, effort.repeats)
        yield f"analysis.{name}.tasksets_per_s", fast, "tasksets/s"
        yield f"analysis.{name}.speedup", fast / readable_rate(tasksets[:100], name, min(3, effort.repeats)), "ratio"


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields the rates, and the times of the experiments and of a large taskset."""
    effort = QUICK if quick else Effort()
    yield from rates(effort)
    eight = replace(EXPERIMENTS["gcaps-fig8a"], curves=EIGHT)
    drawn = Settings(effort.tasksets)
    once = seconds(lambda: eight.evaluate(PAPER, drawn, 0, effort.tasksets), 2 * effort.repeats + 1)
    yield "analysis.generate_and_eight.tasksets_per_s", effort.tasksets / once, "tasksets/s"
    figures = [EXPERIMENTS[f"gcaps-fig8{letter}"] for letter in "abcdef"]
    settings = Settings(effort.experiment)
    all_six = seconds(lambda: [run_experiment(figure, settings, jobs=2) for figure in figures], 1, WALL)
    yield "analysis.fig8_all.seconds", all_six, "s"
    taskset = large(effort.large)
    tests = [registry.find(name) for name in ("gcaps-suspend", "gcaps-busy")]
    slowest = max(seconds(partial(compiled.run_compiled, test, taskset), 1, WALL) for test in tests)
    yield "analysis.large_taskset.seconds", slowest, "s"

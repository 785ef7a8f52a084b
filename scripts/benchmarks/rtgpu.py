# SPDX-License-Identifier: GPL-2.0
"""Tests of tasks that own units of the GPU, on tasksets of RTGPU's table 1, and allocation of units.

Rates are per second of CPU time on one core; seconds of the figures are wall-clock time, with two processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.shared.timing import WALL, seconds

from analysis.model import MS, CpuSegment, Platform, Span, Task, Taskset
from analysis.papers.experiments import EXPERIMENTS
from analysis.papers.experiments.engine import run_experiment as run_experiment
from analysis.papers.experiments.plan import Settings
from analysis.papers.registry import METHODS
from analysis.papers.rtgpu_sweep import schedulable_on_units
from analysis.papers.rtgpu_tasksets import TABLE, draw
from analysis.rtgpu.allocate import find_allocation, run_allocation
from analysis.rtgpu.analyse import System, Units
from analysis.rtgpu.method import RTGPU


def rates(sets: int, repeats: int) -> Iterator[tuple[str, float, str]]:
    """Yields rtgpu.<test>.<copies>.<utilization>.tasksets_per_s: verdicts, each with an allocation."""
    for copies in (2, 1):
        for load in (0.2, 0.6, 1.0):
            drawn = draw(replace(TABLE, copies=copies, utilization=load), 1, sets)
            for name in METHODS:
                time_taken = seconds(lambda n=name, d=drawn: schedulable_on_units(d, n), repeats)
                yield f"rtgpu.{name}.{copies}.{load}.tasksets_per_s", sets / time_taken, "tasksets/s"


def allocation(sets: int) -> Iterator[tuple[str, float, str]]:
    """Yields the longest time to allocate 28 SMs to 7 tasks, by each sound test, including bounds and their terms."""
    for name in ("rtgpu-printed", "rtgpu", "rtgpu-tight", "stgm"):
        parameters = replace(TABLE, tasks=7, units=28, utilization=0.6)
        tasksets = [draw(parameters, 2, 1, index).taskset(0) for index in range(sets)]
        systems = [System(METHODS[name], taskset) for taskset in tasksets]
        longest = max(seconds(lambda s=system: run_allocation(s, Units(28)), 1) for system in systems)
        yield f"rtgpu.{name}.7_tasks_28_units.ms", longest * 1e3, "ms"


def nanosecond() -> float:
    """The time to bound a task of 1 ns below a task of 1 s, ms."""
    second = 1000 * MS
    long = Task("a", 0, 2, 100 * second, 100 * second, (CpuSegment(Span.exactly(second)),))
    short = Task("b", 0, 1, 100 * second, 100 * second, (CpuSegment(Span.exactly(1)),))
    system = System(RTGPU, Taskset(Platform(1), (long, short)))
    return seconds(lambda: find_allocation(system, Units(1)), 5) * 1e3


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields the rates, the time of allocations, and the time of figures 8 to 11 with 20 tasksets per point."""
    yield from rates(2 if quick else 50, 1 if quick else 3)
    yield from allocation(1 if quick else 20)
    yield "rtgpu.nanosecond_below_second.ms", nanosecond(), "ms"
    settings = Settings(1 if quick else 20)
    figures = [EXPERIMENTS[f"rtgpu-fig{number}"] for number in (8, 9, 10, 11)]
    if quick:
        figures = [replace(figures[0], panels=figures[0].panels[:1])]
    all_panels = seconds(lambda: [run_experiment(figure, settings, jobs=2) for figure in figures], 1, WALL)
    yield "rtgpu.fig8_to_11.seconds", all_panels, "s"

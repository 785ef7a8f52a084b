# SPDX-License-Identifier: GPL-2.0
"""sBEET and sBEET-mg: a decision, simulated jobs a second, and figure 3.13's sweep.

Profiles are synthetic, with the published ones' size and shape; gpurt contains no published profile.  Rates are per CPU
second.  The sweep has five policies, seven points, 15 s per taskset; its seconds are of one process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from analysis.energy import compiled
from analysis.energy.outcome import EnergyRun
from analysis.energy.policies import POLICIES
from analysis.energy.setup import prepare_tables
from analysis.model import MS, Kernel
from analysis.model.energy import PoweredKernel, Profile, SpatialSystem
from analysis.papers.energy.generate import Draw, system
from analysis.papers.energy.published import FACTS, RTX, T400, gpu
from analysis.papers.experiments import ENERGY
from analysis.papers.experiments.energy import FIVE
from gpurt._gpurt import ffi, lib

#: Work of the benchmarks on one unit, ms, about as published; each saturates at its published number of units.
WORK = dict(zip(FACTS, (343, 460, 354, 200, 41, 42, 310, 11), strict=True))
SATURATES = {"bfs": 16, "hist": 30, "hist2": 30}


def profiles() -> dict[str, Profile]:
    """Profiles of the published ones' size."""
    found = {}
    for name, facts in FACTS.items():
        kernels = {}
        for (kind, units, factor), (power, copy_in, copy_out) in zip(((RTX, 46, 1), (T400, 6, 2)), facts, strict=True):
            times = Kernel.saturating(WORK[name] * factor * MS, min(SATURATES.get(name, 46), units))
            kernels[kind] = PoweredKernel(times, power, copy_in * 1000, copy_out * 1000)
        found[name] = Profile(name, kernels)
    return found


def decision(tasks: int, repeats: int) -> float:
    """The mean time of a decision of sbeet on an idle GPU of 46 units, with all its future jobs in the window, us."""
    device = gpu(RTX, RTX)
    one = system(Draw("uunifast", 1.0, (device,), (RTX, 46), tasks=tasks), profiles(), 1, 1)
    setup = prepare_tables(one, POLICIES["sbeet"])
    tables = compiled.Tables(setup)
    gpus = tables.spatial_gpus()
    state, earliest = ffi.new("struct gpurt_sbeet_state *"), ffi.new("u64[]", [1 + task.offset for task in one.tasks])
    ready = ffi.new("struct gpurt_sbeet_future[]", [(2**64 - 1, 2**64 - 1, index) for index in range(tasks)])
    state.gpu, state.earliest, state.ready = gpus, earliest, ready
    jobs = [ffi.new("struct gpurt_sbeet_future *", (0, task.deadline, index)) for index, task in enumerate(one.tasks)]
    start = time.process_time()
    for _ in range(repeats):
        for job in jobs:
            lib.gpurt_sbeet_decide(tables.struct, state, job, 0)
    return (time.process_time() - start) / (repeats * tasks) * 1e6


def jobs_per_s(one: SpatialSystem, name: str, horizon: int) -> float:
    """Simulated jobs a second."""
    setup = prepare_tables(one, POLICIES[name])
    tables = compiled.Tables(setup)
    start = time.process_time()
    outcome = compiled.simulate_compiled(setup, EnergyRun(horizon), tables=tables)
    return sum(task.released for task in outcome.tasks) / (time.process_time() - start)


def sweep(tasksets: int) -> float:
    """CPU seconds on one core for figure 3.13 with ``tasksets`` tasksets per point."""
    known, start = profiles(), time.process_time()
    experiment = ENERGY["mg-fig3.13"]
    for _, draw in experiment.panels[0].points:
        for index in range(tasksets):
            one = system(draw, known, 1, index)
            for curve in FIVE:
                compiled.simulate_compiled(prepare_tables(one, POLICIES[curve.policy]), EnergyRun(experiment.horizon))
    return time.process_time() - start


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields energy.decision_us.<tasks>, energy.<policy>.jobs_per_s and energy.fig3_13_cpu_seconds."""
    for tasks in (5, 10):
        yield f"energy.decision_us.{tasks}", decision(tasks, 1 if quick else 2000), "us"
    horizon = (1 if quick else 2000) * 1000 * MS
    single = system(Draw("uunifast", 1.0, (gpu(T400, T400),), (T400, 6)), profiles(), 1, 1)
    _, draw = ENERGY["mg-fig3.13"].panels[0].points[2]
    several = system(draw, profiles(), 1, 1)
    for name, one in (("fcfs", single), ("rm", single), ("sbeet", single), ("sbeet-mg", several), ("ld", several)):
        yield f"energy.{name}.jobs_per_s", jobs_per_s(one, name, horizon), "jobs/s"
    yield "energy.fig3_13_cpu_seconds", sweep(2 if quick else 200), "s"

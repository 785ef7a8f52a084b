# SPDX-License-Identifier: GPL-2.0
"""The bounds, against simulation and by hand, and the traces of runs."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from effort import tries
from energy_systems import example5, kernel, ns, task, watts

from analysis.energy import bounds as bounds_module
from analysis.energy import compiled
from analysis.energy.bounds import energy_bounds
from analysis.energy.outcome import EnergyRun
from analysis.energy.policies import POLICIES, Readings
from analysis.energy.setup import prepare_tables
from analysis.energy.trace import trace_of
from analysis.model import Kernel
from analysis.model.energy import PoweredKernel, SpatialGpu, SpatialSystem, SpatialTask
from analysis.traces.trace import Kind
from analysis.traces.trace import load_trace as load_trace

PERIODIC = example5((20, 10, 20))
EXAMPLE5 = Path(__file__).parents[2] / "examples/energy/example5.toml"


@pytest.mark.parametrize("policy", ["rm", "fcfs"])
def test_bounds_of_one_job_at_a_time_hold(policy: str) -> None:
    """Against simulation with random offsets, sporadic releases and early completion, all late jobs run."""
    reached = 0
    for seed in range(tries(150, 40)):
        rng = random.Random(f"{policy} {seed}")
        gpu = SpatialGpu("g", 2, 2, 1, 1)
        tasks = []
        for index in range(rng.randint(2, 5)):
            period = rng.choice([rng.randint(20, 100), 40, 60])
            length = rng.randint(1, max(1, period // 5))
            one = PoweredKernel(Kernel.table((2 * length, length), (1, 1)), 1, rng.randint(0, 2), 1)
            tasks.append(SpatialTask(f"t{index}", period, period, (one,)))
        setup = prepare_tables(SpatialSystem((gpu,), tuple(tasks)), POLICIES[policy], Readings(run_late=True))
        limits = energy_bounds(setup)
        assert limits is not None
        for run_seed in range(6):
            run = EnergyRun(2000, rng.choice(["worst", "random"]), rng.random() < 0.3, rng.random() < 0.8, run_seed)
            for count, one, limit in zip(compiled.simulate_compiled(setup, run).tasks, tasks, limits, strict=True):
                if count.lateness is not None and limit is not None:
                    assert count.lateness + one.deadline <= limit
                    reached += count.lateness + one.deadline == limit
    assert reached > 0


def test_bounds_by_hand() -> None:
    """G(4) of example 5 with short periods: 8, 3, 3 ms.  rm: t2 waits for one long job: 8 + 3."""
    assert energy_bounds(prepare_tables(PERIODIC, POLICIES["rm"])) == [ns(14), ns(11), ns(17)]
    assert energy_bounds(prepare_tables(PERIODIC, POLICIES["fcfs"])) == [ns(14)] * 3
    assert energy_bounds(prepare_tables(PERIODIC, POLICIES["sbeet"])) is None
    assert energy_bounds(prepare_tables(PERIODIC, POLICIES["edf"])) is None
    over = replace(PERIODIC, tasks=tuple(replace(one, period=ns(4), deadline=ns(4)) for one in PERIODIC.tasks))
    assert energy_bounds(prepare_tables(over, POLICIES["fcfs"])) == [None] * 3


def test_tasks_without_any_time_have_bounds_or_none() -> None:
    """Beside a task that takes all the time, one that takes none may wait for ever; the search for a bound ends."""
    assert [bounds_module._fixed_priority(i, [5, 0], [5, 9]) for i in (0, 1)] == [5, None]
    assert bounds_module._first_come([0, 0], [5, 9]) == 0


def test_a_busy_period_with_too_many_releases_of_any_task_is_given_up() -> None:
    most = bounds_module.MAX_ENERGY_STEPS
    for steps, bounded in ((most, True), (most + 1, False)):
        assert (bounds_module._first_come([0, steps], [1, steps]) is not None) == bounded


def test_traces_show_slots_power_and_skipped_jobs(tmp_path: Path) -> None:
    gpu = SpatialGpu("g", 4, 4, watts(1), watts("0.5"))
    one = kernel((ns(4),) * 4, 1)
    system = SpatialSystem((gpu,), (task("a", 20, 20, 0, one), task("b", 20, 20, 0, one), task("c", 20, 3, 0, one)))
    setup = prepare_tables(system, POLICIES["sbeet-mg"])
    setup = replace(setup, best=((2,), (2,), (2,)))
    run = EnergyRun(ns(10))
    trace_of(setup, run, compiled.simulate_compiled(setup, run, log=100)).save(tmp_path / "trace.json")
    trace = load_trace(tmp_path / "trace.json")
    seen = [event for event in trace.events if event.kind is Kind.GPU]
    kernels = [(event.task, event.time, event.duration, event.detail) for event in seen]
    assert kernels == [("a", 0, ns(4), "2 units, 0 to 1"), ("b", 0, ns(4), "2 units, 2 to 3")]
    assert trace.counters == {"GPU 0 power, mW": ((0, 1000), (0, 5000), (ns(4), 1000), (ns(10), 1000))}
    assert trace.unfinished() == {"c": [0]}
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {entry["tid"] for entry in entries if entry["ph"] == "X"} == {10, 11}

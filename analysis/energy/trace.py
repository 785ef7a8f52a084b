# SPDX-License-Identifier: GPL-2.0
"""A simulated run as a trace for Perfetto: a track for each slot of a GPU, and one for its power."""

from __future__ import annotations

from analysis.energy.outcome import Dispatch, EnergyOutcome, EnergyRun, executions
from analysis.energy.power import Execution, power_steps
from analysis.energy.setup import Setup
from analysis.traces.trace import About, Event, Kind, Trace
from gpurt.types import Document


def trace_of(setup: Setup, run: EnergyRun, outcome: EnergyOutcome) -> Trace:
    """The kernels that start before the horizon, with their units, and each GPU's power, mW.

    A skipped job has a release and no completion.
    """
    dispatches = outcome.dispatches
    events = [event for one in dispatches for event in _events(setup, one)]
    events += [Event(one.release, Kind.RELEASE, setup.system.tasks[one.task].name, one.job) for one in outcome.skips]
    about = {task.name: About(_rank(setup, index), task.deadline) for index, task in enumerate(setup.system.tasks)}
    counters = {
        f"GPU {index} power, mW": _power(setup, index, runs, run.horizon)
        for index, runs in enumerate(executions(setup, dispatches))
    }
    meta = {"source": "energy simulate", "policy": setup.policy.name}
    ordered = tuple(sorted((event for event in events if event.time < run.horizon), key=lambda event: event.time))
    return Trace(meta, ordered, about, run.horizon, counters)


def _rank(setup: Setup, index: int) -> int:
    """A priority that orders tasks by period, 1 at least."""
    return len(setup.system.tasks) - setup.system.rate_order.index(index)


def _events(setup: Setup, one: Dispatch) -> list[Event]:
    name = setup.system.tasks[one.task].name
    units = f"{one.units} units, {one.first} to {one.first + one.units - 1}"
    where: Document = {"gpu": one.gpu, "job": one.job}
    return [
        Event(one.release, Kind.RELEASE, name, one.job),
        Event(one.at, Kind.GRANT, name, detail=units, **where),
        Event(one.start, Kind.GPU, name, duration=one.end - one.start, detail=units, **where),
        Event(one.finish, Kind.COMPLETE, name, one.job, one.finish - one.release),
    ]


def _power(setup: Setup, gpu: int, runs: list[Execution], horizon: int) -> tuple[tuple[int, int], ...]:
    """The power that a GPU draws from each instant on, mW, rounded down."""
    device = setup.system.gpus[gpu]
    found = [(0, device.static // 1000)]
    for now, power in power_steps(device, runs):
        if now < horizon:
            found.append((now, power // 1000))
    return (*found, (horizon, found[-1][1]))


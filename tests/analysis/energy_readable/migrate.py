# SPDX-License-Identifier: GPL-2.0
"""sBEET-mg: algorithm 5, which sends a job to its assigned GPU, to another one, or lets it wait."""

from __future__ import annotations

from analysis.energy.setup import Setup
from energy_readable.allocate import Candidate, candidate, energy, on_gpu
from energy_readable.state import Dispatching, ReleasedJob, UnitsState, free_units, is_full, planned


def migrate(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
    """Where the job is dispatched now; None: it waits."""
    home = setup.assigned[job.task]
    best = setup.best[job.task][home]
    if not state.running[home]:
        stay = candidate(setup, state, home, job, best)
        away = _elsewhere(setup, state, job, idle_too=False)
        if not stay.ok and away is None:
            return Dispatching(home, setup.system.gpus[home].whole)
        if away is not None and (not stay.ok or away[1].energy < stay.energy):
            return Dispatching(away[0], away[1].units)
        return Dispatching(home, best)
    if not is_full(setup, state, home):
        found = on_gpu(setup, state, home, job)
        return Dispatching(home, found.units) if found else None
    later = _waiting(setup, state, job)
    if later is not None and not setup.options.weigh:
        return None
    away = _elsewhere(setup, state, job, idle_too=True)
    if away is not None and (later is None or away[1].energy < later):
        return Dispatching(away[0], away[1].units)
    return None


def _elsewhere(setup: Setup, state: UnitsState, job: ReleasedJob, idle_too: bool) -> tuple[int, Candidate] | None:
    """The candidate of least energy on another GPU, ties in order of preference."""
    found = []
    for gpu in setup.preferred[job.task]:
        if gpu != setup.assigned[job.task] and (idle_too or state.running[gpu]):
            one = on_gpu(setup, state, gpu, job)
            if one is not None:
                found.append((gpu, one))
    return min(found, key=lambda pair: pair[1].energy, default=None)


def _waiting(setup: Setup, state: UnitsState, job: ReleasedJob) -> int | None:
    """The energy if the job waits until m^opt units of its full GPU are free; None if it would be late."""
    home = setup.assigned[job.task]
    best, free, start = setup.best[job.task][home], free_units(setup, state, home), state.now
    slots = setup.slots(setup.system.gpus[home]) - len(state.running[home])
    device = setup.system.gpus[home]
    held = device.whole - sum(one.units for one in state.running[home])
    for running in sorted(state.running[home], key=lambda one: one.free):
        if free >= best and slots > 0:
            break
        held, slots, start = held + running.units, slots + 1, running.free
        free = device.allowed(held)
    then = planned(setup, home, job.task, best, start)
    return energy(setup, state, home, [then], then.finish) if then.finish <= job.deadline else None

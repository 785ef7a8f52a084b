# SPDX-License-Identifier: GPL-2.0
"""sBEET on one GPU: algorithm 2 (how many units) and algorithm 3 (what the GPU would then do).

docs/readings.md lists what differs from print and why.  userlib/units/sbeet.c is the compiled form.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.energy.power import Execution
from analysis.energy.setup import Setup
from energy_readable.closed_form import closed_form
from energy_readable.state import ReleasedJob, RunningJob, UnitsState, free_units, is_full, planned


@dataclass(frozen=True, slots=True)
class Candidate:
    """A number of units, the schedule that follows, whether it keeps all its deadlines, and its energy, fJ."""

    units: int
    finish: int
    ok: bool
    energy: int
    placed: tuple[RunningJob, ...]


def window(setup: Setup, state: UnitsState, gpu: int, task: int, until: int) -> list[ReleasedJob]:
    """Future jobs of other tasks assigned to the GPU with now < r < until, in order of (r, d, file order).

    Releases come as early as they can.
    """
    others = [i for i, assigned in enumerate(setup.assigned) if i != task and assigned == gpu]
    found = []
    for index in others:
        one = setup.system.tasks[index]
        release = max(state.earliest[index], state.now + 1)
        while release < until:
            found.append(ReleasedJob(index, -1, release, release + one.deadline))
            release += one.period
    return sorted(found, key=lambda job: (job.release, job.deadline, job.task))


def generate(
    setup: Setup, state: UnitsState, gpu: int, job: ReleasedJob, units: int, coming: list[ReleasedJob]
) -> tuple[bool, list[RunningJob]]:
    """Algorithm 3: the job on ``units`` units now, and the coming jobs beside or after it.

    Returns whether it and all that were placed keep their deadlines, and what was placed.
    """
    device = setup.system.gpus[gpu]
    own = planned(setup, gpu, job.task, units, state.now)
    placed, ok = [own], own.finish <= job.deadline
    beside = state.running[gpu][0] if state.running[gpu] else None
    if beside is None:
        rest, now = device.allowed(device.whole - units), state.now
    elif beside.free <= own.free:
        rest, now = device.allowed(device.whole - units), beside.free
    else:
        rest, now = device.allowed(device.whole - beside.units), own.free
    alone = beside is None and units == device.whole
    if alone or (setup.options.active and not rest):
        now = max(own.free, beside.free if beside else 0)
    last = max(own.free, beside.free if beside else 0)
    for one in coming:
        after = alone or (setup.options.active and now >= last)
        count = min(device.whole if after else rest, setup.best[one.task][gpu])
        if not count:
            continue
        next_one = planned(setup, gpu, one.task, count, max(now, one.release))
        placed.append(next_one)
        ok = ok and next_one.finish <= one.deadline
        now = next_one.free
        if now >= own.finish and not alone and not setup.options.active:
            break
    return ok, placed


def energy(setup: Setup, state: UnitsState, gpu: int | None, placed: list[RunningJob], until: int) -> int:
    """The energy of all GPUs, fJ: their running kernels, and on ``gpu`` what is placed.

    Over [now, until] with static power (equation 3.4), or with ``active`` of the complete schedule without it.
    """
    total = 0
    for index, device in enumerate(setup.system.gpus):
        jobs = [*state.running[index], *(placed if index == gpu else [])]
        runs = [Execution(index, one.units, one.start, one.end, setup.kernel(one.task, index).power) for one in jobs]
        if setup.options.active:
            total += closed_form(device, runs, state.now, max([state.now, *(one.end for one in jobs)])).active
        else:
            total += closed_form(device, runs, state.now, until).total
    return total


def candidate(
    setup: Setup, state: UnitsState, gpu: int, job: ReleasedJob, units: int, until: int | None = None
) -> Candidate:
    """The outcome if the job gets ``units`` units now; ``until``: the end of the window, its finish unless given."""
    finish = planned(setup, gpu, job.task, units, state.now).finish
    coming = window(setup, state, gpu, job.task, finish if until is None else until)
    ok, placed = generate(setup, state, gpu, job, units, coming)
    return Candidate(units, finish, ok, energy(setup, state, gpu, placed, finish), tuple(placed))


def candidates(setup: Setup, state: UnitsState, gpu: int, job: ReleasedJob) -> list[Candidate]:
    """All that algorithm 2 compares on an idle GPU: m^opt units down to the least count."""
    counts = [units for units in setup.system.gpus[gpu].counts if units <= setup.best[job.task][gpu]]
    until = None
    if setup.options.active:
        until = max(planned(setup, gpu, job.task, units, state.now).finish for units in counts)
    return [candidate(setup, state, gpu, job, units, until) for units in reversed(counts)]


def allocate(setup: Setup, state: UnitsState, gpu: int, job: ReleasedJob) -> Candidate | None:
    """Algorithm 2 on a GPU that is not full; None: the job waits.

    On an idle GPU: the candidate of least energy that keeps all deadlines, or of least energy if none does; ties go to
    more units.  Beside a running job: as many units as are free, up to m^opt.  The job waits if that misses a deadline
    or if waiting for the whole GPU is faster.
    """
    running = state.running[gpu]
    if not running:
        found = candidates(setup, state, gpu, job)
        good = [one for one in found if one.ok]
        return min(good or found, key=lambda one: one.energy)
    units = min(free_units(setup, state, gpu), setup.best[job.task][gpu])
    finish = planned(setup, gpu, job.task, units, state.now).finish
    whole = setup.kernel(job.task, gpu).whole_job(setup.system.gpus[gpu].whole)
    if finish > running[0].free + whole:
        return None
    only = candidate(setup, state, gpu, job, units)
    return only if only.ok else None


def on_gpu(setup: Setup, state: UnitsState, gpu: int, job: ReleasedJob) -> Candidate | None:
    """sBEET(pi_k, J) of algorithm 5; None, an infinite energy, if the GPU is full or the job would wait.

    On a GPU that the task is not assigned to, also if a deadline would be missed.
    """
    if is_full(setup, state, gpu):
        return None
    found = allocate(setup, state, gpu, job)
    if found is None or (gpu != setup.assigned[job.task] and not found.ok):
        return None
    return found

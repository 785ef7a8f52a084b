# SPDX-License-Identifier: GPL-2.0
"""The cyclic schedule: what a policy does with periodic jobs and worst cases, as a table that is replayed by time.

Theorem: let releases be strictly periodic with the given offsets, and let no execution, interference included, exceed
its worst case.  A job that is dispatched at the table's time on the table's units then finishes no later than there.
Units are disjoint in the table over the worst-case intervals, hence over shorter ones, and starts are fixed, so there
is no anomaly.  It does not hold for sporadic tasks: a job that comes just after its slot waits up to a period.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from analysis.energy import compiled
from analysis.energy.outcome import Dispatch, EnergyOutcome, EnergyRun, executions
from analysis.energy.power import Energy, closed_form
from analysis.energy.setup import Setup
from analysis.model.energy import MAX_ENERGY_TIME_NS
from gpurt.units import format_time

#: The most hyperperiods in which the search for an equal state continues, and the most jobs that it simulates.
ROUNDS, MOST_JOBS = 64, 2_000_000


class NoTableError(ValueError):
    """There is no table, or it would be too long; the text says why."""


@dataclass(frozen=True)
class Table:
    """``prefix``: dispatches before ``begin``, done once; ``cycle``: those of [begin, begin + length), for ever."""

    setup: Setup
    begin: int
    length: int
    prefix: tuple[Dispatch, ...]
    cycle: tuple[Dispatch, ...]

    def unrolled(self, cycles: int) -> Iterator[Dispatch]:
        """The dispatches of the prefix and of so many cycles."""
        yield from self.prefix
        for index in range(cycles):
            for one in self.cycle:
                jobs = index * (self.length // self.setup.system.tasks[one.task].period)
                yield _later(one, index * self.length, jobs)

    @property
    def energies(self) -> list[Energy]:
        """The energy of a cycle by GPU, what is still running at its begin included."""
        runs = executions(self.setup, tuple(self.unrolled(3)))
        begin = self.begin + self.length
        gpus = self.setup.system.gpus
        return [closed_form(gpu, own, begin, begin + self.length) for gpu, own in zip(gpus, runs, strict=True)]


def _later(one: Dispatch, by: int, jobs: int) -> Dispatch:
    times = {name: getattr(one, name) + by for name in ("release", "at", "start", "end", "finish")}
    return replace(one, job=one.job + jobs, **times)


def hyperperiod(setup: Setup) -> int:
    """The least common multiple of the periods, ns."""
    return math.lcm(*(task.period for task in setup.system.tasks))


def make(setup: Setup) -> Table:
    """The table of a policy.  Raises NoTableError if states do not repeat, or if it would have too many jobs."""
    if setup.options.run_late:
        raise NoTableError("a table is for jobs that are skipped at their deadline")
    for task, own in zip(setup.system.tasks, setup.sets, strict=False):
        if max(own) - min(own) >= len(own):
            raise NoTableError(f"{task.name}'s own units are not side by side, as a table's are")
    whole = hyperperiod(setup)
    jobs = sum(whole // task.period for task in setup.system.tasks)
    first = max(task.offset for task in setup.system.tasks)
    seen: dict[object, int] = {}
    for rounds in (2, 8, ROUNDS):
        horizon = first + rounds * whole
        released = sum(horizon // task.period + 1 for task in setup.system.tasks)
        if horizon >= MAX_ENERGY_TIME_NS or released > MOST_JOBS:
            break
        outcome = compiled.simulate_compiled(setup, EnergyRun(horizon + 1), log=released)
        seen.clear()
        for index in range(rounds + 1):
            state = _state(setup, outcome, first + index * whole)
            if state in seen:
                return _cut(setup, outcome, first + seen[state] * whole, first + index * whole)
            seen[state] = index
    if len(seen) > ROUNDS:
        raise NoTableError(f"the schedule does not repeat within {ROUNDS} hyperperiods")
    length = f"a hyperperiod has {jobs} jobs and lasts {format_time(whole)}"
    raise NoTableError(f"{length}: choose periods with a smaller common multiple")


def _state(setup: Setup, outcome: EnergyOutcome, now: int) -> object:
    """The jobs that are ready and those that run just before ``now``, with times relative to it."""
    started = {(one.task, one.job) for one in outcome.dispatches if one.at < now}
    running = [
        (one.task, one.gpu, one.units, one.first, one.at - now)
        for one in outcome.dispatches if one.at < now <= one.finish
    ]  # fmt: skip
    ready = []
    for index, task in enumerate(setup.system.tasks):
        job = -(-(now - task.offset) // task.period) - 1  # the last one released before now
        release = task.offset + job * task.period
        if job >= 0 and (index, job) not in started and release + task.deadline >= now:
            ready.append((index, release - now))
    return tuple(running), tuple(ready)


def _cut(setup: Setup, outcome: EnergyOutcome, begin: int, end: int) -> Table:
    dispatches = [_on_own_units(setup, one) for one in outcome.dispatches]
    cycle = tuple(one for one in dispatches if begin <= one.at < end)
    return Table(setup, begin, end - begin, tuple(one for one in dispatches if one.at < begin), cycle)


def _on_own_units(setup: Setup, one: Dispatch) -> Dispatch:
    """The dispatch on the units that its task owns (STGM), which a simulation does not tell."""
    return replace(one, first=min(setup.sets[one.task])) if setup.sets else one


def faults(table: Table) -> list[str]:
    """The faults of a table: deadlines, jobs left out, and units or slots held twice; empty if there are none.

    The check looks at the prefix and two cycles, from the model alone.
    """
    system, end = table.setup.system, table.begin + 2 * table.length
    found, dispatches = [], list(table.unrolled(2))
    by_job = {(one.task, one.job): one for one in dispatches}
    if len(by_job) != len(dispatches):
        found.append("a job is dispatched twice")
    for index, task in enumerate(system.tasks):
        last = None
        for job in range(max(0, -(-(end - task.deadline - task.offset) // task.period))):
            one, release = by_job.get((index, job)), task.offset + job * task.period
            if one is None:
                found.append(f"job {job} of {task.name}, released at {release} ns, is left out")
                continue
            if one.at < release or (last is not None and one.at < last.finish):
                found.append(f"job {job} of {task.name} starts before it is released or its predecessor is done")
            if one.finish > release + task.deadline:
                found.append(f"job {job} of {task.name} is late by {one.finish - release - task.deadline} ns")
            last = one
    return found + _overlaps(table.setup, dispatches)


def _overlaps(setup: Setup, dispatches: list[Dispatch]) -> list[str]:
    """Jobs that hold the same units at the same time, more jobs than slots, units above the limit, wrong lengths."""
    found = []
    for one in dispatches:
        gpu, kernel = setup.system.gpus[one.gpu], setup.kernel(one.task, one.gpu)
        name = f"job {one.job} of {setup.system.tasks[one.task].name}"
        if one.units not in gpu.counts or one.first + one.units > gpu.limit:
            found.append(f"{name} has units that {gpu.name} has not")
        elif (one.start, one.end) != (one.at + kernel.copy_in, one.at + kernel.copy_in + kernel.time(one.units)):
            found.append(f"{name} is planned with another length than its worst case")
    for gpu_index, gpu in enumerate(setup.system.gpus):
        held: list[Dispatch] = []
        for one in sorted((one for one in dispatches if one.gpu == gpu_index), key=lambda one: one.at):
            held = [other for other in held if (other.finish if setup.hold_job else other.end) > one.at]
            clash = any(one.first < other.first + other.units and other.first < one.first + one.units for other in held)
            if len(held) >= setup.slots(gpu) or clash:
                found.append(f"{gpu.name}: two jobs hold the same units or slot at {one.at} ns")
            held.append(one)
    return found

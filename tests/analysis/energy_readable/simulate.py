# SPDX-License-Identifier: GPL-2.0
"""The readable simulation of a spatial GPU in virtual time; analysis/native/energy_sim.c is the compiled one.

The simulation does the same at each instant at which something happens.  Jobs that are done finish, ready jobs at their
deadline are skipped, and jobs are released.  One pass over the ready queue then dispatches (algorithm 1; specification,
section 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.energy.outcome import (
    Dispatch,
    EnergyOutcome,
    EnergyRun,
    GpuCount,
    Skip,
    TaskCount,
    executions,
)
from analysis.energy.power import Energy, Execution, power_steps
from analysis.energy.setup import Setup
from analysis.model.energy import SpatialGpu
from energy_readable.baselines import decide
from energy_readable.closed_form import closed_form, union
from energy_readable.state import Dispatching, ReleasedJob, RunningJob, UnitsState, in_order, is_full, planned

#: A time that never comes.
NEVER_NS = 2**64 - 1
#: splitmix64's constants, as in analysis/native/random.h.
_STEP, _MIX1, _MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1


class Draws:
    """A task's random numbers: splitmix64, the same as the compiled simulator's."""

    def __init__(self, seed: int, task: int) -> None:
        self._state = (seed + task * 0xD1B54A32D192ED03) & _MASK

    def bits(self) -> int:
        """64 random bits."""
        self._state = (self._state + _STEP) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * _MIX1) & _MASK
        z = ((z ^ (z >> 27)) * _MIX2) & _MASK
        return z ^ (z >> 31)


def scaled(bits: int, low: int, high: int) -> int:
    """An integer from low to high."""
    return low + (bits * (high - low + 1) >> 64)


@dataclass(slots=True)
class _Count:
    released: int = 0
    judged: int = 0
    late: int = 0
    skipped: int = 0
    lateness: int | None = None


@dataclass(slots=True)
class _Slot:
    """A job that holds units: as planned, and when it really ends."""

    plan: RunningJob
    first: int
    free: int


class _Simulation:
    def __init__(self, setup: Setup, run: EnergyRun) -> None:
        tasks = setup.system.tasks
        self.setup, self.run = setup, run
        self.draws = [Draws(run.seed, index) for index in range(len(tasks))]
        self.next = [self._first(index) for index in range(len(tasks))]
        self.state = UnitsState(0, [[] for _ in setup.system.gpus], list(self.next))
        self.slots: list[list[_Slot]] = [[] for _ in setup.system.gpus]
        self.unfinished: dict[int, tuple[ReleasedJob, int]] = {}
        self.fractions: dict[tuple[int, int], int] = {}
        self.counts = [_Count() for _ in tasks]
        self.dispatches: list[Dispatch] = []
        self.skips: list[Skip] = []
        self.away = 0
        self.end = NEVER_NS if run.complete else run.horizon
        self.last = run.horizon
        for index, release in enumerate(self.next):
            self._stop(index, release)

    def _stop(self, index: int, release: int) -> None:
        """A run that is complete releases nothing from the horizon on."""
        if self.run.complete and release >= self.run.horizon:
            self.next[index] = self.state.earliest[index] = NEVER_NS

    def _first(self, index: int) -> int:
        bits, task = self.draws[index].bits(), self.setup.system.tasks[index]
        return scaled(bits, 0, task.period - 1) if self.run.random_offsets else task.offset

    def go(self) -> None:
        """Until the horizon."""
        while (now := self._following()) < self.end:
            self.state.now = now
            self.last = max(self.last, now)
            self._finish(now)
            if not self.setup.options.run_late:
                self._skip(now)
            self._release(now)
            self._dispatch()
        self._close()

    def _following(self) -> int:
        """The next instant at which something happens."""
        times = [*self.next, *(finish for _, finish in self.unfinished.values())]
        times += [slot.free for slots in self.slots for slot in slots]
        if not self.setup.options.run_late:
            times += [job.deadline for job in self.state.ready]
        return min(times)

    def _finish(self, now: int) -> None:
        for gpu, slots in enumerate(self.slots):
            self.slots[gpu] = [slot for slot in slots if slot.free > now]
            self.state.running[gpu] = [slot.plan for slot in self.slots[gpu]]
        for task, (job, finish) in list(self.unfinished.items()):
            if finish <= now:
                self._judge(job, finish)
                del self.unfinished[task]

    def _judge(self, job: ReleasedJob, finish: int) -> None:
        count, lateness = self.counts[job.task], finish - job.deadline
        count.lateness = lateness if count.lateness is None else max(count.lateness, lateness)
        if job.deadline < self.end:
            count.judged += 1
            count.late += lateness > 0

    def _skip(self, now: int) -> None:
        for job in [job for job in self.state.ready if job.deadline <= now]:
            self.state.ready.remove(job)
            self.skips.append(Skip(job.task, job.number, job.release, now))
            self.counts[job.task].judged += 1
            self.counts[job.task].skipped += 1

    def _release(self, now: int) -> None:
        for index, task in enumerate(self.setup.system.tasks):
            if self.next[index] > now:
                continue
            count, release = self.counts[index], self.next[index]
            job = ReleasedJob(index, count.released, release, release + task.deadline)
            self.state.ready.append(job)
            self.fractions[index, job.number] = self.draws[index].bits()
            late, most = self.draws[index].bits(), task.period // 10
            self.state.earliest[index] = release + task.period
            self.next[index] = release + task.period + (scaled(late, 0, most) if self.run.sporadic else 0)
            self._stop(index, self.next[index])
            count.released += 1

    def _dispatch(self) -> None:
        """Algorithm 1: one pass over the ready queue."""
        self.state.ready = in_order(self.setup, self.state.ready)
        gpus, behind = range(len(self.slots)), set(self.unfinished)
        for job in list(self.state.ready):
            if all(is_full(self.setup, self.state, gpu) for gpu in gpus):
                return
            if job.task in behind:
                continue
            behind.add(job.task)
            decision = decide(self.setup, self.state, job)
            if decision is not None:
                self._start(job, decision)

    def _start(self, job: ReleasedJob, decision: Dispatching) -> None:
        gpu, units = decision.gpu, decision.units
        plan = planned(self.setup, gpu, job.task, units, self.state.now)
        kernel = self.setup.kernel(job.task, gpu)
        early = plan.end - plan.start - self._length(job, gpu, units)
        actual = replace(plan, end=plan.end - early, free=plan.free - early, finish=plan.finish - early)
        bottom = all(slot.first for slot in self.slots[gpu])
        first = 0 if bottom else self.setup.system.gpus[gpu].whole - units
        self.slots[gpu].append(_Slot(plan, first, actual.free))
        self.state.running[gpu].append(plan)
        self.state.ready.remove(job)
        self.unfinished[job.task] = job, actual.finish
        self.away += gpu != self.setup.assigned[job.task]
        self.dispatches.append(
            Dispatch(job.task, job.number, gpu, units, first, job.release, self.state.now, actual.start, actual.end,
                     actual.end + kernel.copy_out)
        )  # fmt: skip

    def _length(self, job: ReleasedJob, gpu: int, units: int) -> int:
        time = self.setup.kernel(job.task, gpu).times.row(units)
        if self.run.execution == "random":
            return scaled(self.fractions[job.task, job.number], time.best, time.worst)
        return time.worst if self.run.execution == "worst" else time.best

    def _close(self) -> None:
        """Judges what was due before the horizon and is not done."""
        for job, finish in self.unfinished.values():
            self._judge(job, finish)
        for job in self.state.ready:
            if job.deadline < self.end:
                self.counts[job.task].judged += 1
                self.counts[job.task].late += 1


def _order(skip: Skip) -> tuple[int, int]:
    return skip.at, skip.task


def integral(gpu: SpatialGpu, executions: Sequence[Execution], begin: int, end: int) -> int:
    """The energy of one GPU over [begin, end), fJ: the sum of power times length (equation 3.3)."""
    power, since, energy = gpu.static, begin, 0
    for now, after in power_steps(gpu, executions):
        if now > begin:
            until = min(now, end)
            energy += power * max(0, until - since)
            since = max(since, until)
        power = after
    return energy + power * (end - since)


def simulate(setup: Setup, run: EnergyRun) -> EnergyOutcome:
    """One run, with its energy integrated over the instants."""
    simulation = _Simulation(setup, run)
    simulation.go()
    dispatches = tuple(simulation.dispatches)
    gpus, end_of_run = [], simulation.last
    for gpu, runs in zip(setup.system.gpus, executions(setup, dispatches), strict=True):
        ends = [(one, min(one.end, end_of_run)) for one in runs if one.start < end_of_run]
        used = sum(one.units * (end - one.start) for one, end in ends)
        dynamic = sum(one.units * (end - one.start) * one.power for one, end in ends)
        static, total = gpu.static * end_of_run, integral(gpu, runs, 0, end_of_run)
        split = Energy(static, total - static - dynamic, dynamic)
        busy = union((one.start, end) for one, end in ends)
        assert split == closed_form(gpu, runs, 0, end_of_run)
        gpus.append(GpuCount(split, busy, sum(end - one.start for one, end in ends), used))
    tasks = tuple(TaskCount(one.released, one.judged, one.late, one.skipped, one.lateness) for one in simulation.counts)
    skips = tuple(sorted(simulation.skips, key=_order))
    return EnergyOutcome(tasks, tuple(gpus), dispatches, skips, simulation.away, end=end_of_run)

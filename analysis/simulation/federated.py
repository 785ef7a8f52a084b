# SPDX-License-Identifier: GPL-2.0
"""`gpurt simulate --policy federated`: each task with kernels has units of its own, and copies go by the core's bus.

On the GPU nothing waits or is preempted.  The bus of kmod/core/bus.c decides which copy is next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis.chains.observed import observed
from analysis.model import FEDERATED, Task, Taskset
from analysis.rtgpu.allocate import run_allocation
from analysis.rtgpu.analyse import System, Units, on_units
from analysis.rtgpu.assumed import assumed_of_units
from analysis.rtgpu.chain import Need
from analysis.rtgpu.method import RTGPU, STGM, Method
from analysis.rtgpu.simulate import Simulated, Way
from analysis.rtgpu.verdict import stated_units, too_many
from analysis.simulation.simulate import MAX_VIRTUAL_NS, Observed, Options, Simulation, SimulationError, default_horizon
from analysis.traces.trace import About, Event, Kind, Trace, costs_of, placed_of, traced_times
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: The most events of a run in which chains are measured.
MOST_EVENTS = 1_000_000
#: The number of tasks that have a level of their own on the bus.
MOST_TASKS = int(lib.GPURT_MAX_PRIORITY)
_KINDS = {Need.CPU.value: Kind.CPU, Need.BUS.value: Kind.COPY, Need.UNITS.value: Kind.GPU}


@dataclass(frozen=True)
class Federated:
    """A taskset on the units that its tasks own; ``order``: its tasks in the simulator's order, most urgent first."""

    system: System
    given: Mapping[str, int]
    options: Options

    @classmethod
    def of(cls, taskset: Taskset, options: Options) -> Federated:
        """The taskset on the units of the file, else on the least units for which the test passes.

        Raises SimulationError: no such units, tasks that wait in different ways, more tasks than levels, equal
        priorities, or a feature that the bounds refuse.
        """
        system = System(_method(taskset, options), taskset, taskset.platform.bus_chunk)
        if why := taskset.unserved("policy federated"):
            raise SimulationError(why)
        if len(taskset) > MOST_TASKS:
            raise SimulationError(f"policy federated: {len(taskset)} tasks, and the bus has {MOST_TASKS} levels")
        if system.ties:
            raise SimulationError("policy federated: tasks of equal priority are not simulated")
        if refusal := system.refusal():
            raise SimulationError(f"policy federated: {refusal}")
        horizon = default_horizon(taskset) if options.horizon is None else options.horizon
        if max([horizon, *(task.period for task in taskset)]) > MAX_VIRTUAL_NS // 4:
            raise SimulationError("times, and 20 times the longest period, must be below 2^60 ns to be simulated")
        return cls(system, _units(system), options)

    @cached_property
    def _simulated(self) -> Simulated:
        return Simulated(self.system, [self.given.get(task.name, 0) for task in self.system.tasks])

    @property
    def order(self) -> list[Task]:
        """The tasks in the order of the compiled simulator."""
        return self._simulated.order

    @property
    def notes(self) -> list[str]:
        """Remarks on the reading of the file."""
        return assumed_of_units(self.system.taskset)

    def bounds(self) -> dict[str, int]:
        """The bounds of the sound test of the waiting mode on these units, ns by task."""
        result = on_units(self.system, self.given)
        return {task.name: wcrt for task in self.order if (wcrt := result.wcrt(task.name)) is not None}

    def worst_over_offsets(self, runs: int, progress: Callable[[int], None] | None = None) -> Simulation:
        """The worst of each task over ``runs`` runs: first all released at 0, then at random within periods."""
        seen = ffi.new("struct gpurt_rtgpu_seen[]", len(self.order) + 1)
        rng = random.Random(self.options.seed)
        for run in range(runs):
            offsets = [rng.randrange(task.period) if run else 0 for task in self.order]
            self._run(offsets, rng.getrandbits(60), seen)
            if progress:
                progress(run + 1)
        return Simulation(self._observed(seen), chains=self._chains())

    def _chains(self) -> dict[str, tuple[int, int, int]]:
        """The longest times of each chain in the first run, ns."""
        taskset = self.system.taskset
        if not taskset.chains:
            return {}
        first, found = self.trace(MOST_EVENTS), {}
        for chain in taskset.chains:
            one = observed(chain, first, taskset)
            found[chain.name] = one.max_reaction or 0, one.max_age or 0, one.max_age_at_output or 0
        return found

    def trace(self, room: int) -> Trace:
        """The run in which all tasks are released at 0, with room for ``room`` events."""
        spans = ffi.new("struct gpurt_rtgpu_span[]", room)
        seen = ffi.new("struct gpurt_rtgpu_seen[]", len(self.order) + 1)
        used = self._run([0] * len(self.order), self.options.seed, seen, spans, room)
        events = sorted((self._event(spans[i]) for i in range(min(used, room))), key=lambda event: event.time)
        if used > room:
            events.append(Event(events[-1].time, Kind.LOST, detail=f"{used - room} events did not fit"))
        waiting = "busy" if self.system.method is STGM else "suspend"
        taskset = self.system.taskset
        meta = {"source": "simulator", "clock": "virtual", "policy": FEDERATED, "waiting": waiting,
                "times": traced_times(taskset), "placed": placed_of(taskset), "costs": costs_of(taskset)}  # fmt: skip
        return Trace(meta, tuple(events), {task.name: About(task.priority, task.deadline) for task in self.order})

    def _run(self, offsets: Sequence[int], seed: int, seen: CData, spans: CData = ffi.NULL, room: int = 0) -> int:
        try:
            sim = self._simulated.prepared(Way(self.options.execution, self.options.sporadic, seed))
        except OverflowError as error:
            raise SimulationError(f"policy federated: {error}") from None
        if self.options.horizon is None:
            sim.horizon = default_horizon(self.system.taskset)
        else:
            sim.horizon = self.options.horizon
        first, longest = ffi.new("int64_t[]", [*offsets, 0]), ffi.new("int64_t[]", len(offsets) + 1)
        sim.offset, sim.seen, sim.marks = first, seen, bool(room)
        used = int(lib.gpurt_rtgpu_simulate(sim, longest, spans, room))
        if used < 0:
            raise MemoryError
        return used

    def _observed(self, seen: CData) -> dict[str, Observed]:
        found = {
            task.name: Observed(s.jobs, s.finished, s.misses, s.worst, s.worst_release, s.total)
            for task, s in zip(self.order, seen, strict=False)
        }
        return {task.name: found[task.name] for task in self.system.taskset}

    def _event(self, span: CData) -> Event:
        task = self.order[span.task]
        if span.need == lib.GPURT_RTGPU_RELEASE:
            return Event(span.end, Kind.RELEASE, task.name, span.job)
        if span.need == lib.GPURT_RTGPU_COMPLETE:
            return Event(span.end, Kind.COMPLETE, task.name, span.job, span.end - span.begin)
        kind = _KINDS[span.need]
        on_cpu = kind is Kind.CPU
        count = self.given.get(task.name, 1)
        units = f"{count} unit{'s' * (count > 1)}" if kind is Kind.GPU else None
        return Event(
            span.begin, kind, task.name, span.job, span.end - span.begin, task.cpu if on_cpu else None,
            None if on_cpu else 0, units,
        )  # fmt: skip


def _method(taskset: Taskset, options: Options) -> Method:
    modes = {options.waiting or task.waiting for task in taskset.real_time if task.uses_gpu}
    if len(modes) > 1:
        raise SimulationError("policy federated: tasks wait busily or suspend, all of them in one way; see --waiting")
    return STGM if any(mode.spins for mode in modes) else RTGPU


def _units(system: System) -> dict[str, int]:
    given = stated_units(system)
    if given is not None:
        if excess := too_many(given, system.taskset.platform.compute_units):
            raise SimulationError(f"policy federated: {excess}")
        return given
    if not any(system.users):
        return {}
    platform = system.taskset.platform
    try:
        result = run_allocation(system, Units.of(platform.compute_units, platform.sizes))
    except ValueError as error:
        raise SimulationError(f"policy federated: {error}") from None
    if not result.schedulable or result.units is None:
        why = result.why or "there are no units"
        raise SimulationError(
            f"policy federated: no units were found for which the deadlines hold ({why}); give each task with a kernel "
            "a partition"
        )
    return dict(result.units)

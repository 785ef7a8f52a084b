# SPDX-License-Identifier: GPL-2.0
"""Simulation of the system of analysis/rtgpu (analysis/native/rtgpu_sim.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from analysis.model import Task
from analysis.rtgpu.analyse import System
from analysis.rtgpu.chain import Need, chain
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: The sum of all times, multiplied by the number of tasks, must be shorter, ns; then all instants fit into 63 bits.
MAX_SUM_NS = 2**58

EXECUTION: dict[str, int] = {
    "worst": lib.GPURT_RTGPU_WORST, "best": lib.GPURT_RTGPU_BEST, "extreme": lib.GPURT_RTGPU_EXTREME,
    "random": lib.GPURT_RTGPU_RANDOM,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    """How to simulate: ``execution``, ``sporadic`` or periodic releases, and a ``seed`` for random choices.

    ``early``: at one instant the bus is given back first, and the least urgent request first; otherwise all request
    first. ``stream``: where tasks wait busily, a chain of copies and kernels goes on without its CPU.
    """

    execution: str = "worst"
    sporadic: bool = False
    seed: int = 0
    stream: bool = True
    early: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a step, ns.  ``asked``: for a copy, when it requested the bus."""

    task: int
    need: Need
    begin: int
    end: int
    asked: int


@dataclass(frozen=True)
class Simulated:
    """A system to simulate; its methods must all be called in one thread.  ``given``: units of the real-time tasks."""

    system: System
    given: Sequence[int]

    @cached_property
    def order(self) -> list[Task]:
        """The tasks in the order of the compiled simulator, most urgent first."""
        return [*self.system.tasks, *(task for task in self.system.taskset if task.best_effort)]

    @cached_property
    def _arrays(self) -> dict[str, CData]:
        """The arrays of struct gpurt_rtgpu_sim.  Raises the same errors as ``prepared``."""
        order = self.order
        units = [*self.given, *[1] * (len(order) - len(self.given))]
        chains = [chain(task, count).steps for task, count in zip(order, units, strict=True)]
        steps = [step for one in chains for step in one]
        if (sum(step.worst for step in steps) + sum(task.period for task in order)) * len(order) > MAX_SUM_NS:
            raise OverflowError("times are too long to be simulated")
        numbers = {
            "cpu": [task.cpu for task in order], "need": [step.need.value for step in steps],
            "steps": list(accumulate(map(len, chains), initial=0)),
        }  # fmt: skip
        times = {
            "period": [task.period for task in order], "deadline": [task.deadline for task in order],
            "best": [step.best for step in steps], "worst": [step.worst for step in steps],
        }  # fmt: skip
        arrays = {name: ffi.new("u32[]", values) for name, values in numbers.items()}
        return arrays | {name: ffi.new("int64_t[]", values) for name, values in times.items()}

    def prepared(self, way: Way, cycles: int = 1) -> CData:
        """The C struct that says how to simulate, valid as long as this object.

        Raises ValueError if a task with a kernel has no unit, OverflowError if times are too long.
        """
        sim, method = ffi.new("struct gpurt_rtgpu_sim *"), self.system.method
        for name, values in self._arrays.items():
            setattr(sim, name, values)
        sim.tasks, sim.chunk = len(self.order), self.system.chunk
        sim.spins, sim.stream, sim.merges = not method.forms, way.stream, method.merges
        sim.execution, sim.sporadic, sim.seed = EXECUTION[way.execution], way.sporadic, way.seed % 2**64
        sim.early = way.early
        sim.horizon = cycles * max((task.period for task in self.order), default=0)
        return sim


def simulate_units(
    simulated: Simulated, offsets: Sequence[int], way: Way = Way(), cycles: int = 4, room: int = 0
) -> tuple[tuple[int, ...], list[Stretch]]:  # fmt: skip
    """The longest response of each task, ns, and up to ``room`` stretches of the run.

    Jobs are released during ``cycles`` times the longest period.  Raises the same errors as ``Simulated.prepared``.
    """
    sim, count = simulated.prepared(way, cycles), len(simulated.order)
    first, longest = ffi.new("int64_t[]", [*offsets, 0]), ffi.new("int64_t[]", count + 1)
    sim.offset = first
    spans = ffi.new("struct gpurt_rtgpu_span[]", room) if room else ffi.NULL
    used = lib.gpurt_rtgpu_simulate(sim, longest, spans, room)
    if used < 0:
        raise MemoryError
    found = [Stretch(s.task, Need(s.need), s.begin, s.end, s.asked) for s in spans[0 : min(used, room)]] if room else []
    return tuple(longest[0:count]), found

# SPDX-License-Identifier: GPL-2.0
"""The compiled bounds and allocation: the same allocations and integers as the readable ones, for many sets at once.

The compiled code computes with 64-bit integers, and for tasks of distinct priorities.  The readable implementation
decides everything else; ``find_units`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.model import Copy, CpuSegment, Task
from analysis.model.kernel import KernelSpan
from analysis.rta.columns import Numbers, Times, i64, pointer, u32
from analysis.rta.result import Reason, Result
from analysis.rtgpu import allocate
from analysis.rtgpu.analyse import System, Units, failed, on_units
from analysis.rtgpu.chain import exact_chain, needs_units
from analysis.rtgpu.method import Method
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: The sum of a taskset's times, as often as it has tasks, must be shorter, ns: then sums of workloads fit into 63 bits.
MAX_SUM_NS = 2**58


@dataclass(frozen=True)
class Batch:
    """Tasksets as a struct of arrays (analysis/native/rtgpu.h)."""

    first: Numbers
    numbers: Mapping[str, Numbers]
    times: Mapping[str, Times]
    columns: int
    chunk: int = 0

    def __len__(self) -> int:
        return len(self.first) - 1

    def view(self) -> CData:
        """The C struct over these arrays, which must outlive it."""
        struct = ffi.new("struct gpurt_rtgpu_batch *")
        struct.count, struct.columns, struct.chunk = len(self), self.columns, self.chunk
        struct.first = pointer("u32", self.first)
        for name, numbers in self.numbers.items():
            setattr(struct, name, pointer("u32", numbers))
        for name, times in self.times.items():
            setattr(struct, name, pointer("int64_t", times))
        return struct


def from_systems(systems: Sequence[System], columns: int) -> Batch:
    """Tasksets under one method and one ``chunk``, on up to ``columns`` units.

    Raises ValueError for tasks of equal priority, and OverflowError if times are too long.
    """
    flat = _Flat(columns)
    for system in systems:
        if system.ties:
            raise ValueError("tasks of equal priority are left to the readable implementation")
        for task in (*system.tasks, *(t for t in system.taskset if t.best_effort)):
            flat.add(exact_chain(task) if system.method.exact else task)
        flat.end_set()
    chunk = systems[0].chunk if systems else 0
    return flat.batch(chunk)


class _Flat:
    """Lists that become the arrays of a batch."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.first, self.steps, self.sum = [0], [0], 0
        self.numbers: dict[str, list[int]] = {key: [] for key in ("cpu", "user", "best_effort", "need", "row")}
        self.times: dict[str, list[int]] = {
            key: [] for key in ("period", "deadline", "best", "worst", "table_best", "table_worst")
        }

    def add(self, task: Task) -> None:
        row = {"cpu": task.cpu, "user": needs_units(task), "best_effort": task.best_effort}
        for name, number in row.items():
            self.numbers[name].append(int(number))
        self.times["period"].append(task.period)
        self.times["deadline"].append(task.deadline)
        self.sum += task.period
        for segment in task.segments:
            if isinstance(segment, CpuSegment):
                self._step(lib.GPURT_RTGPU_CPU, segment.time.best, segment.time.worst)
            elif not segment.parts:
                self._step(lib.GPURT_RTGPU_CPU, segment.misc.best, segment.misc.worst)
                if segment.pure.worst:  # else the task may have no units, hence no column of a row
                    self._row([KernelSpan(segment.pure.best, segment.pure.worst, 0)] * self.columns)
            else:
                for part in segment.parts:
                    if isinstance(part, Copy):
                        self._step(lib.GPURT_RTGPU_BUS, part.time.best, part.time.worst)
                    else:
                        self._row(part.up_to(self.columns))
        self.steps.append(len(self.times["best"]))

    def _step(self, need: int, best: int, worst: int, row: int = 0) -> None:
        self.numbers["need"].append(need)
        self.numbers["row"].append(row)
        self.times["best"].append(best)
        self.times["worst"].append(worst)
        self.sum += worst

    def _row(self, times: list[KernelSpan]) -> None:
        self._step(lib.GPURT_RTGPU_UNITS, 0, 0, len(self.times["table_best"]) // self.columns)
        self.times["table_best"] += [time.best for time in times]
        self.times["table_worst"] += [time.worst for time in times]
        self.sum += times[0].worst

    def end_set(self) -> None:
        self.first.append(len(self.times["period"]))
        if self.sum * (self.first[-1] - self.first[-2]) > MAX_SUM_NS:
            raise OverflowError("times are too long for the compiled analysis")
        self.sum = 0

    def batch(self, chunk: int) -> Batch:
        listed = {name: u32(values or [0]) for name, values in self.numbers.items()}
        listed["steps"] = u32(self.steps)
        long = {name: i64(values or [0]) for name, values in self.times.items()}
        return Batch(u32(self.first), listed, long, self.columns, chunk)


def facts_of(method: Method, search: bool) -> CData:
    """The C struct of a method; ``search``: allocations are searched, not only the least one tried."""
    facts = ffi.new("struct gpurt_rtgpu_method *")
    facts.forms, facts.tight, facts.merges = len(method.forms), method.tight, method.merges
    facts.refined, facts.published, facts.search = method.refined, method.published, search
    return facts


def units_of(units: Units) -> CData:
    """The C struct of the units that there are."""
    return ffi.new("struct gpurt_rtgpu_units *", {"total": units.total, "step": units.step, "least": units.least})


def given(batch: Batch, index: int, method: Method, units: Units) -> allocate.Allocation | None:
    """The allocation that is found for one taskset of a batch; None if there is none.

    Kernels' bounds must not grow with units.  Raises Endless if the search did not end.
    """
    found = _find(batch, index, facts_of(method, not method.exact_least), units)
    return found[0] if found else None


def _find(
    batch: Batch, index: int, facts: CData, units: Units
) -> tuple[allocate.Allocation, tuple[int, ...]] | None:  # fmt: skip
    """Units of the real-time tasks and their bounds, ns."""
    begin, end = map(int, batch.first[index : index + 2])
    count = end - begin - int(sum(batch.numbers["best_effort"][begin:end]))
    allocation, wcrts = ffi.new("u32[]", count + 1), ffi.new("int64_t[]", count + 1)
    answer = lib.gpurt_rtgpu_find(batch.view(), facts, index, units_of(units), allocation, wcrts)
    if answer < 0:
        raise MemoryError
    if answer == lib.GPURT_RTGPU_MANY:
        raise allocate.Endless
    return (tuple(allocation[0:count]), tuple(wcrts[0:count])) if answer == lib.GPURT_RTGPU_YES else None


def find_units(system: System, units: Units) -> tuple[allocate.Allocation, tuple[int, ...]] | None:
    """The allocation that ``allocate.find`` finds, and the bounds on it, ns; None if there is none.

    Raises ValueError if the taskset must be left to the readable implementation, and Endless if the search did not end.
    """
    batch = from_systems([system], max(units.total, 1))
    return _find(batch, 0, facts_of(system.method, not allocate.exact_least(system, units)), units)


def run_method(system: System, units: Units) -> Result:
    """The same as ``allocate.run``; what can be compiled is."""
    if system.no_search() is not None or system.ties:
        return allocate.run_allocation(system, units)
    try:
        found = find_units(system, units)
    except allocate.Endless as error:
        return failed(system, Reason.NO_UNITS, str(error))
    except (OverflowError, ValueError):
        return allocate.run_allocation(system, units)
    if found is None:
        return allocate.stuck(system, units).result
    return on_units(system, allocate.named_allocation(system, found[0]))

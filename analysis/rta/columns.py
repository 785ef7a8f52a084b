# SPDX-License-Identifier: GPL-2.0
"""A taskset as flat arrays, for the compiled tests."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from analysis.model import CpuSegment, GpuSegment, Platform, Task, Taskset
from analysis.model.callbacks import Callback, Order
from analysis.rta.boosted import gaps, last_segment
from analysis.rta.regions import whole_segments
from gpurt._gpurt import ffi, lib
from gpurt.enums import numbered
from gpurt.types import CData

if TYPE_CHECKING:  # importing numpy takes longer than an analysis; only generators of many tasksets use its arrays
    import numpy as np
    from numpy.typing import NDArray

#: Arrays of 64-bit times and of 32-bit numbers.
Times: TypeAlias = "array[int] | NDArray[np.int64]"
Numbers: TypeAlias = "array[int] | NDArray[np.uint32]"

NUMBERS = ("cpu", "priority", "gpu_priority", "eta", "busy", "ends", "gaps")
#: Columns of tasks whose thread serves several tasks; all zeros elsewhere.
SERVED = ("thread", "rank", "order")
TIMES = (
    "period", "deadline", "cpu_time", "misc", "pure", "longest", "longest_misc", "last", "last_misc",
)  # fmt: skip
ORDERS = numbered("GPURT_RTA", Order)


@dataclass(frozen=True)
class Columns:
    """A taskset as a struct of arrays (analysis/native/columns.h).

    ``pieces``: CPU time, G^m and G^e of segments: task i has pieces ``first[i]`` to ``first[i + 1] - 1``.
    """

    platform: Platform
    numbers: Mapping[str, Numbers]
    times: Mapping[str, Times]
    first: Numbers = field(repr=False)
    pieces: Sequence[Times] = field(repr=False)

    @cached_property
    def view(self) -> CData:
        """The C struct over these arrays, made once because many tests use it; the arrays must outlive it.

        Raises OverflowError if a cost exceeds 63 bits.
        """
        struct = ffi.new("struct gpurt_columns *")
        struct.count = len(self.numbers["cpu"])
        for name, numbers in self.numbers.items():
            setattr(struct, name, pointer("u32", numbers))
        for name, times in self.times.items():
            setattr(struct, name, pointer("int64_t", times))
        costs = self.platform
        struct.alpha, struct.theta, struct.longest_switch = costs.alpha, costs.theta, costs.longest_switch
        struct.piece = pointer("u32", self.first)
        for name, times in zip(("cpu", "misc", "pure"), self.pieces, strict=True):
            setattr(struct, f"piece_{name}", pointer("int64_t", times))
        return struct


def columns_of(taskset: Taskset) -> Columns:
    """The columns of a taskset.

    Raises OverflowError if a time or a sum of times exceeds 63 bits.  Raises ValueError for tasks that the compiled
    tests do not know, such as tasks of which several jobs can be pending.
    """
    unknown = {
        "cpu_latency, except as a part of segments": taskset.platform.cpu_latency,
        "tasks that others release": taskset.triggers,
        "tasks with workers": taskset.forks,
        "resources": taskset.resources,
        "release jitter or deadlines beyond periods": taskset.pending,
    }
    if found := next((what for what, there in unknown.items() if there), None):
        raise ValueError(f"the compiled tests know no {found}")
    taskset = whole_segments(taskset)
    rows = [_row(task) for task in taskset]
    pieces = [piece for row in rows for piece in row.pieces]
    return Columns(
        taskset.platform,
        {name: u32(row.numbers[at] for row in rows) for at, name in enumerate(NUMBERS)} | _serving(taskset),
        {name: i64(row.times[at] for row in rows) for at, name in enumerate(TIMES)},
        u32(accumulate((len(row.pieces) for row in rows), initial=0)),
        [i64(piece[column] for piece in pieces) for column in range(3)],
    )


def u32(values: Iterable[int]) -> array[int]:
    """An array of 32-bit numbers.  Raises OverflowError if a number does not fit."""
    return array("I", values)


def i64(values: Iterable[int]) -> array[int]:
    """An array of 64-bit times, ns.  Raises OverflowError if a time does not fit."""
    return array("q", values)


class _Row(NamedTuple):
    """A task's values in the columns.  ``pieces``: all CPU time between two GPU segments is one piece."""

    numbers: tuple[int, ...]
    times: tuple[int, ...]
    pieces: Sequence[tuple[int, int, int]]


def _row(task: Task) -> _Row:
    """The task's row, which is kept with the task: a search analyses thousands of tasksets with the same tasks."""
    known = vars(task).get("_row")
    if known is None:
        numbers = (
            task.cpu, task.priority, task.segment_priority, task.eta, task.waiting.spins,
            last_segment(task) is not None, gaps(task),
        )  # fmt: skip
        known = vars(task)["_row"] = _Row(numbers, _times(task), _cut(task))
    found: _Row = known
    return found


def _serving(taskset: Taskset) -> dict[str, Numbers]:
    """By the names in SERVED, for each task: the number of its thread, its rank there and the thread's order."""
    if not taskset.threads:
        return dict.fromkeys(SERVED, u32([0] * len(taskset)))
    rows = list(_served(taskset))
    return {name: u32(row[at] for row in rows) for at, name in enumerate(SERVED)}


def _served(taskset: Taskset) -> Iterator[tuple[int, int, int]]:
    """The rows of the tasks; zeros for a task whose thread serves no other."""
    numbers = {name: number for number, name in enumerate(taskset.threads, 1)}
    for task in taskset:
        if task.thread is None or task.thread.name not in numbers or task.best_effort:
            yield 0, 0, 0
            continue
        timer = lib.GPURT_RTA_TIMER if task.callback is Callback.TIMER else 0
        yield numbers[task.thread.name], task.rank, ORDERS[task.thread.order] + timer


def _cut(task: Task) -> Sequence[tuple[int, int, int]]:
    before, found = 0, []
    for segment in task.segments:
        if isinstance(segment, CpuSegment):
            before += segment.time.worst
            continue
        found.append((before, segment.misc.worst, segment.pure.worst))
        before = 0
    return [*found, (before, 0, 0)]


def _times(task: Task) -> tuple[int, ...]:
    """The times of a task."""
    segments = task.gpu_segments
    return (
        task.period, task.deadline, task.cpu_time, task.misc_time, task.pure_time,
        max((s.misc.worst + s.pure.worst for s in segments), default=0),
        max((s.misc.worst for s in segments), default=0),
        *_last(task),
    )  # fmt: skip


def _last(task: Task) -> tuple[int, int]:
    """G and G^m of the GPU segment that ends a job, apart from empty ones; zeros if a CPU segment ends it."""
    for segment in reversed(task.segments):
        if isinstance(segment, GpuSegment) and segment.misc.worst + segment.pure.worst:
            return segment.misc.worst + segment.pure.worst, segment.misc.worst
        if isinstance(segment, CpuSegment) and segment.time.worst:
            break
    return 0, 0


def pointer(kind: str, values: array[int] | NDArray[Any]) -> CData:
    """A C pointer to an array's elements; the pointer keeps the array alive.  Ten times as fast as numpy's `ctypes`."""
    return ffi.from_buffer(f"{kind}[]", values)

# SPDX-License-Identifier: GPL-2.0
"""Many tasksets as flat arrays, for the compiled generator and tests; conversion from and to analysis.model."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from analysis.model import CpuSegment, GpuSegment, Platform, Segment, Span, Task, Taskset, Waiting
from analysis.model.callbacks import Callback, Order
from analysis.model.driver import longest_slice, settled
from analysis.model.fold import parts_apart
from analysis.rta.boosted import gaps, last_segment
from analysis.rta.regions import whole_segments
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

if TYPE_CHECKING:  # numpy takes longer to import than an analysis takes; what draws many tasksets has its arrays
    import numpy as np
    from numpy.typing import NDArray

#: Arrays of 64-bit times and of 32-bit numbers.
Times: TypeAlias = "array[int] | NDArray[np.int64]"
Numbers: TypeAlias = "array[int] | NDArray[np.uint32]"

NUMBERS = ("cpu", "priority", "gpu_priority", "eta", "busy", "ends", "gaps")
#: Columns of tasks whose thread serves several tasks; all zeros elsewhere.
SERVED = ("thread", "rank", "order")
TIMES = (
    "period", "deadline", "cpu_time", "misc", "pure", "longest", "longest_misc", "longest_pure", "last", "last_misc",
    "slices",
)  # fmt: skip


ORDERS = {
    Order.FIFO: lib.GPURT_RTA_FIFO,
    Order.PRIORITY: lib.GPURT_RTA_PRIORITY,
    Order.ROS2: lib.GPURT_RTA_ROS2,
    Order.LIVE_TIMERS: lib.GPURT_RTA_LIVE_TIMERS,
}


@dataclass(frozen=True)
class Pieces:
    """The segments of a batch, as CPU time, G^m and G^e: task i has pieces ``first[i]`` to ``first[i + 1] - 1``.

    The last piece of a task has CPU time only.
    """

    first: Numbers
    cpu: Times
    misc: Times
    pure: Times

    def longest(self, begin: int, end: int) -> int:
        """The longest CPU segment or G^e among pieces ``begin`` to ``end - 1``, ns."""
        return int(max(max(self.cpu[begin:end]), max(self.pure[begin:end])))

    def view(self) -> CData:
        """The C struct over these arrays, which must outlive it."""
        struct = ffi.new("struct gpurt_pieces *")
        struct.first = pointer("u32", self.first)
        for name in ("cpu", "misc", "pure"):
            setattr(struct, name, pointer("int64_t", getattr(self, name)))
        return struct


@dataclass(frozen=True)
class Batch:
    """Tasksets as a struct of arrays (analysis/native/batch.h).

    Taskset i has tasks ``first[i]`` to ``first[i + 1] - 1``.  ``pieces``: their segments, None while a batch is filled.
    ``drawn``: pieces are all that there is to the segments; a batch of Tasksets has no best cases.
    """

    platform: Platform
    first: Numbers
    numbers: Mapping[str, Numbers]
    times: Mapping[str, Times]
    pieces: Pieces | None = field(default=None, repr=False)
    drawn: bool = True

    def __len__(self) -> int:
        return len(self.first) - 1

    def on(self, alpha: int, theta: int) -> Batch:
        """The same tasksets on a platform with these costs of an update and a context switch, ns."""
        old = self.platform
        platform = Platform(
            old.cpus, alpha, theta, old.time_slice, old.copy_engine, old.compute_units, stretch=old.stretch
        )
        return Batch(platform, self.first, self.numbers, self.times, self.pieces, self.drawn)

    def view(self) -> CData:
        """The C struct over these arrays, which must outlive it; made once, for many tests ask for it."""
        return self._view

    @cached_property
    def _view(self) -> CData:
        struct = ffi.new("struct gpurt_batch *")
        struct.count = len(self)
        struct.first = pointer("u32", self.first)
        for name, numbers in self.numbers.items():
            setattr(struct, name, pointer("u32", numbers))
        for name, times in self.times.items():
            setattr(struct, name, pointer("int64_t", times))
        costs = self.platform
        struct.alpha, struct.theta, struct.slice = (
            costs.alpha,
            costs.theta,
            longest_slice(costs.time_slice, costs.stretch),
        )
        struct.longest_switch = costs.longest_switch
        if self.pieces is not None:
            struct.piece = pointer("u32", self.pieces.first)
            for name in ("cpu", "misc", "pure"):
                setattr(struct, f"piece_{name}", pointer("int64_t", getattr(self.pieces, name)))
        return struct

    def taskset(self, index: int) -> Taskset:
        """One taskset, for the readable tests; best cases equal worst cases.  Raises ValueError without pieces."""
        if not self.drawn:
            raise ValueError("this batch was made of tasksets, which have the segments")
        tasks = [self._task(at, at - int(self.first[index])) for at in range(*map(int, self.first[index : index + 2]))]
        return Taskset(self.platform, tuple(tasks))

    def _task(self, at: int, index: int) -> Task:
        number = {name: int(values[at]) for name, values in self.numbers.items()}
        return Task(
            f"t{index}", number["cpu"], number["priority"], int(self.times["period"][at]),
            int(self.times["deadline"][at]), self._segments(at),
            Waiting.BUSY if number["busy"] else Waiting.SUSPEND, number["gpu_priority"],
        )  # fmt: skip

    def _segments(self, at: int) -> tuple[Segment, ...]:
        assert self.pieces is not None
        begin, end = map(int, self.pieces.first[at : at + 2])
        segments: list[Segment] = []
        for i in range(begin, end):
            segments.append(CpuSegment(Span.exactly(int(self.pieces.cpu[i]))))
            if i + 1 < end:
                misc, pure = int(self.pieces.misc[i]), int(self.pieces.pure[i])
                segments.append(GpuSegment(Span.exactly(misc), Span.exactly(pure)))
        return tuple(segments)


def from_tasksets(tasksets: Sequence[Taskset]) -> Batch:
    """A batch of tasksets that share a platform, except the number of CPUs.

    Raises OverflowError if a time or a sum of times exceeds 63 bits.  Raises ValueError for different platforms, and
    for tasks of which several jobs can be pending: compiled tests do not know such tasks.
    """
    if any(taskset.platform.cpu_latency for taskset in tasksets):
        raise ValueError("the compiled tests know no cpu_latency, except as a part of segments")
    if any(taskset.triggers for taskset in tasksets):
        raise ValueError("the compiled tests know no tasks that others release")
    if any(taskset.forks for taskset in tasksets):
        raise ValueError("the compiled tests know no tasks with workers")
    if any(taskset.resources for taskset in tasksets):
        raise ValueError("the compiled tests know no resources")
    if any(taskset.pending for taskset in tasksets):
        raise ValueError("the compiled tests know neither release jitter nor deadlines beyond periods")
    sliced = [task for taskset in tasksets for task in parts_apart(taskset)]
    tasksets = [whole_segments(taskset) for taskset in tasksets]
    platform = tasksets[0].platform
    costs = {(p.alpha, p.theta, p.time_slice, p.theta_known, p.stretch) for p in (t.platform for t in tasksets)}
    if len(costs) > 1:
        raise ValueError("the tasksets have different platforms")
    rows = [_row(task) for taskset in tasksets for task in taskset]
    first = u32(accumulate((len(taskset) for taskset in tasksets), initial=0))
    length = settled(platform.time_slice)
    slices = [_slices(task, length) if length else 0 for task in sliced]
    return Batch(
        platform, first,
        {name: u32(row.numbers[at] for row in rows) for at, name in enumerate(NUMBERS)} | _serving(tasksets),
        {name: i64(slices if name == "slices" else (row.times[at] for row in rows)) for at, name in enumerate(TIMES)},
        _pieces(rows), drawn=False,
    )  # fmt: skip


def u32(values: Iterable[int]) -> array[int]:
    """An array of 32-bit numbers.  Raises OverflowError if a number does not fit."""
    return array("I", values)


def i64(values: Iterable[int]) -> array[int]:
    """An array of 64-bit times, ns.  Raises OverflowError for one that does not fit."""
    return array("q", values)


class _Row(NamedTuple):
    """A task as a batch has it.  ``pieces``: what is between two GPU segments is one piece of CPU time."""

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


def _serving(tasksets: Sequence[Taskset]) -> dict[str, Numbers]:
    """By SERVED, of each task: the number of the thread that serves it and others, its rank and the order."""
    if not any(taskset.threads for taskset in tasksets):
        return dict.fromkeys(SERVED, u32([0] * sum(map(len, tasksets))))
    rows = [row for taskset in tasksets for row in _served(taskset)]
    return {name: u32(row[at] for row in rows) for at, name in enumerate(SERVED)}


def _served(taskset: Taskset) -> Iterator[tuple[int, int, int]]:
    """The rows of the tasks; zeros for one whose thread serves no other."""
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


def _pieces(rows: Sequence[_Row]) -> Pieces:
    """The segments of tasks."""
    first = u32(accumulate((len(row.pieces) for row in rows), initial=0))
    table = [piece for row in rows for piece in row.pieces] or [(0, 0, 0)]
    cpu, misc, pure = (i64(piece[column] for piece in table) for column in range(3))
    return Pieces(first, cpu, misc, pure)


def _times(task: Task) -> tuple[int, ...]:
    """The times of a task up to the number of its slices."""
    segments = task.gpu_segments
    return (
        task.period, task.deadline, task.cpu_time, task.misc_time, task.pure_time,
        max((s.misc.worst + s.pure.worst for s in segments), default=0),
        max((s.misc.worst for s in segments), default=0),
        max((s.pure.worst for s in segments), default=0),
        *_last(task),
    )  # fmt: skip


def _slices(task: Task, length: int) -> int:
    return sum(-(-s.pure.worst // length) for s in task.gpu_segments)


def _last(task: Task) -> tuple[int, int]:
    """G and G^m of the GPU segment that a job ends with, apart from empty ones; zeros if it ends with a CPU segment."""
    for segment in reversed(task.segments):
        if isinstance(segment, GpuSegment) and segment.misc.worst + segment.pure.worst:
            return segment.misc.worst + segment.pure.worst, segment.misc.worst
        if isinstance(segment, CpuSegment) and segment.time.worst:
            break
    return 0, 0


def pointer(kind: str, values: array[int] | NDArray[Any]) -> CData:
    """A C pointer to an array's elements, which keeps the array alive.  Ten times as fast as numpy's `ctypes`."""
    return ffi.from_buffer(f"{kind}[]", values)

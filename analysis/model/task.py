# SPDX-License-Identifier: GPL-2.0
"""Tasks and their segments.  Terms are those of GCAPS (ECRTS'24, section 4), times integer nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from analysis.model.callbacks import Callback, Thread
from analysis.model.kernel import Kernel, Span
from analysis.model.partition import Partition
from gpurt.enums import Form


class Waiting(str, Enum):
    """The behaviour of a task on its CPU while its pure GPU segment executes.

    Other code asks a mode for a fact, and does not compare modes.  mypy fails if a new mode leaves a fact undecided.
    """

    BUSY = "busy"
    SUSPEND = "suspend"

    @property
    def spins(self) -> bool:
        """Whether the thread keeps its CPU during the pure GPU segment."""
        match self:
            case Waiting.BUSY:
                return True
            case Waiting.SUSPEND:
                return False

    @property
    def forms(self) -> tuple[Form, Form]:
        """The forms that it allows under policy `boosted`, first the form that follows from it by default."""
        match self:
            case Waiting.BUSY:
                return Form.OWNER, Form.FENCE
            case Waiting.SUSPEND:
                return Form.SELF, Form.OWNER

    @property
    def wakeups(self) -> int:
        """The number of times that a thread wakes in a GPU segment."""
        match self:
            case Waiting.BUSY:
                return 2
            case Waiting.SUSPEND:
                return 3


@dataclass(frozen=True, slots=True)
class CpuSegment:
    """C_{i,j}: a stretch of execution that needs the CPU only."""

    time: Span


@dataclass(frozen=True, slots=True)
class Copy:
    """ML: a copy between host and GPU.  It needs the bus and no CPU."""

    time: Span


@dataclass(frozen=True, slots=True)
class GpuSegment:
    """G_{i,j} = (G^m_{i,j}, G^e_{i,j}): miscellaneous CPU work, then the pure GPU segment.

    ``parts``: the copies and kernels that the pure GPU segment consists of, in order, if they are known.  ``pure`` is
    then their time where the task has all units to itself.  Analyses of a time-shared GPU use only ``pure``; analyses
    of partitioned units (analysis/rtgpu) use ``parts``.

    ``scaling``: G^e by compute units, without conflicts; ``pure`` is then G^e on the task's own units.  None: G^e is
    known for one size only.

    ``ready``: the most times that its group becomes ready on the GPU (once if G^e has no gap); None: unknown.
    """

    misc: Span
    pure: Span
    parts: tuple[Copy | Kernel, ...] = ()
    scaling: Kernel | None = None
    ready: int | None = None


Segment: TypeAlias = CpuSegment | GpuSegment


class Intensity(str, Enum):
    """The resource that a task's kernels use most (contention-aware partitioning, definition 1)."""

    COMPUTE = "compute"
    MEMORY = "memory"


@dataclass(frozen=True)
class Task:
    """One sporadic task, pinned to one CPU.

    ``priority`` is the SCHED_FIFO priority, 1..99, larger is more urgent; 0 makes the task best effort.
    ``gpu_priority`` is the priority of its GPU segments if it differs from ``priority``.
    ``partition`` is its part of the GPU; None: all of it.  ``form`` is the form that its program states; None: the form
    that follows from ``waiting``.  ``conflict``: the factor that slows its GPU work down where a task of the same
    ``intensity`` shares its partition.
    ``thread``: the thread that serves its jobs and those of other tasks, all of the same CPU, priorities and partition.
    None: its thread serves no other task.
    ``rank``: its place in that thread's order, 0 first.  ``callback``: the source that releases its jobs, if known.
    ``jitter``: the longest time from a job's arrival to its release, ns.  Arrivals are at least ``period`` apart.
    Responses and deadlines count from the release.
    ``max_period``: the longest distance of two arrivals, ns: the period if releases are periodic; None: a sporadic
    task may never arrive again.
    ``apart``: the least distance of two releases, whatever the jitter, ns.
    ``process``: the process that its thread shares with other tasks' threads.  None: the thread has a process of its
    own.
    """

    name: str
    cpu: int
    priority: int
    period: int
    deadline: int
    segments: tuple[Segment, ...]
    waiting: Waiting = Waiting.SUSPEND
    gpu_priority: int | None = None
    partition: Partition | None = None
    form: Form | None = None
    intensity: Intensity | None = None
    conflict: Fraction = Fraction(1)
    thread: Thread | None = None
    rank: int = 0
    callback: Callback | None = None
    jitter: int = 0
    max_period: int | None = None
    process: str | None = None
    apart: int = 0

    @cached_property
    def gpu_segments(self) -> tuple[GpuSegment, ...]:
        """The GPU segments in program order."""
        return tuple(s for s in self.segments if isinstance(s, GpuSegment))

    @cached_property
    def cpu_segments(self) -> tuple[CpuSegment, ...]:
        """The CPU segments in program order."""
        return tuple(s for s in self.segments if isinstance(s, CpuSegment))

    @cached_property
    def cpu_time(self) -> int:
        """C_i: cumulative WCET of all CPU segments."""
        return sum(s.time.worst for s in self.cpu_segments)

    @cached_property
    def misc_time(self) -> int:
        """G^m_i: cumulative WCET of the CPU work inside the GPU segments."""
        return sum(s.misc.worst for s in self.gpu_segments)

    @cached_property
    def pure_time(self) -> int:
        """G^e_i: cumulative WCET of the pure GPU segments."""
        return sum(s.pure.worst for s in self.gpu_segments)

    @property
    def gpu_time(self) -> int:
        """G_i, taken as G^m_i + G^e_i (the papers allow less if the two overlap)."""
        return self.misc_time + self.pure_time

    @property
    def eta(self) -> int:
        """eta^g_i: number of GPU segments in a job."""
        return len(self.gpu_segments)

    @property
    def uses_gpu(self) -> bool:
        """Whether a job has at least one GPU segment."""
        return bool(self.gpu_segments)

    def spins(self, waiting: Waiting | None = None) -> bool:
        """Whether it waits busily while the GPU executes its work; ``waiting``: all tasks' mode; None: its own."""
        return self.uses_gpu and (waiting or self.waiting).spins

    @property
    def pends(self) -> bool:
        """Whether a job may be released before the previous job is over, although each meets its deadline."""
        return self.jitter > 0 or self.deadline > self.period

    def released(self, jobs: int) -> int:
        """The least time from the release of a job to the release of the job with a number ``jobs`` larger, ns."""
        return max(jobs * self.period - self.jitter, jobs * self.apart)

    @property
    def longest_gap(self) -> int | None:
        """A: after any instant, a job is released within this time, ns; None if unknown."""
        return None if self.max_period is None else self.max_period + self.jitter

    @property
    def why_pends(self) -> str:
        """Why several jobs can be pending, in words; empty if they cannot."""
        return "release jitter" if self.jitter else "a deadline beyond its period" if self.pends else ""

    @property
    def best_effort(self) -> bool:
        """Whether the task has no real-time priority, and therefore no guaranteed deadline."""
        return self.priority == 0

    def form_in(self, waiting: Waiting) -> Form:
        """Its form in that waiting mode: the form that it states, unless the mode does not allow it."""
        return self.form if self.form is not None and self.form in waiting.forms else waiting.forms[0]

    @property
    def segment_priority(self) -> int:
        """pi^g_i: the priority of the GPU segments."""
        return self.priority if self.gpu_priority is None else self.gpu_priority

    @property
    def highest_priority(self) -> int:
        """The higher one of its CPU and GPU priority."""
        return max(self.priority, self.segment_priority) if self.uses_gpu else self.priority

# SPDX-License-Identifier: GPL-2.0
"""The system model that every analysis, simulation and file of gpurt shares.

Terms are those of GCAPS (ECRTS'24, section 4).  All times are integer nanoseconds; every class is
immutable, so that a bound can be kept together with the taskset that it was computed for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from analysis.callbacks import Callback, Thread
from gpurt.enums import Form

if TYPE_CHECKING:  # only files with partitions need more of it
    from analysis.partition.scaling import Curve

#: Nanoseconds in one millisecond and in one microsecond.
MS = 1_000_000
US = 1_000


#: The policy of a taskset that names none: its bounds are the best ones that hold (docs/boosted-bounds.md).
DEFAULT_POLICY = "boosted"
#: The policy of a file whose tasks own units of the GPU and share its bus.  No host has it (docs/rtgpu.md).
FEDERATED = "federated"


class Waiting(str, Enum):
    """The behaviour of a task on its CPU while its pure GPU segment executes."""

    BUSY = "busy"
    SUSPEND = "suspend"


#: The forms that are right for a waiting mode under policy `boosted`; the first one follows from it.
FORMS = {Waiting.SUSPEND: (Form.SELF, Form.OWNER), Waiting.BUSY: (Form.OWNER, Form.FENCE)}


@dataclass(frozen=True, slots=True)
class Span:
    """Worst-case and best-case execution time of one piece of a segment, in nanoseconds."""

    worst: int
    best: int

    @classmethod
    def exactly(cls, time: int) -> Span:
        """A span whose best and worst case are the same."""
        return cls(time, time)


@dataclass(frozen=True, slots=True)
class CpuSegment:
    """C_{i,j}: a stretch of execution that needs the CPU only."""

    time: Span


@dataclass(frozen=True, slots=True)
class Copy:
    """ML: a copy between host and GPU.  It needs the bus and no CPU."""

    time: Span


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, whose time depends on how many units (SMs or CUs) it has: a formula, or a table of measured times.

    ``work``: GW, its time alone on one unit, ``overhead`` included, ns.  ``overhead``: GL, the part that more units do
    not shorten, ns.  ``interleave``: alpha in thousandths.  ``block``: the longest thread block alone, ns; 0: work
    divides without end.  ``times``: the times by number of units, from one unit on; they replace the formula.
    """

    work: Span
    overhead: int = 0
    interleave: int = 1000
    block: int = 0
    times: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSegment:
    """G_{i,j} = (G^m_{i,j}, G^e_{i,j}): miscellaneous CPU work, then the pure GPU segment.

    ``parts``: the copies and kernels that the pure GPU segment consists of, in order, if they are known.  ``pure`` is
    then their time where the task has all units to itself.  Analyses of a GPU that is shared in time look at ``pure``
    only, those of partitioned units (analysis/rtgpu) at ``parts``.

    ``scaling``: G^e by compute units, without conflicts; ``pure`` is then what it is where the task executes.  None: it
    is known for one size only.
    """

    misc: Span
    pure: Span
    parts: tuple[Copy | Kernel, ...] = ()
    scaling: Curve | None = None


Segment: TypeAlias = CpuSegment | GpuSegment


class Intensity(str, Enum):
    """The resource that a task's kernels use most (contention-aware partitioning, definition 1)."""

    COMPUTE = "compute"
    MEMORY = "memory"


class Sharing(str, Enum):
    """In which order tasks that share a TSG have their work done there."""

    PRIORITY = "priority"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of the GPU, in space or in time.

    ``compute_units``: how many SMs or CUs; ``cu_mask``: which CUs, bit i for CU i.  None: not limited in that way.
    ``name``: of a partition that tasks share; None: what one task may use.  Such a partition may have its own
    ``policy``, ``slice`` (ns) and ``interleave`` of its TSGs, and update costs ``alpha`` and ``theta`` (ns).  None: as
    the platform.  With a ``domain`` of a Tegra's scheduler the slice is that domain's.
    NVIDIA's GPUs are divided in four ways.  ``mps_percentage``: of the SMs; ``mps_partition``: the name of one that
    MPS's daemon has made.  ``green_context``: a number; ``mig``: the name of an instance.
    ``shared``: the partition's tasks are threads of one process and have one TSG together, which does their work in
    that order.  None: each task has a TSG.
    """

    compute_units: int | None = None
    cu_mask: int | None = None
    name: str | None = None
    policy: str | None = None
    slice: int | None = None
    interleave: str | None = None
    alpha: int | None = None
    theta: int | None = None
    mps_percentage: int | None = None
    mps_partition: str | None = None
    green_context: int | None = None
    mig: str | None = None
    domain: str | None = None
    shared: Sharing | None = None

    @property
    def in_time(self) -> bool:
        """Whether it says how its TSGs share the GPU in time."""
        return any(value is not None for value in (self.slice, self.interleave, self.shared))

    @property
    def own_gpu(self) -> bool:
        """Whether it is scheduled as a GPU of its own; else its TSGs share the GPU in time with all others."""
        return self.name is not None and (self.size is not None or not self.in_time)

    @property
    def size(self) -> int | None:
        """How many units it has; None if neither number nor mask says."""
        if self.compute_units is None and self.cu_mask is not None:
            return self.cu_mask.bit_count()
        return self.compute_units


@dataclass(frozen=True)
class Task:
    """One sporadic task, pinned to one CPU.

    ``priority`` is the SCHED_FIFO priority, 1..99, larger is more urgent; 0 makes the task best effort.
    ``gpu_priority`` is the priority of its GPU segments if it differs from ``priority``.
    ``partition`` is its part of the GPU; None: all of it.  ``form`` is the one that its program states; None: the one
    that follows from ``waiting``.  ``conflict``: what its GPU work is slowed down by, where a task of the same
    ``intensity`` shares its partition.
    ``thread``: the one that serves its jobs and those of other tasks, all of the same CPU, priorities and partition.
    None: its thread serves no other task.
    ``rank``: its place in that thread's order, 0 first.  ``callback``: what releases its jobs there, if it is known.
    ``jitter``: how long after its arrival a job may be released, ns.  Arrivals are at least ``period`` apart.
    Responses and deadlines count from the release.
    ``max_period``: the longest distance of two arrivals, ns: the period where releases are periodic; None: a sporadic
    task may be silent for ever.
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

    @property
    def pends(self) -> bool:
        """Whether a job may be released before the one before it is over, although each meets its deadline."""
        return self.jitter > 0 or self.deadline > self.period

    @property
    def longest_gap(self) -> int | None:
        """A: within which time after any instant a job is released, ns; None if nothing says."""
        return None if self.max_period is None else self.max_period + self.jitter

    @property
    def why_pends(self) -> str:
        """Why several jobs can be pending, in words; empty if they cannot."""
        return "release jitter" if self.jitter else "a deadline beyond its period" if self.pends else ""

    @property
    def best_effort(self) -> bool:
        """Whether the task has no real-time priority, hence no deadline that is guaranteed."""
        return self.priority == 0

    def form_in(self, waiting: Waiting) -> Form:
        """Its form if it waits so: the one that it states, unless that is wrong for the mode."""
        return self.form if self.form is not None and self.form in FORMS[waiting] else FORMS[waiting][0]

    @property
    def segment_priority(self) -> int:
        """pi^g_i: the priority of the GPU segments."""
        return self.priority if self.gpu_priority is None else self.gpu_priority

    @property
    def highest_priority(self) -> int:
        """The higher one of its CPU and GPU priority."""
        return max(self.priority, self.segment_priority) if self.uses_gpu else self.priority


@dataclass(frozen=True, slots=True)
class Chain:
    """Tasks of which each reads the last value that the one before it wrote, or is released by the end of its job.

    ``triggered``: the tasks of the latter kind.  ``event``: the first task is released by what the chain reacts to;
    else it samples that.  ``max_reaction``, ``max_age`` and ``max_age_at_output``: what is allowed, ns; None: anything.
    """

    name: str
    tasks: tuple[str, ...]
    event: bool = False
    max_reaction: int | None = None
    max_age: int | None = None
    max_age_at_output: int | None = None
    triggered: tuple[str, ...] = ()

    @property
    def units(self) -> tuple[tuple[str, ...], ...]:
        """The chain, cut at sampled links: the first task of a unit has releases of its own."""
        units: list[tuple[str, ...]] = []
        for name in self.tasks:
            if name in self.triggered:
                units[-1] = (*units[-1], name)
            else:
                units.append((name,))
        return tuple(units)

    @property
    def limited(self) -> bool:
        """Whether the file allows only so much."""
        return (self.max_reaction, self.max_age, self.max_age_at_output) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Fork:
    """A task whose jobs start workers, and sleep until all of them are done; all of them are one group.

    ``after``: how many of the task's segments come before.  Workers have the task's period and deadline, and their
    responses count from the release of its job.  All members have one GPU priority.
    """

    task: str
    after: int
    workers: tuple[str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """The task and its workers."""
        return (self.task, *self.workers)


class Protocol(str, Enum):
    """What happens while one task wants a resource that another one holds."""

    INHERITANCE = "inheritance"
    CEILING = "ceiling"
    SPIN = "spin"


@dataclass(frozen=True, slots=True)
class Section:
    """A critical section of a task's CPU segments: ``time`` ns at most, so many ``times`` a job."""

    task: str
    time: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that one task at a time can hold, on one CPU, or on several if tasks spin for it."""

    name: str
    protocol: Protocol
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Platform:
    """The machine: CPUs and one GPU that time-slices TSGs.  Costs are nanoseconds.

    ``alpha``: runlist update.  ``theta``: GPU context switch.  ``epsilon`` = alpha + theta is what one
    update costs in the analyses (ECRTS'24, definition 2).  ``time_slice``: L of the default driver, as it is set.
    ``stretch``: slices may last longer than they are set to, as a Tegra's do (slices/driver.py).  ``policy``: how the
    GPU is scheduled, by the name of a policy that ships.  ``thread_cpu``: the CPU on which the host's thread of policy
    `job` stays; None: it moves.  ``theta_known``: False if only epsilon or only alpha is known; then ``alpha`` is that,
    and ``theta`` 0.  ``sizes``: how many compute units a partition may have, ascending; empty: any number.
    ``cross_contention``: what memory-intensive work is slowed down by while another partition does such work.
    ``chip``: the GPU's name, for CU masks.  ``bus_chunk``: the longest part of a copy that nothing interrupts, ns,
    where tasks own units; 0: whole copies.
    ``region``: the longest work that a preemption of the GPU may have to wait for, ns.  With 0 none is longer than
    the copies and blocks that segments name.
    ``cpu_latency``: what a wake-up of a thread takes of its CPU at most, ns, until the thread executes.  ``woken``: the
    same by CPU, where the tasks' segments contain their wake-ups already (rta/wakeups.py).
    """

    cpus: int
    alpha: int = 0
    theta: int = 0
    time_slice: int = 1_024 * US
    copy_engine: bool = True
    compute_units: int = 0
    policy: str = DEFAULT_POLICY
    thread_cpu: int | None = None
    theta_known: bool = True
    sizes: tuple[int, ...] = ()
    cross_contention: Fraction = Fraction(1)
    chip: str | None = None
    bus_chunk: int = 0
    stretch: bool = False
    region: int = 0
    cpu_latency: int = 0
    woken: tuple[int, ...] = ()

    @property
    def epsilon(self) -> int:
        """Runlist update cost epsilon = alpha + theta."""
        return self.alpha + self.theta

    def costs(self, part: Partition | None) -> tuple[int, int]:
        """Alpha and theta of updates in a partition, ns; None: where the GPU is one."""
        alpha = self.alpha if part is None or part.alpha is None else part.alpha
        return alpha, self.theta if part is None or part.theta is None else part.theta

    @property
    def longest_switch(self) -> int:
        """The most that a GPU context switch costs: theta, or epsilon where theta is unknown."""
        return self.theta if self.theta_known else self.epsilon


@dataclass(frozen=True)
class Taskset:
    """A platform and its tasks, in the order of the file.

    ``partitions``: those that tasks share.  ``chains``: of tasks.  ``resources``: that tasks hold on CPUs.  ``forks``:
    of tasks with workers.
    """

    platform: Platform
    tasks: tuple[Task, ...] = field(default_factory=tuple)
    partitions: tuple[Partition, ...] = ()
    chains: tuple[Chain, ...] = ()
    resources: tuple[Resource, ...] = ()
    forks: tuple[Fork, ...] = ()

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def real_time(self) -> tuple[Task, ...]:
        """Real-time tasks, most urgent first, ties in file order."""
        return tuple(sorted((t for t in self.tasks if not t.best_effort), key=lambda t: -t.priority))

    @cached_property
    def threads(self) -> dict[str, tuple[Task, ...]]:
        """By name of a thread that serves several tasks these tasks, in the order of their ranks."""
        served: dict[str, list[Task]] = {}
        for task in self.tasks:
            if task.thread is not None:
                served.setdefault(task.thread.name, []).append(task)
        return {
            name: tuple(sorted(tasks, key=lambda t: t.rank)) for name, tasks in served.items() if len(tasks) > 1
        }

    @property
    def unseen(self) -> str:
        """A remark on the time that no bound has where real-time threads serve several tasks; empty elsewhere."""
        names = [name for name, tasks in self.threads.items() if not tasks[0].best_effort]
        if not names:
            return ""
        return (
            f"a job of {', '.join(names)} counts as released when its thread can see it: no bound has the time that "
            "middleware or a timers' thread takes before that (docs/manual/callbacks.md)"
        )

    @cached_property
    def pending(self) -> tuple[Task, ...]:
        """The real-time tasks of which several jobs can be pending."""
        return tuple(task for task in self.real_time if task.pends)

    @cached_property
    def triggers(self) -> dict[str, str]:
        """By task that is released by the end of another one's jobs: that other task."""
        return {
            consumer: producer
            for chain in self.chains for producer, consumer in pairwise(chain.tasks) if consumer in chain.triggered
        }  # fmt: skip

    @cached_property
    def forked(self) -> dict[str, Fork]:
        """By task that has workers, or is one: its fork."""
        return {name: fork for fork in self.forks for name in fork.members}

    def unserved(self, what: str) -> str:
        """Why ``what`` cannot be told of these tasks, for threads, pending jobs, wake-ups or resources; else empty.

        Likewise for workers.
        """
        for fork in self.forks:
            return f"{fork.task} has workers, of which {what} knows nothing"
        for name in self.threads:
            return f"thread {name} serves several tasks, of which {what} knows nothing"
        if self.triggers:
            return f"{next(iter(self.triggers))} is released by the end of another task, of which {what} knows nothing"
        if self.resources:
            return f"the file has [[resource]], of which {what} knows nothing"
        if self.platform.cpu_latency:
            return f"the platform has cpu_latency, of which {what} knows nothing"
        return next((f"{task.name} has {task.why_pends}, of which {what} knows nothing" for task in self.pending), "")

    def unplanned(self, what: str) -> str:
        """Why ``what`` cannot plan these tasks: as `unserved`, or because the file limits chains; else empty."""
        limited = (f"chain {one.name} has limits, of which {what} knows nothing" for one in self.chains if one.limited)
        return self.unserved(what) or next(limited, "")

    def served_with(self, task: Task) -> tuple[Task, ...]:
        """The tasks that its thread serves, itself among them, in the order of their ranks."""
        return self.threads.get(task.thread.name, (task,)) if task.thread is not None else (task,)

    @cached_property
    def parts(self) -> tuple[Partition, ...]:
        """The parts that are scheduled as GPUs of their own: partitions with a name; without any, the whole GPU."""
        of_tasks = (t.partition for t in self if t.partition)
        own = [one for one in (*self.partitions, *of_tasks) if one.own_gpu]
        return tuple({one.name: one for one in own}.values()) or (Partition(),)

    def part_of(self, task: Task) -> int:
        """The number of the part that a task uses.  One without a partition, hence not real-time, uses the first."""
        name = task.partition.name if task.partition else None
        return next((at for at, part in enumerate(self.parts) if part.name == name), 0)

    @property
    def partitioned(self) -> bool:
        """Whether real-time tasks use the GPU in several partitions, or in one with update costs of its own.

        Or another partition's updates can delay them (``locked_beside``).
        """
        used = [t.partition for t in self.real_time if t.uses_gpu and t.partition and t.partition.own_gpu]
        own = any(part.alpha is not None or part.theta is not None for part in used)
        return own or len({part.name for part in used}) > 1 or bool(self.locked_beside)

    @property
    def locked_beside(self) -> tuple[Partition, ...]:
        """The partitions without real-time tasks under policies lock-*.  There best effort updates runlists, too."""
        used = {t.partition.name for t in self.real_time if t.uses_gpu and t.partition}
        others = (part for part in self.parts if part.name is not None and part.name not in used)
        return tuple(part for part in others if (part.policy or self.platform.policy).startswith("lock-"))

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies under which real-time tasks use the GPU, in alphabetical order; the platform's if none does.

        With those of ``locked_beside``, for best effort's updates delay real-time tasks of its CPUs.
        """
        parts = [*(t.partition for t in self.real_time if t.uses_gpu), *self.locked_beside]
        own = {part.policy if part and part.own_gpu and part.policy else self.platform.policy for part in parts}
        return tuple(sorted(own)) or (self.platform.policy,)

    def with_partitions(self, change: Callable[[Partition], Partition]) -> Taskset:
        """A copy in which each partition, also a task's own, is what ``change`` makes of it."""
        made = {part: change(part) for part in (*self.partitions, *(t.partition for t in self if t.partition))}
        tasks = tuple(replace(t, partition=made[t.partition]) if t.partition else t for t in self.tasks)
        return replace(self, tasks=tasks, partitions=tuple(made[part] for part in self.partitions))

    @property
    def time_partitioned(self) -> bool:
        """Whether TSGs of its tasks have slices or interleave levels of their own, or are shared."""
        return any(t.uses_gpu and t.partition is not None and t.partition.in_time for t in self.tasks)

    def with_gpu_priorities(self, priorities: dict[str, int]) -> Taskset:
        """A copy in which the named tasks' GPU segments, and all that their threads serve, have these priorities."""
        given = {other.name: priorities[t.name] for t in self for other in self.served_with(t) if t.name in priorities}
        given |= priorities
        tasks = tuple(replace(t, gpu_priority=given[t.name]) if t.name in given else t for t in self.tasks)
        return replace(self, tasks=tasks)

# SPDX-License-Identifier: GPL-2.0
"""Bounds of tasks with workers: fork-join on one GPU that the task and its workers own as a group.

A *path* has three parts: the task before it starts its workers, one worker, and the task after the last worker ends.
The response of a job is the response of its longest path, which other tasks and the other workers delay.  To other
tasks, the members are separate tasks, and their responses count from the release of the job.  docs/readings/groups.md,
"Fork-join", has the proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from analysis.model import CpuSegment, Fork, GpuSegment, Segment, Span, Task, Taskset
from analysis.rta import pending
from analysis.rta.pending import Needs
from analysis.rta.recurrence import Demand, solve
from analysis.rta.result import Bound, Failure, TermKind, Verdict
from analysis.rta.system import System, bounded, recurring
from analysis.rta.windows import owned, owner

PATH_OWN = "readings: groups, path"
WORKERS = "readings: groups, other workers"
PATH_LOCK = "readings: groups, the update lock"
PATH_LOWER = "readings: groups, lower tasks"
PATH_CPU = "readings: groups, CPUs of the path"
OWNERS = "readings: groups, owners"
#: The CPU priority of a raised task: above all others.
RAISED = 100


@dataclass(frozen=True)
class Phase:
    """A stretch of a path on one CPU, at one priority; ``hold``: it ends with the begin of a hold."""

    task: Task
    segments: tuple[Segment, ...]
    hold: bool = False

    @property
    def users(self) -> int:
        """How many GPU segments it has."""
        return sum(isinstance(s, GpuSegment) for s in self.segments)

    @property
    def gaps(self) -> int:
        """How often its task needs its normal priority.  After a hold, the phase is the rest of the held segment."""
        return self.users + (not self.hold)

    @property
    def length(self) -> int:
        """C + G, ns; at least 1: a phase of no time still waits for work released at the instant at which it ends."""
        return _length(self.segments) or 1


def _length(segments: Sequence[Segment]) -> int:
    return sum(s.time.worst if isinstance(s, CpuSegment) else s.misc.worst + s.pure.worst for s in segments)


@dataclass(frozen=True)
class Path:
    """The path of a job through one worker; without ``last``, up to that worker's end."""

    fork: Fork
    task: Task
    worker: Task
    last: bool
    system: System

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The task before its workers, the worker, and the task after them.  A job may end with a hold."""
        at = self.fork.after + self.fork.hold  # the segment that begins and ends the hold takes no time itself
        before, after = self.task.segments[:at], self.task.segments[at:]
        first = (Phase(self.task, before, self.fork.hold), Phase(self.worker, self.worker.segments))
        return (*first, Phase(self.task, after)) if self.last and (after or not self.fork.hold) else first

    @cached_property
    def eta(self) -> int:
        """How many GPU segments the path has."""
        return sum(phase.users for phase in self.phases)

    @property
    def updating(self) -> list[Phase]:
        """The phases whose segments begin and end with updates: workers make none while their group is inside."""
        return [phase for phase in self.phases if phase.task is self.task or not self.fork.hold]

    @property
    def level(self) -> int:
        """The GPU priority of the group."""
        return self.task.segment_priority

    @cached_property
    def others(self) -> list[Task]:
        """The other workers, which execute at the same time as the path's worker."""
        named = {t.name: t for t in self.system.taskset}
        return [named[name] for name in self.fork.workers if name != self.worker.name]

    def on_cpus(self) -> Iterator[tuple[Task, list[Phase]]]:
        """Each task outside the group on a CPU of the path, with the phases there.

        A worker under a hold is left out: it is raised whenever its group owns the GPU, and only owners delay it.
        """
        for cpu in dict.fromkeys(phase.task.cpu for phase in self.updating):
            phases = [phase for phase in self.updating if phase.task.cpu == cpu]
            for t in self.system.on_cpu(cpu):
                if t.name not in self.fork.members:
                    yield t, phases

    def owners(self) -> list[Task]:
        """The tasks outside the group with at least its GPU priority; none if the path uses no GPU."""
        if not self.eta:
            return []
        others = (t for t in self.system.gpu_tasks if t.name not in self.fork.members)
        return [t for t in others if t.segment_priority >= self.level]

    def own(self, in_flight: int) -> list[Demand]:
        """The path's own demand, and how long the begins of its segments wait for updates of lower tasks."""
        return [
            Demand(TermKind.OWN, sum(phase.length for phase in self.phases), PATH_OWN),
            Demand(TermKind.UPDATES, 2 * self.system.epsilon * sum(phase.users for phase in self.updating), PATH_OWN),
            Demand(TermKind.BLOCKING, in_flight, PATH_LOCK),
        ]

    def beside(self, raising: bool = False) -> Iterator[Demand]:
        """The demands of the other workers, each once, on the worker's CPU and on the GPU.

        If the policy is ``raising`` owners, a worker of lower CPU priority executes before this one only while raised.
        """
        for other in self.others:
            here, together = other.cpu == self.worker.cpu, self.worker.uses_gpu
            below = raising and other.priority < self.worker.priority
            alone = raising and not together  # no switch of the GPU delays it
            update = self.system.taskset.platform.alpha if alone else self.system.epsilon
            updates = 2 * update * self.system.updating(other) if here or together else 0
            if here:
                cpu = 0 if below else other.cpu_time
                yield Demand(TermKind.CPU_PREEMPTION, cpu + other.misc_time, WORKERS, other.name)
            if self.worker.pure_time:
                yield Demand(TermKind.GPU_PREEMPTION, other.pure_time, WORKERS, other.name)
            yield Demand(TermKind.UPDATES, updates, WORKERS, other.name)


#: A policy's demands of a path.
Paths: TypeAlias = Callable[[Path], "list[Demand]"]


def boosted(path: Path) -> list[Demand]:
    """Policy `boosted`: members inside are raised, so CPU segments of tasks on other CPUs never delay the path."""
    system, alpha = path.system, path.system.taskset.platform.alpha
    flying = sum(phase.users * system.epsilon for phase in path.updating if _lower_elsewhere(path, phase.task.cpu))
    demands, charged = [*path.own(flying), *path.beside(raising=True), *_raised_beside(path)], set[str]()
    owners = {t.name for t in path.owners()}
    for t, phases in path.on_cpus():
        above = t.priority >= min(phase.task.priority for phase in phases)
        if above and t.name in owners:
            amount = t.cpu_time + owned(t, system)
            jitter = system.jitter(t, amount - system.taskset.platform.theta)
            demands.append(Demand(TermKind.CPU_PREEMPTION, amount, PATH_CPU, t.name, t.period, jitter))
            charged.add(t.name)
        elif above:
            amount = t.cpu_time + t.misc_time + 2 * alpha * system.updating(t)
            demands.append(recurring(TermKind.CPU_PREEMPTION, t, amount, PATH_CPU, system))
        elif t.uses_gpu and t.name not in owners:
            cap = sum(phase.gaps for phase in phases) * (max(s.misc.worst for s in t.gpu_segments) + 2 * alpha)
            amount = t.misc_time + 2 * alpha * t.eta
            demands.append(bounded(TermKind.BLOCKING, t, amount, cap, PATH_LOWER, system))
    demands += [replace(owner(t, system), lemma=OWNERS) for t in path.owners() if t.name not in charged]
    return demands


def _raised_beside(path: Path) -> Iterator[Demand]:
    """The demands of other workers inside, which are raised to the path's own level.

    Such a worker keeps the CPU from another task of that level that ends its segment, or was handed the update lock.
    A member of a group with a hold has its CPU as soon as it is handed the lock.
    """
    if not path.worker.uses_gpu:
        return
    equals = [t for t in path.system.gpu_tasks if t.segment_priority == path.level and t.name != path.task.name]
    for other in path.others:
        beside = [t for t in equals if t.cpu == other.cpu and not (path.fork.hold and t.name in path.fork.members)]
        if other.uses_gpu and other.cpu != path.worker.cpu and any(t.name != other.name for t in beside):
            yield Demand(TermKind.INDIRECT_DELAY, other.misc_time, WORKERS, other.name)


def _lower_elsewhere(path: Path, cpu: int) -> bool:
    """Whether a task of a lower GPU priority updates the runlist on another CPU."""
    return any(t.cpu != cpu and t.segment_priority < path.level for t in path.system.gpu_tasks)


def segment(path: Path) -> list[Demand]:
    """Policy `segment`: an owner waits for its CPU, so tasks that preempt owners there delay the path as well."""
    system = path.system
    demands, charged = [*path.own((path.eta + 3) * system.epsilon), *path.beside()], set[str]()
    for t, phases in path.on_cpus():
        if t.priority < min(phase.task.priority for phase in phases):
            continue
        amount = t.cpu_time + t.misc_time
        jitter = system.jitter(t, amount)
        amount += 2 * system.epsilon * t.eta
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, PATH_CPU, t.name, t.period, jitter))
        if path.eta and t.uses_gpu:
            demands.append(recurring(TermKind.GPU_PREEMPTION, t, t.pure_time, OWNERS, system))
        charged.add(t.name)
    return [*demands, *_ownership(path, charged)]


def _ownership(path: Path, charged: set[str]) -> Iterator[Demand]:
    """How long owners that are not charged yet can own the GPU, with the tasks that preempt them on their CPUs.

    Tasks that preempt another worker count too: if that worker was handed the update lock, it keeps the lock until its
    CPU executes it.
    """
    system = path.system
    lowest: dict[int, int] = {}
    equals = [other for other in path.others if other.uses_gpu] if path.worker.uses_gpu else []
    for t in [*equals, *path.owners()]:  # charged owners, too: another worker there may be above them
        lowest[t.cpu] = min(t.priority, lowest.get(t.cpu, t.priority))
    for cpu, level in lowest.items():
        above = [t for t in system.on_cpu(cpu) if t.priority >= level]
        single = len({t.thread or t.name for t in above if t.priority == level}) == 1
        for t in above:
            alone = single and t.priority == level
            if t.name in path.fork.members:
                if t in path.others and cpu != path.worker.cpu and not alone:
                    yield Demand(TermKind.INDIRECT_DELAY, t.cpu_time + t.misc_time, OWNERS, t.name)
                continue
            amount = owned(t, system) + (0 if alone else t.cpu_time)
            if t.name not in charged and amount:
                yield recurring(TermKind.GPU_PREEMPTION, t, amount, OWNERS, system)


def verdict_of_workers(task: Task, paths: Paths, system: System) -> tuple[Verdict, Needs]:
    """The verdict on a member of a group, and the tasks that it rests on, the other members among them.

    A task has the verdict on its worst path; a worker the verdict on its own path, up to its end.
    """
    fork = system.taskset.forked[task.name]
    named = {t.name: t for t in system.taskset}
    parent, whole = named[fork.task], task.name == fork.task
    ways = [Path(fork, parent, named[name], whole, system) for name in (fork.workers if whole else (task.name,))]
    found = [(solve(task, demands), demands) for demands in map(paths, ways)]
    needs = [frozenset[str | None](fork.members) - {task.name}]
    needs += [one for _, demands in found for one in pending.needs_of(demands)]
    failed = [verdict for verdict, _ in found if isinstance(verdict, Failure)]
    if failed:
        return max(failed, key=lambda one: one.reached), needs
    bounds = [verdict for verdict, _ in found if isinstance(verdict, Bound)]
    return max(bounds, key=lambda one: one.wcrt), needs


def with_switches(taskset: Taskset) -> Taskset:
    """The taskset with the context switches between the TSGs of workers as parts of their G^e.

    While a group owns the GPU, its TSGs with work take turns, and each turn begins with a switch.  Work that a program
    submits at once takes at most one turn more than its number of whole time slices.
    """
    platform = taskset.platform
    longer: dict[str, Task] = {}
    named = {t.name: t for t in taskset}
    for fork in taskset.forks:
        users = [named[name] for name in fork.workers if named[name].uses_gpu]
        if len(users) > 1 and platform.longest_switch:
            longer |= {t.name: _switched(t, platform.time_slice, platform.longest_switch) for t in users}
    return replace(taskset, tasks=tuple(longer.get(t.name, t) for t in taskset)) if longer else taskset


def with_holds(taskset: Taskset) -> Taskset:
    """The taskset as other tasks see it: a worker under a hold is inside, raised, from its begin to its end.

    The worker may execute at any time in between.
    """
    held = {name for fork in taskset.forks if fork.hold for name in fork.workers}
    return replace(taskset, tasks=tuple(_inside(t) if t.name in held else t for t in taskset)) if held else taskset


def _inside(task: Task) -> Task:
    segments: list[GpuSegment] = []
    before = Span(0, 0)
    for s in task.segments:
        if isinstance(s, CpuSegment):
            before = Span(before.worst + s.time.worst, before.best + s.time.best)
        else:
            segments.append(replace(s, misc=Span(s.misc.worst + before.worst, s.misc.best + before.best)))
            before = Span(0, 0)
    if before.worst or not segments:
        segments.append(GpuSegment(before, Span(0, 0)))
    return replace(task, segments=tuple(segments), priority=RAISED)


def _switched(task: Task, length: int, switch: int) -> Task:
    def switched(pure: Span) -> Span:
        turns = 1 + (pure.worst // length if length else 0)
        return Span(pure.worst + turns * switch, pure.best)

    segments = (replace(s, pure=switched(s.pure)) if isinstance(s, GpuSegment) else s for s in task.segments)
    return replace(task, segments=tuple(segments))


def refusal_of_workers(name: str, taskset: Taskset, *, able: bool, holds: bool, assigns: bool) -> str | None:
    """Why a test has no bound beside workers; ``able``, ``holds``: whether it bounds workers, and holds."""
    if not taskset.forks:
        return None
    first = taskset.forks[0].task
    if not able:
        return f"{name} has no bound for tasks with workers, as {first} is"
    if not holds and (one := next((fork.task for fork in taskset.forks if fork.hold), None)):
        return f"{name} has no bound for a task that holds a segment while its workers execute, as {one} does"
    if assigns:
        return f"{name} assigns no GPU priorities beside tasks with workers, as {first} is"
    for t in taskset:
        if t.name in taskset.forked and t.best_effort:
            return f"{t.name} is best effort and in a group of a task with workers"
        if t.name in taskset.forked and any(len(segment.parts) > 1 for segment in t.gpu_segments):
            return f"{name} has no bound for copies and kernels in a row in a group of workers, as {t.name} has"
    beside = (
        (taskset.threads, "threads that serve several tasks"), (taskset.pending, "several pending jobs of a task"),
        (taskset.triggers, "tasks that others release"), (taskset.resources, "[[resource]]"),
        (taskset.platform.cpu_latency, "cpu_latency"), (taskset.partitioned or len(taskset.parts) > 1, "partitions"),
        (taskset.time_partitioned, "slices of partitions"),
    )  # fmt: skip
    for there, what in beside:
        if there:
            return f"{name} has no bound for {what} beside tasks with workers, as {first} is"
    return None

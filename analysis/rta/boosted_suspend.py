# SPDX-License-Identifier: GPL-2.0
"""Policy `boosted` where all tasks suspend themselves: owners delay a task inside its segments only.

A task that owns the GPU delays another one only from the other's begin to its end.  So each segment has a window, and
what an owner adds is bounded by its jobs in the windows, not in the whole response time.  Its jobs in a window are
those whose GPU activity can still go on, up to the end of its last segment.  docs/readings/boosted.md has the proofs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from analysis.fixed_point import Diverged, least_fixed_point
from analysis.model import CpuSegment, GpuSegment, Task
from analysis.rta import boosted
from analysis.rta.boosted import BEFORE, CPU, LOCK, LOWER, OWN, OWNER, last_segment, owned
from analysis.rta.mpcp import bounded, recurring
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import Kind
from analysis.rta.system import System

WINDOWS = "readings: boosted, owners inside segments"


def suspend(task: Task, system: System) -> list[Demand | Shared]:
    """Demands of a whole job.  Where threads serve several tasks, which the proof leaves out, there are no windows."""
    if system.taskset.threads:
        return list(boosted.suspend(task, system))
    return _demands(task, system, task.cpu_time, gaps(task))


def gaps(task: Task) -> int:
    """How often a job can be ready outside of its GPU segments; a CPU segment of no length still needs its CPU."""
    ends = bool(task.segments) and isinstance(task.segments[-1], GpuSegment)
    return task.eta if ends else task.eta + 1


def suspend_end(task: Task, system: System) -> list[Demand | Shared]:
    """Demands of a job up to the end of its last GPU segment."""
    last = max(i for i, s in enumerate(task.segments) if isinstance(s, GpuSegment))
    cpu = sum(s.time.worst for s in task.segments[:last] if isinstance(s, CpuSegment))
    return _demands(task, system, cpu, task.eta)


def _demands(task: Task, system: System, cpu: int, count: int) -> list[Demand | Shared]:
    owners = _owners(task, system)
    inside = _inside(task, owners, system)
    demands: list[Demand | Shared] = [*_own(task, system, cpu), *_before(task, system)]
    for j in (j for j in system.lower_on_cpu(task) if not j.best_effort):
        outside = _from_lower(j, count, system)
        demands.append(_owning(owners[j.name], outside, inside) if j.name in owners else outside)
    for h in system.hpp(task):
        demands.append(_from_higher(task, h, owners, inside, system))
    for name, owner in owners.items():
        if all(t.name != name for t in system.on_cpu(task.cpu)):
            demands.append(replace(owner, cap=inside[name]) if inside else owner)
    return demands


def _owners(task: Task, system: System) -> dict[str, Demand]:
    """By task of at least its GPU priority, on any CPU: what it takes as an owner while the task is inside.

    The context switch after its last end comes after what is known of that end.
    """
    if not task.uses_gpu:
        return {}
    owners = {}
    for other in system.gpu_tasks:
        if other.name != task.name and other.segment_priority >= task.segment_priority:
            amount, late = owned(other, system), system.taskset.platform.theta
            jitter = other.jitter + max(system.end(other) + late - amount, 0)
            owners[other.name] = Demand(Kind.GPU_PREEMPTION, amount, OWNER, other.name, other.period, jitter)
    return owners


def _owning(whole: Demand, outside: Demand, inside: Mapping[str, int] | None) -> Demand:
    """What an owner of its CPU takes: in all its jobs, or outside of the task's segments and inside if that is less."""
    if inside is None or whole.source is None:
        return whole
    return replace(whole, instead=(outside, Demand(Kind.GPU_PREEMPTION, inside[whole.source], WINDOWS, whole.source)))


def _inside(task: Task, owners: dict[str, Demand], system: System) -> dict[str, int] | None:
    """By owner, what it takes inside the task's segments at most; None if a segment is longer than the deadline."""
    total = dict.fromkeys(owners, 0)
    for segment, times in Counter(task.gpu_segments).items():
        window = _window(task, segment, list(owners.values()), system)
        if window is None:
            return None
        for name, owner in owners.items():
            total[name] += times * owner.at(window)
    return total


def _window(task: Task, segment: GpuSegment, owners: Sequence[Demand], system: System) -> int | None:
    """From the begin of a segment, which may wait for its turn, to its end; closed, for it may take no time."""
    own = segment.misc.worst + segment.pure.worst + _updates(task, system) // task.eta
    own += in_flight(task, system) // task.eta
    closed = 0 if own else 1
    try:
        window = least_fixed_point(lambda w: own + sum(o.at(w + closed) for o in owners), own, task.deadline)
    except Diverged:
        return None
    return window + closed if window <= task.deadline else None


def _updates(task: Task, system: System) -> int:
    """The task's own updates and the switches to it.  The switch after an end delays others only."""
    platform = system.taskset.platform
    return task.eta * (2 * platform.alpha + platform.theta)


def in_flight(task: Task, system: System) -> int:
    """What its begins wait for updates of tasks of other CPUs that have a lower GPU priority.

    Its own update then abandons the context switch.
    """
    lower = any(t.cpu != task.cpu and t.segment_priority < task.segment_priority for t in system.gpu_tasks)
    return task.eta * system.taskset.platform.alpha if lower else 0


def _own(task: Task, system: System, cpu: int) -> list[Demand]:
    return [
        Demand(Kind.OWN, cpu + task.gpu_time, OWN),
        Demand(Kind.UPDATES, _updates(task, system), OWN),
        Demand(Kind.BLOCKING, in_flight(task, system), LOCK),
    ]


def _before(task: Task, system: System) -> list[Demand]:
    """The end of the task's job before: raised, while CPU-only tasks above wait since before its release."""
    last = last_segment(task)
    if last is None or all(h.priority == task.priority or h.uses_gpu for h in system.hpp(task)):
        return []
    return [Demand(Kind.BLOCKING, last.misc.worst + 2 * system.taskset.platform.alpha, BEFORE)]


def _from_lower(j: Task, count: int, system: System) -> Demand:
    """What a task below takes outside of the task's segments: raised, one segment in each gap between them."""
    update = system.taskset.platform.alpha
    cap = count * (max(s.misc.worst for s in j.gpu_segments) + 2 * update)
    return bounded(Kind.BLOCKING, j, j.misc_time + 2 * update * j.eta, cap, LOWER, system)


def _from_higher(
    task: Task, h: Task, owners: Mapping[str, Demand], inside: Mapping[str, int] | None, system: System
) -> Demand:
    """What a task above on the CPU takes, or an equal.  A CPU-only one that is above has no jitter."""
    if not h.uses_gpu:
        jitter = system.jitter(h, h.cpu_time) if h.priority == task.priority else h.jitter
        return Demand(Kind.CPU_PREEMPTION, h.cpu_time, CPU, h.name, h.period, jitter)
    platform = system.taskset.platform
    outside = recurring(Kind.CPU_PREEMPTION, h, h.cpu_time + h.misc_time + 2 * platform.alpha * h.eta, CPU, system)
    if h.name not in owners:
        return outside
    amount = h.cpu_time + owned(h, system)
    jitter = system.jitter(h, amount - platform.theta)
    whole = Demand(Kind.CPU_PREEMPTION, amount, CPU, h.name, h.period, jitter)
    return _owning(whole, outside, inside)

# SPDX-License-Identifier: GPL-2.0
"""Policy `boosted`: the owner of the GPU also has its CPU.  docs/readings/boosted.md, "Boosted", has the proofs.

A task is raised above every normal priority of its CPU, while it owns the GPU or from begin to end (model.Form).  So an
owner never waits for its CPU, and no bound charges the CPU segments of a task on another CPU.  In return, tasks
of lower CPU priority can execute above a task before, between and after its segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from analysis.model import MS, CpuSegment, GpuSegment, Task, Taskset, Waiting
from analysis.rta.mpcp import bounded, recurring
from analysis.rta.recurrence import Demand, OneAtATime, Shared
from analysis.rta.result import Kind
from analysis.rta.system import Demands, System

OWN = "readings: boosted, own"
LOCK = "readings: boosted, the update lock"
BEFORE = "readings: boosted, the job before"
LOWER = "readings: boosted, lower tasks"
CPU = "readings: boosted, CPU"
OWNER = "readings: boosted, owners"
SWITCH = "readings: boosted, switches back"

#: How long hosts let a thread spin for its turn, ns (kmod/decide/gate.c, userlib/transport_socket.c).  Then it sleeps,
#: which the bounds for tasks that spin do not allow.
SPIN = 20 * MS
#: Whether a task that uses the GPU spins for it.
Spins: TypeAlias = Callable[[Task], bool]


def demands(spins: Spins, *, fence: bool = False) -> Demands:
    """The formula where ``spins`` says how each task waits; ``fence``: those that spin have form FENCE, not OWNER."""

    def formula(task: Task, system: System) -> list[Demand | Shared]:
        waiters = [t for t in (task, *system.hpp(task)) if t.uses_gpu and (t.name == task.name or spins(t))]
        level = min((t.segment_priority for t in waiters), default=None)
        switching = not fence and any(spins(j) for j in _lower(task, system))
        listed = [
            *_own(task, system),
            *_before(task, system, spins, fence),
            *_from_all_lower(task, system, spins, fence, switching),
            *(_from_higher(task, h, system, spins, level, switching) for h in system.hpp(task)),
        ]
        return [*listed, _remote(task, level, switching, system)]

    return formula


suspend = demands(lambda task: False)
busy = demands(lambda task: True)
mixed = demands(lambda task: task.waiting is Waiting.BUSY)
fence = demands(lambda task: True, fence=True)


def longest_turn(task: Task, taskset: Taskset, responses: Mapping[str, int]) -> int | None:
    """How long a begin or end of the task waits at most for its turn at the update lock, ns; None: longer than SPIN.

    An update may be in progress.  Each decision that comes meanwhile of a task of at least its GPU priority goes first:
    two for each segment of the jobs that are pending in that time (L3).  ``responses``: the tasks' bounds, ns.
    """
    alpha = taskset.platform.alpha
    others = [t for t in taskset.real_time if t.uses_gpu and t is not task]
    first = [t for t in others if t.segment_priority >= task.segment_priority]
    wait, before = alpha, -1
    while before < wait <= SPIN:
        before = wait
        wait = alpha + sum(-(-(wait + t.jitter + responses[t.name]) // t.period) * 2 * t.eta * alpha for t in first)
    return wait if wait <= SPIN else None


def owned(task: Task, system: System) -> int:
    """How long a job owns the GPU at most if no other task delays it: G + 2 epsilon eta, ns."""
    return task.gpu_time + 2 * system.epsilon * task.eta


def in_flight(task: Task, system: System) -> int:
    """What a job's begins wait for updates of less urgent tasks of other CPUs, ns."""
    contended = any(other.cpu != task.cpu for other in system.gpu_tasks)
    return system.epsilon * task.eta if contended else 0


def last_segment(task: Task) -> GpuSegment | None:
    """The GPU segment that a job may end with, an empty one only if nothing precedes it; None if there is none."""
    last = None
    for segment in reversed(task.segments):
        if isinstance(segment, CpuSegment):
            if segment.time.worst:
                break
            continue
        last = segment
        if segment.misc.worst + segment.pure.worst:
            break
    return last


def _lower(task: Task, system: System) -> list[Task]:
    """The real-time tasks of its CPU that use the GPU and have a lower CPU priority.  Best effort is never raised."""
    return [j for j in system.lower_on_cpu(task) if not j.best_effort]


def _own(task: Task, system: System) -> list[Demand]:
    return [
        Demand(Kind.OWN, task.cpu_time + task.gpu_time, OWN),
        Demand(Kind.UPDATES, 2 * system.epsilon * task.eta, OWN),
        Demand(Kind.BLOCKING, in_flight(task, system), LOCK),
    ]


def _before(task: Task, system: System, spins: Spins, fence: bool) -> list[Demand]:
    """The end of the task's job before: raised, while tasks above that never sleep wait since before its release."""
    ends = [last for t in system.taskset.served_with(task) if (last := last_segment(t)) is not None]
    waiting = any(h.priority > task.priority and not _sleeps(h, system, spins) for h in system.hpp(task))
    if not ends or not waiting:
        return []
    longest = max(last.misc.worst + (last.pure.worst if spins(task) and not fence else 0) for last in ends)
    return [Demand(Kind.BLOCKING, longest + 2 * system.epsilon, BEFORE)]


def _sleeps(h: Task, system: System, spins: Spins) -> bool:
    """Whether its thread can sleep while one of its jobs is pending."""
    return system.sleeps(h) and not spins(h)


def _from_all_lower(
    task: Task, system: System, spins: Spins, fence: bool, switching: bool
) -> list[Demand | Shared]:  # fmt: skip
    """What tasks below on the CPU take.  A thread that serves several of them is inside one segment at most."""
    listed: list[Demand | Shared] = []
    grouped: dict[str, list[Demand]] = {}
    for j in _lower(task, system):
        demand = _from_lower(task, j, system, spins, fence, switching)
        if demand.cap and len(system.taskset.served_with(j)) > 1 and j.thread:
            grouped.setdefault(j.thread.name, []).append(demand)
        else:
            listed.append(demand)
    return [*listed, *(OneAtATime(name, demands) for name, demands in grouped.items())]


def _from_lower(
    task: Task, j: Task, system: System, spins: Spins, fence: bool, switching: bool
) -> Demand:  # fmt: skip
    """What a task below on the CPU takes from it: while raised, one segment in each gap between the task's own."""
    if task.uses_gpu and j.segment_priority >= task.segment_priority:
        return recurring(Kind.GPU_PREEMPTION, j, owned(j, system), OWNER, system)
    on_cpu = spins(j) and not fence
    pieces = [s.misc.worst + (s.pure.worst if on_cpu else 0) for s in j.gpu_segments]
    update = system.epsilon if spins(j) or switching else system.taskset.platform.alpha
    gaps = task.eta + 1 if task.uses_gpu and not spins(task) else 1
    cap = gaps * (max(pieces) + 2 * update)
    return bounded(Kind.BLOCKING, j, sum(pieces) + 2 * update * j.eta, cap, LOWER, system)


def _from_higher(
    task: Task, h: Task, system: System, spins: Spins, level: int | None, switching: bool
) -> Demand:  # fmt: skip
    """What a task above on the CPU, or of its priority, takes.  One that is above and never sleeps has no jitter."""
    if not h.uses_gpu:
        amount = h.cpu_time
    elif spins(h):
        amount = h.cpu_time + owned(h, system) + in_flight(h, system)
    elif level is not None and h.segment_priority >= level:
        amount = h.cpu_time + owned(h, system)
    else:
        update = system.epsilon if switching else system.taskset.platform.alpha
        amount = h.cpu_time + h.misc_time + 2 * update * h.eta
    late = _sleeps(h, system, spins) or h.priority == task.priority
    jitter = system.jitter(h, amount) if late else h.jitter
    return Demand(Kind.CPU_PREEMPTION, amount, CPU, h.name, h.period, jitter)


def _remote(task: Task, level: int | None, switching: bool, system: System) -> Shared:
    """What owners on other CPUs add: all of it from GPU priority ``level`` up, else the switches back after them."""
    kind = Kind.GPU_PREEMPTION if task.uses_gpu else Kind.INDIRECT_DELAY
    make = partial(_owners, task.cpu, level, switching, system, kind)
    return system.shared((task.cpu, level, switching, task.priority, kind), make)


def _owners(cpu: int, level: int | None, switching: bool, system: System, kind: Kind) -> Iterator[Demand]:
    theta = system.taskset.platform.longest_switch
    for w in system.gpu_tasks:
        if w.cpu == cpu:
            continue
        if level is not None and w.segment_priority >= level:
            yield recurring(kind, w, owned(w, system), OWNER, system)
        elif switching:
            yield recurring(Kind.BLOCKING, w, w.eta * theta, SWITCH, system)

# SPDX-License-Identifier: GPL-2.0
"""Policies lock-priority and lock-fifo, as they ship: a lock around whole GPU segments, without priority boosting.

A holder keeps its own CPU priority, so that tasks above it on its CPU prolong its request.  A request costs two runlist
updates and a context switch.  docs/readings/locks.md, "Locks without boosting", has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.model import Task
from analysis.model.fixed_point import Diverged, least_fixed_point
from analysis.rta.gcaps import ownership
from analysis.rta.recurrence import Demand, Unbounded, below_solution
from analysis.rta.result import TermKind
from analysis.rta.system import System, recurring

LOCK_QUEUE = "readings: locks without boosting, the queue"
LOCK_CPU = "readings: locks without boosting, CPU"


def priority_suspend(task: Task, system: System) -> list[Demand]:
    """Policy lock-priority, self-suspension during pure GPU segments."""
    return [*_own(task, system), *_cpu(task, system), *_local(task, system), *_by_priority(task, system)]


def priority_busy(task: Task, system: System) -> list[Demand]:
    """Policy lock-priority, busy waiting during pure GPU segments; a task that waits for the lock sleeps."""
    return [*_own(task, system), *_spinning(task, system), *_by_priority(task, system)]


def fifo_suspend(task: Task, system: System) -> list[Demand]:
    """Policy lock-fifo, self-suspension during pure GPU segments."""
    return [*_own(task, system), *_cpu(task, system), *_local(task, system), *_first_come(task, system)]


def fifo_busy(task: Task, system: System) -> list[Demand]:
    """Policy lock-fifo, busy waiting during pure GPU segments; a task that waits for the lock sleeps."""
    return [*_own(task, system), *_spinning(task, system), *_first_come(task, system)]


def _own(task: Task, system: System) -> list[Demand]:
    eps = system.epsilon
    return [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "readings: locks without boosting, own"),
        Demand(TermKind.UPDATES, 2 * eps * task.eta, "readings: locks without boosting, own"),
        Demand(TermKind.BLOCKING, system.taskset.platform.alpha, "readings: locks without boosting, update in flight"),
    ]


def _cpu(task: Task, system: System) -> list[Demand]:
    """The demands that preempt the task on its CPU if holders sleep during G^e."""
    demands = []
    for h in system.hpp(task):
        amount = h.cpu_time + h.misc_time
        jitter = system.jitter(h, amount) if system.taskset.sleeps(h) else 0
        updates = 2 * system.epsilon * h.eta
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount + updates, LOCK_CPU, h.name, h.period, jitter))
    return demands


def _spinning(task: Task, system: System) -> list[Demand]:
    """The demands that preempt the task if holders spin: G^e of a job takes the CPU, too.

    A job sleeps until it is granted the lock; hence jitter.
    """
    demands = []
    for h in system.hpp(task):
        amount = h.cpu_time + h.gpu_time + 2 * system.epsilon * h.eta
        jitter = system.jitter(h, amount) if system.taskset.sleeps(h) else 0
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, LOCK_CPU, h.name, h.period, jitter))
    return demands


def _local(task: Task, system: System) -> list[Demand]:
    """Pure GPU segments of tasks above it on its CPU that the task waits for."""
    higher = system.hpp(task) if task.uses_gpu else []
    return [recurring(TermKind.GPU_PREEMPTION, h, h.pure_time, LOCK_QUEUE, system) for h in higher if h.uses_gpu]


def _by_priority(task: Task, system: System) -> list[Demand]:
    """Holders of at least the task's priority, and for each own request one request of a lower task."""
    if not task.uses_gpu:
        return []
    demands = ownership(system.remote_hpg(task), system, TermKind.GPU_PREEMPTION)
    holds = _holds(system.outranked(task), task, system)
    longest = max(holds, key=lambda hold: hold.length, default=None)
    for hold in holds:
        demands += hold.demands(task.eta if hold is longest else 0)
    return demands


def _first_come(task: Task, system: System) -> list[Demand]:
    """For each own request, one request of each less urgent task; and all requests of more urgent tasks.

    A more urgent task can pass the task at the update lock again and again.
    """
    if not task.uses_gpu:
        return []
    urgent = system.remote_hpg(task)
    demands = ownership(urgent, system, TermKind.GPU_PREEMPTION)
    local = system.hpp(task)
    excepted = {t.name for t in (task, *local, *urgent)}
    others = [t for t in system.taskset if t.uses_gpu and t.name not in excepted]
    for hold in _holds(others, task, system):
        demands += hold.demands(task.eta)
    return demands


@dataclass(frozen=True)
class _Hold:
    """One request of ``holder`` from grant to end: its ``own`` length, and the times that ``preempters`` add."""

    holder: Task
    own: int
    preempters: tuple[tuple[Task, int], ...]

    @property
    def length(self) -> int:
        return self.own + sum(amount for _, amount in self.preempters)

    def demands(self, times: int) -> list[Demand]:
        """The demands of ``times`` waits for it.  The bound rests on the preempters even if they add no time."""
        single = [Demand(TermKind.BLOCKING, times * self.own, LOCK_QUEUE, self.holder.name)]
        return single + [
            Demand(TermKind.BLOCKING, times * amount, LOCK_QUEUE, p.name, relied=True) for p, amount in self.preempters
        ]


def _holds(holders: list[Task], waiter: Task, system: System) -> list[_Hold]:
    """Each holder's longest request.  Raises Unbounded for a best-effort holder: any task can keep it from its CPU."""
    for holder in holders:
        if holder.best_effort:
            raise Unbounded(holder.name)
    return [_hold(holder, waiter, system) for holder in holders]


def _hold(holder: Task, waiter: Task, system: System) -> _Hold:
    own = max(s.misc.worst + s.pure.worst for s in holder.gpu_segments) + 2 * system.epsilon
    tasks = [t for t in _delaying(holder, system) if t is not waiter and t.cpu_time]

    jitters = {t.name: system.jitter(t, t.cpu_time) for t in tasks}
    delays = [Demand(TermKind.BLOCKING, t.cpu_time, LOCK_QUEUE, t.name, t.period, jitters[t.name]) for t in tasks]

    def total(window: int) -> int:
        return own + sum(delay.at(window) for delay in delays)

    start = below_solution(own, delays)
    length = waiter.deadline + 1  # too long in any case
    if start is not None and start <= waiter.deadline:
        try:
            length = least_fixed_point(total, max(start, own), waiter.deadline)
        except Diverged as diverged:
            if diverged.reached <= waiter.deadline:  # the search was given up
                raise Unbounded(holder.name) from None
            length = diverged.reached
    return _Hold(holder, own, tuple((t, delay.at(length)) for t, delay in zip(tasks, delays, strict=True)))


def _delaying(holder: Task, system: System) -> list[Task]:
    """Tasks whose CPU segments can prolong the holder's request.

    These are the tasks above it on its CPU.  The end of its segment can also wait for the update lock, behind a more
    urgent task that has the lock but not its CPU.  The tasks above that urgent task count too.
    """
    delaying = {t.name: t for t in system.hpp(holder)}
    owners = [o for o in system.gpu_tasks if o.cpu != holder.cpu and o.segment_priority >= holder.segment_priority]
    lowest: dict[int, int] = {}
    for owner in owners:
        lowest[owner.cpu] = min(owner.priority, lowest.get(owner.cpu, owner.priority))
    for owner in owners:
        if owner.priority == lowest[owner.cpu]:  # tasks above the others of its CPU are above this one
            delaying |= {t.name: t for t in system.hpp(owner)}
    return list(delaying.values())

# SPDX-License-Identifier: GPL-2.0
"""GCAPS where each partition of the GPU has an owner and an update lock of its own, and all partitions share CPUs.

The theorems and their proofs are in docs/readings/inside-partitions.md.  *Own* partition: the analysed task's;
*foreign*: any other.  Beside the bounds of one GPU, the work of foreign tasks counts, on the task's CPU and on the CPUs
of the owners that it waits for.  Updates of less urgent foreign tasks count too, since nothing preempts an update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analysis.model import Task
from analysis.rta.partition_order import home, waited_for
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System

OWN = "readings: GCAPS inside partitions, own"
CPU = "readings: GCAPS inside partitions, CPU"
OWNER = "readings: GCAPS inside partitions, owners"
BEGIN = "readings: GCAPS inside partitions, blocking at begin"
FIRST = "readings: GCAPS inside partitions, the update in flight"
BELOW = "readings: GCAPS inside partitions, updates of lower foreign tasks"


def suspend(task: Task, system: System) -> list[Demand | Shared]:
    """Demands where every task suspends: theorem 1."""
    foreign = [j for j in _below(task, system) if task.uses_gpu and home(j) != home(task)]
    demands: list[Demand | Shared] = [*_own(task, system), _in_flight(task, foreign, system)]
    for h in system.hpp(task):
        demands += _above(task, h, system)
    demands += _updates(foreign, system)
    if task.uses_gpu:
        owners = [h for h in system.remote_hpg(task) if home(h) == home(task)]
        demands += _charged(owners, system, spinning=False)
    return demands


def busy(task: Task, system: System) -> list[Demand | Shared]:
    """Demands where every task waits busily: theorem 2."""
    users = [t for t in (task, *system.hpp(task)) if t.uses_gpu]
    foreign = [j for j in _below(task, system) if any(home(x) != home(j) for x in users)]
    demands: list[Demand | Shared] = [*_own(task, system), _in_flight(task, foreign, system)]
    for h in system.hpp(task):
        amount = h.cpu_time + h.gpu_time + 2 * _epsilon(h, system) * h.eta
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, CPU, h.name, h.period))
        if any(other.cpu != h.cpu and home(other) == home(h) for other in system.gpu_tasks if h.uses_gpu):
            demands.append(Demand(TermKind.BLOCKING, _epsilon(h, system) * h.eta, BEGIN, h.name, h.period))
    demands += _updates(foreign, system)
    owners = [o for o in waited_for(users, system.taskset) if o.cpu != task.cpu]
    return [*demands, *_charged(owners, system, spinning=True)]


def _alpha(task: Task, system: System) -> int:
    return system.taskset.platform.costs(task.partition)[0]


def _epsilon(task: Task, system: System) -> int:
    return sum(system.taskset.platform.costs(task.partition))


def _below(task: Task, system: System) -> list[Task]:
    """The tasks of its CPU with a lower priority that update runlists; best effort updates none."""
    return [j for j in system.lower_on_cpu(task) if not j.best_effort]


def _own(task: Task, system: System) -> list[Demand]:
    """The task's work, and at each begin one update that a less urgent task of the partition may be making."""
    cost = _epsilon(task, system) * task.eta
    return [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time, OWN),
        Demand(TermKind.UPDATES, 2 * cost, OWN),
        Demand(TermKind.BLOCKING, cost, BEGIN),
    ]


def _in_flight(task: Task, counted: Iterable[Task], system: System) -> Demand:
    """The update of a lower task that the CPU executes when the window begins.

    Updates of ``counted`` tasks are charged elsewhere, even if one of them is in progress then.
    """
    costs = (_alpha(j, system) for j in _below(task, system) if j not in counted)
    return Demand(TermKind.BLOCKING, max(costs, default=0), FIRST)


def _above(task: Task, h: Task, system: System) -> Iterator[Demand]:
    """The demands of a task of at least the analysed task's priority on the CPU, if it suspends."""
    if not h.uses_gpu:
        yield Demand(TermKind.CPU_PREEMPTION, h.cpu_time, CPU, h.name, h.period)
        return
    own = task.uses_gpu and home(h) == home(task)
    work = h.cpu_time + h.misc_time
    amount = work + 2 * (_epsilon(h, system) if own else _alpha(h, system)) * h.eta
    yield Demand(TermKind.CPU_PREEMPTION, amount, CPU, h.name, h.period, system.jitter(h, work))
    if own:
        yield Demand(TermKind.GPU_PREEMPTION, h.pure_time, OWNER, h.name, h.period, system.jitter(h, h.pure_time))


def _updates(tasks: Iterable[Task], system: System) -> Iterator[Demand]:
    """All updates of tasks for which nothing else is charged."""
    for j in tasks:
        amount = 2 * _alpha(j, system) * j.eta
        yield Demand(TermKind.BLOCKING, amount, BELOW, j.name, j.period, system.jitter(j, amount))


def _charged(owners: Iterable[Task], system: System, *, spinning: bool) -> Iterator[Demand]:
    """The demands of owners on other CPUs, and of tasks that execute there while the owners wait for their CPU.

    If one task alone has the lowest priority among the owners of a CPU, its C preempts no owner.
    """
    by_cpu: dict[int, list[Task]] = {}
    for owner in owners:
        by_cpu.setdefault(owner.cpu, []).append(owner)
    for cpu, members in by_cpu.items():
        level = min(member.priority for member in members)
        on_cpu = system.on_cpu(cpu)
        single = sum(t.priority == level for t in on_cpu) == 1
        for h in on_cpu:
            if h.priority >= level:
                owning = spinning or any(home(h) == home(member) for member in members)
                amount = _taken(h, system, owning) + (0 if single and h.priority == level else h.cpu_time)
                kind = TermKind.GPU_PREEMPTION if h in members else TermKind.INDIRECT_DELAY
                yield Demand(kind, amount, OWNER, h.name, h.period, system.jitter(h, amount))
            elif h.uses_gpu and any(home(member) != home(h) for member in members):
                yield from _updates([h], system)


def _taken(h: Task, system: System, owning: bool) -> int:
    """The time of a job's segments: all of it if the task owns the GPU or spins, else only its CPU work and updates."""
    if owning:
        return h.gpu_time + 2 * _epsilon(h, system) * h.eta
    return h.misc_time + 2 * _alpha(h, system) * h.eta

# SPDX-License-Identifier: GPL-2.0
"""GCAPS: preemptive priority-based GPU scheduling (ECRTS'24, section 6.3), as policy `segment` implements it.

Some lemmas of the paper do not hold for a GPU that is owned from a segment's begin to its end.  The bounds here differ
from those lemmas.  docs/readings/gcaps.md, "GCAPS: the GPU is owned from begin to end", has the argument and the proof.
analysis/papers/ecrts24_printed.py has the lemmas exactly as printed.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import Task, Waiting
from analysis.rta import wakeups
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System

MIXED = "readings: GCAPS, each task in its own mode"
OWNED = "ECRTS'24 lemmas 10, 11 and 13, for ownership from begin to end (readings: GCAPS)"


def suspend(task: Task, system: System) -> list[Demand | Shared]:
    """Demands under self-suspension: ECRTS'24 equation 1 with lemmas 8, 9, 13 to 15."""
    demands: list[Demand | Shared] = [*own(task, system, Waiting.SUSPEND), *wakeups.handed(task, system)]
    demands += _preempting(system.hpp(task), system, owning=task.uses_gpu, below=task)
    if task.uses_gpu:
        demands.append(_remote(task, task.segment_priority, system, TermKind.GPU_PREEMPTION))
    return demands


def _preempting(
    tasks: Iterable[Task], system: System, *, owning: bool, below: Task | None = None
) -> list[Demand]:  # fmt: skip
    """The demands of tasks above on the same CPU if none of them spins; ``owning``: also while they own the GPU.

    A task without GPU work needs no jitter, with two exceptions: its thread can sleep, or it has the priority of
    ``below`` and the thread of ``below`` serves several tasks.
    """
    demands = []
    for h in tasks:
        if not h.uses_gpu:
            equal = below is not None and below.priority == h.priority and len(system.taskset.served_with(below)) > 1
            jitter = system.jitter(h, h.cpu_time) if equal or system.taskset.sleeps(h) else h.jitter
            demands.append(
                Demand(TermKind.CPU_PREEMPTION, h.cpu_time, "ECRTS'24 lemma 15", h.name, h.period, jitter)
            )
            continue
        jitter = system.jitter(h, h.cpu_time + h.misc_time)
        amount = h.cpu_time + h.misc_time + 2 * system.epsilon * h.eta
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "ECRTS'24 lemma 15", h.name, h.period, jitter))
        if owning:
            jitter = system.jitter(h, h.pure_time)
            demands.append(
                Demand(TermKind.GPU_PREEMPTION, h.pure_time, "ECRTS'24 lemma 13", h.name, h.period, jitter)
            )
    return demands


def busy(task: Task, system: System) -> list[Demand | Shared]:
    """Demands under busy waiting: ECRTS'24 equation 1 with lemmas 8 to 12.

    A higher task of the same CPU keeps the CPU for its whole job.  At a begin it can sleep on the update lock while a
    lower task of another CPU updates the runlist.  This wait is charged, so that no jitter is needed.  It is charged
    even if no lower task exists: otherwise the bound would depend on the order among higher GPU priorities, and
    Audsley's method needs a test that does not.
    """
    eps = system.epsilon
    demands: list[Demand | Shared] = [*own(task, system, Waiting.BUSY), *wakeups.handed(task, system)]
    higher = system.hpp(task)
    contended = any(other.cpu != task.cpu for other in system.gpu_tasks)
    for h in higher:
        amount = h.cpu_time + h.gpu_time + 2 * eps * h.eta
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "ECRTS'24 lemmas 10 and 12", h.name, h.period, h.jitter))
        if h.uses_gpu and contended:
            demands.append(
                Demand(TermKind.BLOCKING, eps * h.eta, "readings: GCAPS, busy waiting", h.name, h.period, h.jitter)
            )
    waiting = [t.segment_priority for t in (task, *higher) if t.uses_gpu]
    if waiting:
        kind = TermKind.GPU_PREEMPTION if task.uses_gpu else TermKind.INDIRECT_DELAY
        demands.append(_remote(task, min(waiting), system, kind))
    return demands


def mixed(task: Task, system: System) -> list[Demand | Shared]:
    """Demands where each task waits in its own mode (readings, "GCAPS, each task in its own mode").

    If all GPU-using tasks above it wait in one mode, these are the demands of that mode, whatever the task's own mode.
    """
    higher = system.hpp(task)
    spinning = [h for h in higher if h.spins()]
    if not spinning:
        return suspend(task, system)
    if len(spinning) == sum(h.uses_gpu for h in higher):
        return busy(task, system)
    # A task that spins waits for the GPU-using tasks above it: their pure GPU execution counts.
    sleeping = [h for h in higher if h not in spinning]
    demands: list[Demand | Shared] = [*own(task, system), *_preempting(sleeping, system, owning=True)]
    for h in spinning:
        amount = h.cpu_time + h.gpu_time + 2 * system.epsilon * h.eta
        jitter = system.jitter(h, amount)
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, MIXED, h.name, h.period, jitter))
    level = min(t.segment_priority for t in (task, *spinning) if t.uses_gpu)
    kind = TermKind.GPU_PREEMPTION if task.uses_gpu else TermKind.INDIRECT_DELAY
    return [*demands, _remote(task, level, system, kind)]


def _remote(task: Task, level: int, system: System, kind: TermKind) -> Shared:
    """The demands of owners on other CPUs with at least GPU priority ``level``; computed once for many tasks."""
    return system.shared(
        (task.cpu, level, task.priority, kind),
        lambda: ownership(system.remote_owners(task.cpu, level), system, kind),
    )


def own(task: Task, system: System, waiting: Waiting | None = None) -> list[Demand]:
    """The task's own demand and the blocking of lemma 8: C + G + 2 eps eta + (eta + 1) eps."""
    eps, woken = system.epsilon, wakeups.own(task, system, waiting)
    return [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time - woken, "ECRTS'24 equation 1"),
        Demand(TermKind.WAKE_UPS, woken, wakeups.LEMMA),
        Demand(TermKind.UPDATES, 2 * eps * task.eta, "ECRTS'24 section 6.3, G*"),
        Demand(TermKind.BLOCKING, (task.eta + 1) * eps, "ECRTS'24 lemma 8"),
    ]


def ownership(owners: Iterable[Task], system: System, kind: TermKind) -> list[Demand]:
    """How long ``owners`` can own the GPU: all GPU-using tasks of other CPUs from some GPU priority up.

    A task above an owner on the owner's CPU can delay the owner while it owns the GPU.  The CPU execution of such a
    task counts, and its GPU segments if it uses the GPU.
    """
    lowest: dict[int, int] = {}
    for h in owners:
        lowest[h.cpu] = min(h.priority, lowest.get(h.cpu, h.priority))
    demands = []
    for cpu, level in lowest.items():
        on_cpu = system.on_cpu(cpu)
        single = len({t.thread or t.name for t in on_cpu if t.priority == level}) == 1
        for h in on_cpu:
            if h.priority < level:
                break
            alone = single and h.priority == level
            amount = h.gpu_time + 2 * system.epsilon * h.eta + (0 if alone else h.cpu_time)
            if amount:
                demands.append(Demand(kind, amount, OWNED, h.name, h.period, system.jitter(h, amount)))
    return demands

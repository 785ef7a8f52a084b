# SPDX-License-Identifier: GPL-2.0
"""GCAPS: preemptive priority-based GPU scheduling (ECRTS'24, section 6.3), as policy `segment` implements it.

The bounds here differ from the paper's lemmas where those do not hold for a GPU that is owned from a segment's
begin to its end; docs/readings.md, "GCAPS: the GPU is owned from begin to end", has the argument and proof.
The paper to the letter is in printed.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import Task
from analysis.rta.result import Kind
from analysis.rta.system import Demand, System

OWNED = "ECRTS'24 lemmas 10, 11 and 13, for ownership from begin to end (readings: GCAPS)"


def suspend(task: Task, system: System) -> list[Demand]:
    """Demands under self-suspension: ECRTS'24 equation 1 with lemmas 8, 9, 13 to 15."""
    eps = system.epsilon
    demands = own(task, system)
    for h in system.hpp(task):
        if not h.uses_gpu:
            demands.append(
                Demand(Kind.CPU_PREEMPTION, h.cpu_time, "ECRTS'24 lemma 15", h.name, h.period)
            )
            continue
        jitter = system.jitter(h, h.cpu_time + h.misc_time)
        amount = h.cpu_time + h.misc_time + 2 * eps * h.eta
        demands.append(Demand(Kind.CPU_PREEMPTION, amount, "ECRTS'24 lemma 15", h.name, h.period, jitter))
        if task.uses_gpu:
            jitter = system.jitter(h, h.pure_time)
            demands.append(
                Demand(Kind.GPU_PREEMPTION, h.pure_time, "ECRTS'24 lemma 13", h.name, h.period, jitter)
            )
    if task.uses_gpu:
        demands += ownership(task, system.remote_hpg(task), system, Kind.GPU_PREEMPTION)
    return demands


def busy(task: Task, system: System) -> list[Demand]:
    """Demands under busy waiting: ECRTS'24 equation 1 with lemmas 8 to 12.

    A same-core higher task holds the CPU for its whole job.  It may sleep on the update lock at a begin while
    another core's lower task updates the runlist; that wait is charged, so that no jitter is needed.  Whether the
    other core's task is the lower one is not asked: the answer would depend on the order among higher GPU
    priorities, and Audsley's method needs a test that does not.
    """
    eps = system.epsilon
    demands = own(task, system)
    higher = system.hpp(task)
    for h in higher:
        amount = h.cpu_time + h.gpu_time + 2 * eps * h.eta
        demands.append(Demand(Kind.CPU_PREEMPTION, amount, "ECRTS'24 lemmas 10 and 12", h.name, h.period))
        if h.uses_gpu and any(other.cpu != h.cpu for other in system.gpu_tasks):
            demands.append(
                Demand(Kind.BLOCKING, eps * h.eta, "readings: GCAPS, busy waiting", h.name, h.period)
            )
    waiting = [t for t in (task, *higher) if t.uses_gpu]
    owners = {h.name: h for t in waiting for h in system.remote_hpg(t)}
    kind = Kind.GPU_PREEMPTION if task.uses_gpu else Kind.INDIRECT_DELAY
    return demands + ownership(task, owners.values(), system, kind)


def own(task: Task, system: System) -> list[Demand]:
    """The task's own demand and the blocking of lemma 8: C + G + 2 eps eta + (eta + 1) eps."""
    eps = system.epsilon
    return [
        Demand(Kind.OWN, task.cpu_time + task.gpu_time, "ECRTS'24 equation 1"),
        Demand(Kind.UPDATES, 2 * eps * task.eta, "ECRTS'24 section 6.3, G*"),
        Demand(Kind.BLOCKING, (task.eta + 1) * eps, "ECRTS'24 lemma 8"),
    ]


def ownership(task: Task, owners: Iterable[Task], system: System, kind: Kind) -> list[Demand]:
    """For how long the GPU can belong to ``owners``, tasks of other CPUs than the task's.

    Every task above an owner on the owner's CPU delays it while it owns the GPU: such a task counts with its CPU
    execution, and with its GPU segments if it is an owner itself (or could be).  The jitter of a GPU-using task
    leaves its C out even where C is charged: with one owner less the charge then never grows, as Audsley's
    method needs.
    """
    owning = {h.name: h for h in owners}
    lowest: dict[int, int] = {}
    for h in owning.values():
        lowest[h.cpu] = min(h.priority, lowest.get(h.cpu, h.priority))
    demands = []
    for cpu, level in lowest.items():
        on_cpu = system.on_cpu(cpu)
        for h in on_cpu:
            if h.priority < level:
                break
            alone = h.priority == level and sum(t.priority == level for t in on_cpu) == 1
            segments = h.gpu_time + 2 * system.epsilon * h.eta
            amount = segments + (0 if alone else h.cpu_time)
            jitter = system.jitter(h, segments if h.uses_gpu else amount)
            if amount:
                demands.append(Demand(kind, amount, OWNED, h.name, h.period, jitter))
    return demands

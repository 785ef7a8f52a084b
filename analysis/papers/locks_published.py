# SPDX-License-Identifier: GPL-2.0
"""MPCP and FMLP+ with the charges of the evaluation published with GCAPS, without overheads; for comparison.

docs/readings/locks.md, "MPCP" and "FMLP+", says how these differ from the bounds in mpcp.py and fmlp.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import Task, Waiting
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System

MPCP = "readings: MPCP, as the evaluation charges it"
FMLP = "readings: FMLP+, as the evaluation charges it"


def mpcp(task: Task, system: System, waiting: Waiting) -> list[Demand | Shared]:
    """The hybrid approach; a request's response is its length plus the longest request of every more urgent task."""
    listed: list[Demand | Shared] = [*_own(task), *_preemption(task, system, waiting, MPCP)]
    key = ("boosting", task.cpu, task.priority, task.eta)
    listed.append(system.shared(key, lambda: _boosting(task, system)))
    if task.uses_gpu:
        key = ("queue", task.segment_priority, task.priority, task.eta)
        listed.append(system.shared(key, lambda: _queue(task, system)))
        equals = (h for h in system.gpu_tasks if h.segment_priority == task.segment_priority and h is not task)
        listed += [_requests(h, system) for h in equals]
    return listed


def fmlp(task: Task, system: System, waiting: Waiting) -> list[Demand | Shared]:
    """For each own request, one of each task of another CPU; in all, one of each lower task of its CPU."""
    listed: list[Demand | Shared] = [*_own(task), *_preemption(task, system, waiting, FMLP)]
    key = ("first come", task.cpu, task.priority, task.eta)
    listed.append(system.shared(key, lambda: _first_come(task, system)))
    return listed


def _own(task: Task) -> list[Demand]:
    return [Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "ECRTS'24 equation 1")]


def _preemption(task: Task, system: System, waiting: Waiting, lemma: str) -> Iterable[Demand]:
    for h in system.hpp(task):
        amount = h.cpu_time + (h.gpu_time if waiting.spins else h.misc_time)
        yield Demand(TermKind.CPU_PREEMPTION, amount, lemma, h.name, h.period, system.jitter(h, amount))


def _boosting(task: Task, system: System) -> Iterable[Demand]:
    """B^pm: G^m of lower tasks of its CPU, in both modes."""
    for j in system.lower_on_cpu(task):
        cap = (task.eta + 1) * max(s.misc.worst for s in j.gpu_segments)
        if cap and not j.best_effort:
            jitter = max(j.period - j.cpu_time - j.misc_time, 0)
            yield Demand(TermKind.BLOCKING, j.misc_time, MPCP, j.name, j.period, jitter, cap)
        else:
            yield Demand(TermKind.BLOCKING, cap, MPCP, j.name)


def _queue(task: Task, system: System) -> Iterable[Demand]:
    """B^dm: the longest lower response for each request, and the responses of all higher requests for each job."""
    lower = {t.name: max(_responses(t, system)) for t in system.outranked(task)}
    worst = max(lower, key=lambda name: lower[name], default=None)
    if worst is not None:
        yield Demand(TermKind.BLOCKING, task.eta * lower[worst], MPCP, worst)
    for h in system.gpu_tasks:
        if h.segment_priority > task.segment_priority:
            yield _requests(h, system)


def _requests(h: Task, system: System) -> Demand:
    """The responses of every job of h in the window."""
    jitter = system.jitter(h, h.cpu_time + h.misc_time)
    return Demand(TermKind.GPU_PREEMPTION, sum(_responses(h, system)), MPCP, h.name, h.period, jitter)


def _responses(task: Task, system: System) -> list[int]:
    """W of each request of a task."""
    level = task.segment_priority

    def longer() -> Iterable[Demand]:
        higher = [h for h in system.gpu_tasks if h.segment_priority > level]
        yield Demand(TermKind.BLOCKING, sum(_longest(h) for h in higher), MPCP)

    added = system.shared(("response", level), longer).constant
    return [s.misc.worst + s.pure.worst + added for s in task.gpu_segments]


def _first_come(task: Task, system: System) -> Iterable[Demand]:
    for t in system.taskset:
        remote = t.uses_gpu and t.cpu != task.cpu and task.uses_gpu
        local = t.uses_gpu and t.cpu == task.cpu and t.priority < task.priority
        if remote or local:
            cap = (task.eta + local) * _longest(t)
            amount = t.eta * _longest(t)
            if cap and not t.best_effort:
                yield Demand(TermKind.BLOCKING, amount, FMLP, t.name, t.period, t.period, cap)
            else:
                yield Demand(TermKind.BLOCKING, cap, FMLP, t.name)


def _longest(task: Task) -> int:
    return max(s.misc.worst + s.pure.worst for s in task.gpu_segments)

# SPDX-License-Identifier: GPL-2.0
"""FMLP+ on a GPU that is one global lock (Brandenburg, ECRTS 2014): first come, first served, with boosting.

With partitioned CPUs and one lock, segment boosting means that the task that holds the GPU executes above every
normal priority of its CPU.  A request waits for at most one request of each other task.  Waiters sleep.  Overheads are
those of mpcp.py.  docs/readings/locks.md, "FMLP+", has the proof, and the delays that the published tests omit.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import Task
from analysis.papers.mpcp import carried, held, last_segment, own, preemption, request, spinning, spun
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System, bounded

FMLP_QUEUE = "readings: FMLP+, the queue"
FMLP_BOOST = "readings: FMLP+, boosting"
FMLP_CPU = "readings: FMLP+, CPU"


def suspend(task: Task, system: System) -> list[Demand | Shared]:
    """Demands where holders sleep while their pure GPU segments execute."""
    demands: list[Demand | Shared] = [*own(task, system), *_remote(task, system)]
    demands.append(system.shared(("boosted", task.cpu, task.priority, task.eta), lambda: _local(task, system)))
    for h in system.hpp(task):
        demands.append(preemption(h, h.cpu_time + h.misc_time, FMLP_CPU, system))
        if task.uses_gpu and h.uses_gpu:
            longest = max(s.pure.worst for s in h.gpu_segments) + system.taskset.platform.theta
            amount = h.pure_time + held(h, system)
            demands.append(bounded(TermKind.GPU_PREEMPTION, h, amount, task.eta * longest, FMLP_QUEUE, system))
    return demands + carried(task, last_segment(task).misc.worst, system)


def busy(task: Task, system: System) -> list[Demand | Shared]:
    """Demands where holders spin, above every normal priority, while their pure GPU segments execute."""
    demands: list[Demand | Shared] = [*own(task, system), *_remote(task, system)]
    demands.append(spinning(task, system, FMLP_BOOST))
    for h in system.hpp(task):
        demands.append(preemption(h, h.cpu_time + h.gpu_time + held(h, system), FMLP_CPU, system))
    return demands + spun(task, system)


def _local(task: Task, system: System) -> Iterable[Demand]:
    """Lower tasks of its CPU: a whole request for each own one, and the boosted G^m of one more after the last."""
    for j in system.lower_on_cpu(task):
        longest = max(s.misc.worst for s in j.gpu_segments)
        amount = j.gpu_time + held(j, system) if task.uses_gpu else j.misc_time
        yield bounded(TermKind.BLOCKING, j, amount, task.eta * request(j, system) + longest, FMLP_BOOST, system)


def _remote(task: Task, system: System) -> list[Shared]:
    """Demands of tasks of other CPUs, best effort included: at most one request each for each of the task's own."""
    if not task.uses_gpu:
        return []

    def make() -> Iterable[Demand]:
        for t in system.taskset:
            if t.uses_gpu and t.cpu != task.cpu:
                cap = task.eta * request(t, system)
                yield bounded(TermKind.BLOCKING, t, t.gpu_time + held(t, system), cap, FMLP_QUEUE, system)

    return [system.shared(("first come", task.cpu, task.priority, task.eta), make)]

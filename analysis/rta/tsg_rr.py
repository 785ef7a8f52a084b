# SPDX-License-Identifier: GPL-2.0
"""The default driver: TSGs in round robin with time slice L (ECRTS'24, section 6.2, lemmas 1 to 7).

The paper's equation 3 omits the context switch back to the task itself; docs/readings/gcaps.md, "Round robin".
"""

from __future__ import annotations

from analysis.model import Task
from analysis.model.driver import longest_slice, settled
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import System


def suspend(task: Task, system: System) -> list[Demand]:
    """Demands under self-suspension: lemmas 1 to 3, 6 and 7."""
    return [*own(task, system), *preemptions(task, system)]


def preemptions(task: Task, system: System) -> list[Demand]:
    """The demands of higher tasks on the task's CPU, while the task does not keep it by spinning: lemma 7."""
    demands = []
    for h in system.hpp(task):
        amount = h.cpu_time + h.misc_time
        jitter = system.jitter(h, amount) if h.uses_gpu else 0
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "ECRTS'24 lemma 7", h.name, h.period, jitter))
    return demands


def busy(task: Task, system: System) -> list[Demand]:
    """Demands under busy waiting: lemmas 1 to 5.

    The slices of each higher task of the same CPU are charged in that task's own term.  Therefore they are not among
    the slices that another higher task waits for.
    """
    demands = own(task, system)
    higher = system.hpp(task)
    others = system.gpu_users - sum(h.uses_gpu for h in higher)
    for h in higher:
        amount = h.cpu_time + h.misc_time
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "ECRTS'24 lemma 5", h.name, h.period))
        if h.uses_gpu:
            amount = slices(h, system) * round_length(others + 1, system)
            demands.append(Demand(TermKind.INDIRECT_DELAY, amount, "ECRTS'24 lemma 4", h.name, h.period))
    return demands


def own(task: Task, system: System) -> list[Demand]:
    """The task's own demand and the delay by interleaving: lemma 1, with a switch back for each slice."""
    others = system.gpu_users - task.uses_gpu
    delay = round_length(others, system) + system.taskset.platform.theta
    return [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "ECRTS'24 equation 1"),
        Demand(TermKind.INTERLEAVING, slices(task, system) * delay, "ECRTS'24 lemma 1 (readings: Round robin)"),
    ]


def slices(task: Task, system: System) -> int:
    """The number of time slices, of the length that the driver keeps, that the pure GPU segments of a job take."""
    length = settled(system.taskset.platform.time_slice)
    return sum(-(-segment.pure.worst // length) for segment in task.gpu_segments)


def round_length(tasks: int, system: System) -> int:
    """(L + theta) nu for nu = ``tasks``: each has a slice, at its longest, and the switch to it."""
    platform = system.taskset.platform
    return tasks * (longest_slice(platform.time_slice, platform.stretch) + platform.theta)

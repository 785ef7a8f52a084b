# SPDX-License-Identifier: GPL-2.0
"""ECRTS'24, section 6, to the letter: for comparison, not to rely on.

docs/readings.md names the errors of each formula.  Equation 1's G_i is read as G_i*, as the definition above lemma 8
demands.  Best-effort tasks interfere only under the round-robin driver, through their TSGs.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.model import Task
from analysis.rta import tsg_rr
from analysis.rta.gcaps import own
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import System


def gcaps_suspend(task: Task, system: System) -> Sequence[Demand]:
    """Lemmas 8, 9, 13, 14 and 15."""
    eps = system.epsilon
    demands = own(task, system)
    for h in system.hpp(task):
        jitter = system.jitter(h, h.cpu_time + h.misc_time) if h.uses_gpu else 0
        amount = h.cpu_time + h.misc_time + 2 * eps * h.eta
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "ECRTS'24 lemma 15", h.name, h.period, jitter))
        if task.uses_gpu and h.uses_gpu:
            jitter = system.jitter(h, h.pure_time)
            demands.append(
                Demand(TermKind.GPU_PREEMPTION, h.pure_time, "ECRTS'24 lemma 13", h.name, h.period, jitter)
            )
    return demands + (remote(task, system, "ECRTS'24 lemma 13") if task.uses_gpu else [])


def gcaps_busy(task: Task, system: System) -> Sequence[Demand]:
    """Lemmas 8 to 12."""
    eps = system.epsilon
    demands = own(task, system)
    for h in system.hpp(task):
        amount = h.cpu_time + h.misc_time
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "ECRTS'24 lemma 12", h.name, h.period))
        if task.uses_gpu and h.uses_gpu:
            amount = h.pure_time + 2 * eps * h.eta
            demands.append(Demand(TermKind.GPU_PREEMPTION, amount, "ECRTS'24 lemma 10", h.name, h.period))
    return demands + remote(task, system, "ECRTS'24 lemmas 10 and 11")


def gcaps_busy_evaluated(task: Task, system: System) -> Sequence[Demand]:
    """Lemmas 8 to 12 as in table 5 and the authors' program: a CPU-only task is also charged G^e and updates."""
    demands = own(task, system)
    for h in system.hpp(task):
        amount = h.cpu_time + h.gpu_time + 2 * system.epsilon * h.eta
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "ECRTS'24 lemma 12", h.name, h.period))
    return demands + remote(task, system, "ECRTS'24 lemmas 10 and 11")


def remote(task: Task, system: System, lemma: str) -> list[Demand]:
    """The terms of lemmas 10, 11 and 13 over tau_h on other CPUs: G^e* with jitter R_h - G^e."""
    kind = TermKind.GPU_PREEMPTION if task.uses_gpu else TermKind.INDIRECT_DELAY
    return [
        Demand(
            kind,
            h.pure_time + 2 * system.epsilon * h.eta,
            lemma,
            h.name,
            h.period,
            system.jitter(h, h.pure_time),
        )
        for h in system.remote_hpg(task)
    ]


def tsg_rr_suspend(task: Task, system: System) -> list[Demand]:
    """Lemmas 1 to 3, 6 and 7."""
    return [*_interleaved(task, system), *tsg_rr.suspend(task, system)[2:]]


def tsg_rr_busy(task: Task, system: System) -> list[Demand]:
    """Lemmas 1 to 5."""
    return [*_interleaved(task, system), *tsg_rr.busy(task, system)[2:]]


def _interleaved(task: Task, system: System) -> list[Demand]:
    """The task's own demand and equation 5, with equation 3 as printed: no switch back to the task."""
    others = system.gpu_users - task.uses_gpu
    amount = tsg_rr.slices(task, system) * tsg_rr.round_length(others, system)
    return [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "ECRTS'24 equation 1"),
        Demand(TermKind.INTERLEAVING, amount, "ECRTS'24 lemma 1"),
    ]

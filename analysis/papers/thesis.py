# SPDX-License-Identifier: GPL-2.0
"""The thesis, chapter 4, corrected: a kernel thread that is notified, and the reduced pessimism (lemmas 19 to 21).

Corrected, lemmas 14 to 16 of the ioctl approach are the bounds of analysis/rta/gcaps.py.  docs/readings/thesis.md,
"Thesis", has the proofs and the errors in print.  The printed version is in thesis_printed.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import Task
from analysis.rta import gcaps, kernel_thread
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System


def notified(task: Task, system: System) -> list[Demand | Shared]:
    """Lemmas 12 and 13 for a thread that is notified and need not poll."""
    return kernel_thread.busy(task, system, 0)


def reduced_suspend(task: Task, system: System) -> list[Demand | Shared]:
    """gcaps-suspend minus the overlaps of lemmas 19 and 20; for strictly periodic releases."""
    overlaps = [*_cpu_under_gpu(task, system)]
    if task.uses_gpu:
        overlaps += _gpu_under_cpu(task, [*system.hpp(task), *system.remote_hpg(task)])
    return [*gcaps.suspend(task, system), *overlaps]


def reduced_busy(task: Task, system: System) -> list[Demand | Shared]:
    """gcaps-busy minus the overlaps of lemmas 19 and 21; for strictly periodic releases.

    A GPU segment of another CPU overlaps with the task's CPU segments only if no same-core task waits for it.
    """
    overlaps = [*_cpu_under_gpu(task, system)]
    if task.uses_gpu and not any(h.uses_gpu for h in system.hpp(task)):
        overlaps += _gpu_under_cpu(task, system.remote_hpg(task))
    return [*gcaps.busy(task, system), *overlaps]


OVERLAP = "thesis lemma 19 (readings: reduced pessimism)"


def _cpu_under_gpu(task: Task, system: System) -> Iterable[Demand]:
    """C of whole jobs of higher tasks of its CPU that execute during a pure GPU segment of the task.

    A task that can preempt an owner of the GPU there does not count: the segment may be waiting for that task's C.
    """
    higher = system.hpp(task)
    for h in (h for h in higher if _lowest_user(h, higher)):
        best = sum(s.time.best for s in h.cpu_segments)
        saved = sum(_whole_jobs(s.pure.best, h) for s in task.gpu_segments) * best
        if saved:
            yield Demand(TermKind.OVERLAP, -saved, OVERLAP, h.name, relied=True)


def _lowest_user(h: Task, higher: list[Task]) -> bool:
    """Whether no other task of ``higher`` uses the GPU at or below h's priority."""
    return not any(t.uses_gpu and t is not h and t.priority <= h.priority for t in higher)


def _gpu_under_cpu(task: Task, owners: Iterable[Task]) -> Iterable[Demand]:
    """G^e of whole jobs that execute during a CPU segment of the task."""
    for h in owners:
        best = sum(s.pure.best for s in h.gpu_segments)
        saved = sum(_whole_jobs(s.time.best, h) for s in task.cpu_segments) * best
        if saved:
            yield Demand(TermKind.OVERLAP, -saved, OVERLAP, h.name, relied=True)


def _whole_jobs(length: int, h: Task) -> int:
    """One less than the number of jobs wholly inside an interval of that length; the least solution needs that margin.

    A full overlap (definition 18) refers to completion times (definition 17).
    """
    return max(length // h.period - 2, 0)

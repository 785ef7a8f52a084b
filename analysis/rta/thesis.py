# SPDX-License-Identifier: GPL-2.0
"""The thesis, chapter 4: the kernel thread (lemmas 12, 13) and the reduced pessimism (lemmas 19 to 21), as they hold.

Repaired, lemmas 14 to 16 of the ioctl approach are the bounds of gcaps.py.  The proofs, and what is wrong in the print,
are in docs/readings/thesis.md, "Thesis".  The print is in thesis_printed.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import MS, Task
from analysis.rta import gcaps
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import Demands, System

#: Where the kernel thread runs, and how often it looks as published (section 4.5.1), ns.
THREAD_CPU = 0
POLL = 1 * MS

THREAD = "thesis lemma 12 (readings: kernel thread)"
JOBS = "thesis lemma 13 (readings: kernel thread)"


def kernel_thread(poll: int) -> Demands:
    """Lemmas 12 and 13 for a thread that notices a change within ``poll`` ns; 0: it is notified."""

    def busy(task: Task, system: System) -> list[Demand | Shared]:
        return _kernel_thread(task, system, poll)

    return busy


def _kernel_thread(task: Task, system: System, poll: int) -> list[Demand | Shared]:
    eps, higher = system.epsilon, system.hpp(task)
    waiting = [t.segment_priority for t in (task, *higher) if t.uses_gpu]
    in_flight = eps if waiting else 0
    if task.cpu == THREAD_CPU:
        in_flight += 2 * system.taskset.platform.alpha
    demands: list[Demand | Shared] = [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "thesis equation 4.2"),
        Demand(TermKind.UPDATES, eps + poll if task.uses_gpu else 0, THREAD),
        Demand(TermKind.BLOCKING, in_flight, THREAD),
    ]
    for h in higher:
        amount = h.cpu_time + h.gpu_time + (3 * eps + 2 * poll if h.uses_gpu else 0)
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, JOBS, h.name, h.period))
    if task.cpu == THREAD_CPU:
        demands.append(system.shared(("thread", task.name), lambda: _thread(task, system, poll)))
    if waiting:
        kind, level = TermKind.GPU_PREEMPTION if task.uses_gpu else TermKind.INDIRECT_DELAY, min(waiting)
        key = (task.cpu, level, task.priority, kind)
        demands.append(system.shared(key, lambda: _owners(task, level, kind, system, poll)))
    return demands


def _thread(task: Task, system: System, poll: int) -> Iterable[Demand]:
    """The kernel thread's own execution on the task's CPU: at the start and the end of every job that uses the GPU.

    Unlike in lemma 12, jobs of lower priority count too: the thread executes above every task of its CPU.
    """
    alpha = system.taskset.platform.alpha
    for t in system.gpu_tasks:
        if t is not task and alpha:
            yield Demand(TermKind.UPDATES, 2 * alpha, THREAD, t.name, t.period, system.jitter(t, 0) + poll)


def _owners(task: Task, level: int, kind: TermKind, system: System, poll: int) -> Iterable[Demand]:
    """Jobs of other CPUs that can own the GPU, from release to the update after completion, and jobs in their way."""
    lowest: dict[int, int] = {}
    for h in system.remote_owners(task.cpu, level):
        lowest[h.cpu] = min(h.priority, lowest.get(h.cpu, h.priority))
    for cpu, bottom in lowest.items():
        for h in system.on_cpu(cpu):
            if h.priority < bottom:
                break
            amount = h.cpu_time + h.gpu_time + (2 * (system.epsilon + poll) if h.uses_gpu else 0)
            if amount:
                late = system.epsilon + poll if h.uses_gpu else 0
                jitter = system.jitter(h, amount - late)
                yield Demand(kind, amount, JOBS, h.name, h.period, jitter)


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
    """C of whole jobs of higher tasks of its CPU that execute while a pure GPU segment of the task lasts.

    A task that can preempt an owner of the GPU there does not count: the segment may be waiting for its C.
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
    """G^e of whole jobs that execute while a CPU segment of the task lasts."""
    for h in owners:
        best = sum(s.pure.best for s in h.gpu_segments)
        saved = sum(_whole_jobs(s.time.best, h) for s in task.cpu_segments) * best
        if saved:
            yield Demand(TermKind.OVERLAP, -saved, OVERLAP, h.name, relied=True)


def _whole_jobs(length: int, h: Task) -> int:
    """One job less than lie wholly inside an interval of that length; the least solution needs that margin."""
    return max(length // h.period - 2, 0)

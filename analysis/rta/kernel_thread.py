# SPDX-License-Identifier: GPL-2.0
"""The kernel thread of the thesis (chapter 4, lemmas 12 and 13), as policy `job` implements it.

The proof, and the errors in print, are in docs/readings/thesis.md, "Thesis".
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import MS, Task
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System

#: The CPU of the kernel thread, and its polling period as published (section 4.5.1), ns.
THREAD_CPU = 0
POLL = 1 * MS

THREAD = "thesis lemma 12 (readings: kernel thread)"
JOBS = "thesis lemma 13 (readings: kernel thread)"


def busy(task: Task, system: System, poll: int = POLL) -> list[Demand | Shared]:
    """Lemmas 12 and 13 for a thread that notices a change within ``poll`` ns; 0: it is notified."""
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
    """Jobs on other CPUs that can own the GPU, from release to the update after their end, and jobs that delay them."""
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

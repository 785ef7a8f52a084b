# SPDX-License-Identifier: GPL-2.0
"""The thesis, section 4.6, to the letter: for comparison, not to rely on.

docs/readings/thesis.md names the errors of each lemma, and how damaged places are read.  The condition of its proof
settles x_i of equation 4.1; analogy with equation 4.7 settles BX^c of lemma 19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from analysis.model import Task
from analysis.rta.kernel_thread import THREAD_CPU
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import System

#: The most steps of equation 4.7, which does not always converge.
MAX_PRINTED_STEPS = 1000


def kernel_thread(task: Task, system: System) -> list[Demand]:
    """Lemmas 12 and 13."""
    demands = [Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "thesis equation 4.2")]
    for h in system.hpp(task):
        demands.append(
            Demand(TermKind.CPU_PREEMPTION, h.cpu_time + h.gpu_time, "thesis lemma 13", h.name, h.period)
        )
    for h in system.remote_hpg(task) if task.uses_gpu else []:
        demands.append(_recurring(TermKind.GPU_PREEMPTION, h, h.cpu_time + h.gpu_time, "thesis lemma 13", system))
    if not (task.uses_gpu or task.cpu == THREAD_CPU):
        return demands
    demands.append(Demand(TermKind.UPDATES, 2 * system.epsilon, "thesis lemma 12"))
    for h in system.taskset.real_time:
        if h is not task and h.priority >= task.priority:
            jitter = system.jitter(h, h.cpu_time + h.gpu_time)
            demands.append(
                Demand(TermKind.UPDATES, 2 * system.epsilon, "thesis lemma 12", h.name, h.period, jitter)
            )
    return demands


def ioctl_suspend(task: Task, system: System) -> list[Demand]:
    """Lemmas 14 and 15."""
    demands = _own(task, system)
    for h in system.hpp(task):
        demands.append(_recurring(TermKind.CPU_PREEMPTION, h, h.cpu_time + h.misc_time, "thesis lemma 15", system))
    for h in _higher_users(task, system):
        demands.append(_recurring(TermKind.GPU_PREEMPTION, h, h.pure_time, "thesis lemma 15", system))
    return demands


def ioctl_busy(task: Task, system: System) -> list[Demand]:
    """Lemmas 14 and 16."""
    demands = _own(task, system)
    for h in system.hpp(task):
        amount = h.cpu_time + h.gpu_time
        demands.append(Demand(TermKind.CPU_PREEMPTION, amount, "thesis lemma 16", h.name, h.period))
    for h in system.remote_hpg(task) if task.uses_gpu else []:
        demands.append(_recurring(TermKind.GPU_PREEMPTION, h, h.pure_time, "thesis lemma 16", system))
    return demands


def reduced_suspend(task: Task, system: System) -> list[Demand]:
    """Lemmas 19 and 20."""
    overlaps = [*_cpu_under_gpu(task, system)]
    for h in _higher_users(task, system):
        overlaps += _gpu_under_cpu(task, h, system)
    return ioctl_suspend(task, system) + overlaps


def reduced_busy(task: Task, system: System) -> list[Demand]:
    """Lemmas 19 and 21."""
    overlaps = [*_cpu_under_gpu(task, system)]
    remote = system.remote_hpg(task) if task.uses_gpu else []
    for h in [*system.hpp(task), *remote]:
        overlaps += _gpu_under_cpu(task, h, system)
    return ioctl_busy(task, system) + overlaps


def _own(task: Task, system: System) -> list[Demand]:
    """C + G, and B of lemma 14."""
    demands = [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "thesis equation 4.4"),
        Demand(TermKind.UPDATES, 2 * system.epsilon * task.eta, "thesis lemma 14"),
    ]
    for h in _higher_users(task, system):
        jitter = system.jitter(h, h.cpu_time + h.gpu_time)
        demands.append(
            Demand(TermKind.UPDATES, 2 * system.epsilon, "thesis lemma 14", h.name, h.period, jitter)
        )
    return demands


def _higher_users(task: Task, system: System) -> list[Task]:
    """hp(tau_i) if both tasks use the GPU."""
    if not task.uses_gpu:
        return []
    return [h for h in system.hpp(task) if h.uses_gpu] + system.remote_hpg(task)


def _recurring(kind: TermKind, h: Task, amount: int, lemma: str, system: System) -> Demand:
    return Demand(kind, amount, lemma, h.name, h.period, system.jitter(h, amount))


def _cpu_under_gpu(task: Task, system: System) -> Iterable[Demand]:
    """O^cg of equations 4.6 and 4.8."""
    higher = [h for h in system.taskset.real_time if h is not task and h.priority >= task.priority]
    lengths = [_completion(s.pure.worst, s.pure.best, higher, _best_pure) for s in task.gpu_segments]
    for h in system.hpp(task):
        yield from _overlap(lengths, h, sum(s.time.best for s in h.cpu_segments))


def _gpu_under_cpu(task: Task, h: Task, system: System) -> Iterable[Demand]:
    """O^gc of equations 4.9 and 4.10; BX^c as 4.7 with the tasks and segments of the CPU."""
    higher = system.hpp(task)
    lengths = [_completion(s.time.worst, s.time.best, higher, _best_cpu) for s in task.cpu_segments]
    yield from _overlap(lengths, h, _best_pure(h))


def _overlap(lengths: Iterable[int], h: Task, best: int) -> Iterable[Demand]:
    saved = sum(max((length // h.period - 1) * best, 0) for length in lengths)
    if saved:
        yield Demand(TermKind.OVERLAP, -saved, "thesis lemma 19", h.name)


def _completion(worst: int, best: int, higher: Iterable[Task], part: Callable[[Task], int]) -> int:
    """BX of equation 4.7, started at the worst case as printed; at least 0; the last value if it does not converge."""
    length = worst
    for _ in range(MAX_PRINTED_STEPS):
        following = best + sum((length // h.period - 1) * part(h) for h in higher)
        if following == length or length <= 0:
            break
        length = following
    return max(length, 0)


def _best_pure(task: Task) -> int:
    return sum(s.pure.best for s in task.gpu_segments)


def _best_cpu(task: Task) -> int:
    return sum(s.time.best for s in task.cpu_segments)

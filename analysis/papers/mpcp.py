# SPDX-License-Identifier: GPL-2.0
"""MPCP on a GPU that is one global lock (Patel, Baek, Kim, Rajkumar, RTAS 2018): priority-ordered, with boosting.

A GPU segment is one request.  Its holder executes above every normal priority of its CPU.  Therefore it holds the GPU
for its own length and the context switch to it (theta; 0 as published).  Waiters sleep.  The protocol makes no runlist
updates, so alpha has no effect.  docs/readings/locks.md, "MPCP", has the proof and the published charge.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import CpuSegment, GpuSegment, Segment, Span, Task
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System, bounded, recurring

QUEUE = "readings: MPCP, the queue"
BOOST = "readings: MPCP, boosting"
MPCP_CPU = "readings: MPCP, CPU"


def suspend(task: Task, system: System) -> list[Demand | Shared]:
    """Demands where holders sleep while their pure GPU segments execute."""
    demands: list[Demand | Shared] = [*own(task, system), *_queue(task, system)]
    demands.append(system.shared(("boosted", task.cpu, task.priority, task.eta), lambda: _boosted(task, system)))
    for h in system.hpp(task):
        waits = h.pure_time + held(h, system) if task.uses_gpu else 0
        demands.append(preemption(h, h.cpu_time + h.misc_time + waits, MPCP_CPU, system))
    return demands + carried(task, last_segment(task).misc.worst, system)


def busy(task: Task, system: System) -> list[Demand | Shared]:
    """Demands where holders spin, above every normal priority, while their pure GPU segments execute."""
    demands: list[Demand | Shared] = [*own(task, system), *_queue(task, system)]
    demands.append(spinning(task, system, BOOST))
    for h in system.hpp(task):
        demands.append(preemption(h, h.cpu_time + h.gpu_time + held(h, system), MPCP_CPU, system))
    return demands + spun(task, system)


def own(task: Task, system: System) -> list[Demand]:
    """The task's own demand: C + G, and one context switch for each segment."""
    return [
        Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "readings: MPCP, own"),
        Demand(TermKind.UPDATES, held(task, system), "readings: MPCP, context switch"),
    ]


def held(task: Task, system: System) -> int:
    """The time that context switches add while a job holds the GPU, ns."""
    return task.eta * system.taskset.platform.theta


def request(task: Task, system: System) -> int:
    """The time for which the task's longest request holds the GPU, ns."""
    longest = max(s.misc.worst + s.pure.worst for s in task.gpu_segments)
    return longest + system.taskset.platform.theta


def preemption(h: Task, amount: int, lemma: str, system: System) -> Demand:
    """``amount`` for each job of a task above on the CPU.  A task that never sleeps needs no jitter."""
    jitter = system.jitter(h, amount) if system.taskset.sleeps(h) else 0
    return Demand(TermKind.CPU_PREEMPTION, amount, lemma, h.name, h.period, jitter)


def last_segment(task: Task) -> GpuSegment:
    """The GPU segment that ends a job; an empty one if a CPU segment ends it."""
    last = next((s for s in reversed(task.segments) if length(s)), None)
    return last if isinstance(last, GpuSegment) else GpuSegment(Span.exactly(0), Span.exactly(0))


def length(segment: Segment) -> int:
    """Its worst case, ns."""
    return segment.time.worst if isinstance(segment, CpuSegment) else segment.misc.worst + segment.pure.worst


def carried(task: Task, amount: int, system: System) -> list[Demand]:
    """The boosted end of the task's previous job, if CPU-only tasks above can be pending since before the release."""
    if all(system.taskset.sleeps(h) for h in system.hpp(task)):
        return []
    return [Demand(TermKind.BLOCKING, amount, "readings: MPCP, the previous job")]


def spun(task: Task, system: System) -> list[Demand]:
    """The end of the previous job, if the task spins there."""
    last = length(last_segment(task))
    return carried(task, last + system.taskset.platform.theta if last else 0, system)


def spinning(task: Task, system: System, lemma: str) -> Shared:
    """Requests of lower tasks of its CPU, which spin above it: one before each own request and one at the end."""

    def make() -> Iterable[Demand]:
        for j in system.lower_on_cpu(task):
            cap = (task.eta + 1) * request(j, system)
            yield bounded(TermKind.BLOCKING, j, j.gpu_time + held(j, system), cap, lemma, system)

    return system.shared(("spinning", task.cpu, task.priority, task.eta), make)


def _boosted(task: Task, system: System) -> Iterable[Demand]:
    """Requests of lower tasks of its CPU if they sleep during G^e, so that only their G^m takes the CPU."""
    for j in system.lower_on_cpu(task):
        longest = max(s.misc.worst for s in j.gpu_segments)
        yield bounded(TermKind.BLOCKING, j, j.misc_time, (task.eta + 1) * longest, BOOST, system)


def _queue(task: Task, system: System) -> list[Shared]:
    """Requests that delay the task in the queue: a lower one, and those of at least its priority from other CPUs."""
    if not task.uses_gpu:
        return []
    level = task.segment_priority
    return [
        system.shared(("blocking", level, task.eta), lambda: _blocking(task, system)),
        system.shared(("ahead", task.cpu, level, task.priority), lambda: _ahead(task, system)),
    ]


def _blocking(task: Task, system: System) -> Iterable[Demand]:
    """For each own request, the longest request of lower priority, which may hold the GPU at that time."""
    longest = max(system.outranked(task), key=lambda t: request(t, system), default=None)
    if longest:
        yield Demand(TermKind.BLOCKING, task.eta * request(longest, system), QUEUE, longest.name)


def _ahead(task: Task, system: System) -> Iterable[Demand]:
    """Requests of at least the task's priority from other CPUs, for every job in the window."""
    for h in system.remote_hpg(task):
        yield recurring(TermKind.GPU_PREEMPTION, h, h.gpu_time + held(h, system), QUEUE, system)

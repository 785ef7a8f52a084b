# SPDX-License-Identifier: GPL-2.0
"""Wake-ups of threads: each takes up to ``cpu_latency`` of its CPU before the thread executes.

docs/readings/latency.md has the argument: a wake-up is CPU work of the thread that wakes, at its priority.  So the
bounds are those of tasks with longer segments, and of what a hand-over of the update lock adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.model import FORMS, CpuSegment, GpuSegment, Segment, Span, Task, Taskset, Waiting
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import System
from gpurt.enums import Form

LEMMA = "readings: latency, wake-ups"
HANDED = "readings: latency, the update lock"


def contained(taskset: Taskset, waiting: Waiting | None) -> Taskset:
    """The taskset with the wake-ups of its tasks as parts of their segments.  Nothing changes where that was done.

    A job wakes when it is released.  In a GPU segment its thread can sleep in begin and end, and while G^e executes.
    """
    latency = taskset.platform.cpu_latency
    if not latency:
        return taskset

    def longer(task: Task) -> Task:
        times = _inside(task, waiting) * latency
        segments: list[Segment] = [CpuSegment(Span(latency, 0))]
        for one in task.segments:
            if isinstance(one, GpuSegment):
                one = replace(one, misc=Span(one.misc.worst + times, one.misc.best))
            segments.append(one)
        return replace(task, segments=tuple(segments))

    platform = replace(taskset.platform, cpu_latency=0, woken=latency)
    return replace(taskset, tasks=tuple(longer(task) for task in taskset), platform=platform)


def own(task: Task, system: System, waiting: Waiting | None) -> int:
    """The part of its own execution that ``contained`` has added: of one release, and of every GPU segment, ns."""
    return (1 + _inside(task, waiting) * task.eta) * system.taskset.platform.woken


def _inside(task: Task, waiting: Waiting | None) -> int:
    """How often a thread wakes in a GPU segment."""
    return 2 if (waiting or task.waiting) is Waiting.BUSY else 3


def contended(taskset: Taskset) -> bool:
    """Whether a task can wait for the update lock: tasks of several CPUs use the GPU."""
    return len({task.cpu for task in taskset if task.uses_gpu}) > 1


def handed(task: Task, system: System) -> list[Demand]:
    """The wake-ups of threads that are handed the update lock, and are passed by others before they execute.

    Each decision wakes one such thread at most, and passes one.  Either can be on a CPU that the task waits for.
    """
    platform = system.taskset.platform
    if not platform.woken or not contended(system.taskset):
        return []
    if not task.uses_gpu and not any(other.cpu == task.cpu for other in system.gpu_tasks):
        return []
    mine = _decisions(task.eta + 1, system) if task.uses_gpu else 0
    return [Demand(TermKind.WAKE_UPS, mine, HANDED), *others(task, system)]


def others(task: Task, system: System) -> Sequence[Demand]:
    """The same of decisions of other tasks, in a window; none where the lock makes nobody wait."""
    if not system.taskset.platform.woken or not contended(system.taskset):
        return []
    return [
        Demand(TermKind.WAKE_UPS, amount, HANDED, other.name, other.period, system.jitter(other, amount))
        for other in system.gpu_tasks
        if other.name != task.name and (other.thread is None or other.thread != task.thread)
        for amount in [_decisions(other.eta, system)]
    ]


def window(system: System) -> int:
    """What the own decisions of a window add to it, ns."""
    return _decisions(1, system) if contended(system.taskset) else 0


def _decisions(segments: int, system: System) -> int:
    """Begin and end of so many segments: each wakes a thread, and has another one wake again."""
    return 4 * segments * system.taskset.platform.woken


def refusal(name: str, bounds: bool, policy: str, taskset: Taskset) -> str | None:
    """Why a test says nothing of a taskset with wake-ups; ``bounds``: it is one of those that can."""
    platform = taskset.platform
    if not (platform.cpu_latency or platform.woken):
        return None
    if not bounds:
        return f"{name} has no bound for cpu_latency"
    raised = [t.name for t in taskset.real_time if t.uses_gpu and t.form not in (None, FORMS[Waiting.SUSPEND][0])]
    if policy == "boosted" and raised:
        return f"{name} has no bound for cpu_latency where a task has form {Form.OWNER.word}, as {raised[0]} has"
    return None

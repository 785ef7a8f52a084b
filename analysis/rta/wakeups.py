# SPDX-License-Identifier: GPL-2.0
"""Wake-ups of threads: each takes up to ``cpu_latency`` of its CPU before the thread executes.

docs/readings/latency.md has the argument: a wake-up is CPU work of the woken thread, at its priority.  So the bounds
are the bounds of tasks with longer segments, plus the cost of handing over the update lock.  A thread that spins for a
resource cannot be preempted, and makes wake-ups later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from analysis.model import (
    CpuSegment,
    GpuSegment,
    PolicyFacts,
    Protocol,
    Resource,
    Segment,
    Span,
    Task,
    Taskset,
    Waiting,
)
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import System
from gpurt.enums import Form

LEMMA = "readings: latency, wake-ups"
HANDED = "readings: latency, the update lock"


def with_wakeups(taskset: Taskset, waiting: Waiting | None) -> Taskset:
    """The taskset with the wake-ups of its tasks as parts of their segments.  A second application changes nothing.

    A job wakes when it is released.  In a GPU segment its thread can sleep in begin and end, and while G^e executes.
    If a thread spins for a resource or holds it, it delays wake-ups in segments on its CPU.  A thread that waits for
    a resource of another kind sleeps.
    """
    platform = taskset.platform
    if platform.woken or not (platform.cpu_latency or taskset.resources):
        return taskset
    released = platform.cpu_latency
    woken = tuple(released + unpreempted(cpu, taskset)[0] for cpu in range(platform.cpus))

    def longer(task: Task) -> Task:
        times, asked = (waiting or task.waiting).wakeups * woken[task.cpu], released * (1 + _waits(task, taskset))
        segments: list[Segment] = [CpuSegment(Span(asked, 0))] if asked else []
        for one in task.segments:
            if isinstance(one, GpuSegment):
                one = replace(one, misc=Span(one.misc.worst + times, one.misc.best))
            segments.append(one)
        return replace(task, segments=tuple(segments))

    platform = replace(platform, cpu_latency=0, woken=woken)
    return replace(taskset, tasks=tuple(longer(task) for task in taskset), platform=platform)


def spun(resource: Resource, cpu: int, where: Mapping[str, int]) -> int:
    """The longest time that a thread of the CPU spins for a resource, ns: it waits for one holder on each other CPU."""
    longest: dict[int, int] = {}
    for one in resource.sections:
        longest[where[one.task]] = max(longest.get(where[one.task], 0), one.time)
    return sum(time for there, time in longest.items() if there != cpu)


def unpreempted(cpu: int, taskset: Taskset, below: int | None = None) -> tuple[int, str]:
    """The longest time that a thread of the CPU spins for a resource and holds it, ns, and its task; 0 if none does.

    ``below``: only tasks below that priority count.
    """
    tasks = {task.name: task for task in taskset}
    where = {task.name: task.cpu for task in taskset}
    return max(
        (
            (section.time + spun(one, cpu, where), section.task)
            for one in taskset.resources if one.protocol is Protocol.SPIN
            for section in one.sections
            if where[section.task] == cpu and (below is None or tasks[section.task].priority < below)
        ), default=(0, ""),
    )  # fmt: skip


def _waits(task: Task, taskset: Taskset) -> int:
    """How often a job can sleep for a resource: once at each request, unless tasks spin for that resource."""
    return sum(
        section.times for one in taskset.resources if one.protocol is not Protocol.SPIN
        for section in one.sections if section.task == task.name
    )  # fmt: skip


def latency_contained(taskset: Taskset) -> int:
    """The ``cpu_latency`` of a taskset whose segments contain its wake-ups, ns."""
    woken = taskset.platform.woken
    return woken[0] - unpreempted(0, taskset)[0] if woken else 0


def own(task: Task, system: System, waiting: Waiting | None) -> int:
    """The wake-ups that ``with_wakeups`` added to the task's execution: at the release and in every GPU segment, ns."""
    woken = system.taskset.platform.woken
    return (
        latency_contained(system.taskset) + (waiting or task.waiting).wakeups * task.eta * woken[task.cpu]
        if woken
        else 0
    )


def contended(taskset: Taskset) -> bool:
    """Whether a task can wait for the update lock: tasks of several CPUs use the GPU."""
    return len({task.cpu for task in taskset if task.uses_gpu}) > 1


def handed(task: Task, system: System) -> list[Demand]:
    """The wake-ups of threads that are handed the update lock, and that others overtake before they execute.

    A decision wakes at most one such thread, and overtakes at most one.  Both can be on a CPU for which the task waits.
    """
    if not any(system.taskset.platform.woken) or not contended(system.taskset):
        return []
    if not task.uses_gpu and not any(other.cpu == task.cpu for other in system.gpu_tasks):
        return []
    mine = _decisions(task.eta + 1, system) if task.uses_gpu else 0
    return [Demand(TermKind.WAKE_UPS, mine, HANDED), *others(task, system)]


def others(task: Task, system: System) -> Sequence[Demand]:
    """The wake-ups that other tasks' decisions cause in a window; none where no task waits for the lock."""
    if not any(system.taskset.platform.woken) or not contended(system.taskset):
        return []
    return [
        Demand(TermKind.WAKE_UPS, amount, HANDED, other.name, other.period, system.jitter(other, amount))
        for other in system.gpu_tasks
        if other.name != task.name and (other.thread is None or other.thread != task.thread)
        for amount in [_decisions(other.eta, system)]
    ]


def window(system: System) -> int:
    """The time that its own wake-ups of these decisions add to a window, ns."""
    return _decisions(1, system) if contended(system.taskset) else 0


def _decisions(segments: int, system: System) -> int:
    """The wake-ups by begins and ends of this many segments: each wakes one thread, and makes another wake again."""
    return 4 * segments * max(system.taskset.platform.woken, default=0)


def refusal_of_wakeups(
    name: str, policy: PolicyFacts, taskset: Taskset, *, latency: bool, resources: bool
) -> str | None:
    """Why the test has no bound for wake-ups or resources of the taskset; None if it has.

    ``latency``, ``resources``: whether the test's formula covers them.
    """
    platform = taskset.platform
    if taskset.resources and not resources:
        return f"{name} has no bound for [[resource]]"
    if taskset.resources and (served := next(iter(taskset.threads), None)):
        return f"{name} has no bound for [[resource]] where a thread serves several tasks, as {served} does"
    if not (platform.cpu_latency or any(platform.woken) or taskset.resources):
        return None
    if not latency:
        return f"{name} has no bound for cpu_latency"
    raised = [t.name for t in taskset.real_time if t.uses_gpu and t.form not in (None, Waiting.SUSPEND.forms[0])]
    if policy.raises and raised:
        what = "cpu_latency" if platform.cpu_latency else "[[resource]]"
        return f"{name} has no bound for {what} where a task has form {Form.OWNER.word}, as {raised[0]} has"
    return None

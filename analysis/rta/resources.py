# SPDX-License-Identifier: GPL-2.0
"""Resources that one task at a time can hold, and how long holders delay a task (docs/readings/resources.md).

Sections are parts of CPU segments.  While a thread spins for a resource or holds it, no woken thread gets its CPU.
If the woken thread is in a segment, that delay is a part of its wake-up (wakeups.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from analysis.model import Protocol, Resource, Task, Taskset
from analysis.rta import wakeups
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import Term, TermKind
from analysis.rta.system import System

RESOURCES_LEMMA = "readings: resources, less urgent holders"
REQUESTS = "readings: resources, requests"
RESOURCES_SPINNING = "readings: resources, spinning"
#: Sections, each with its length in ns, the number of times and the task.
Sections = Sequence[tuple[int, int, str]]


@dataclass(frozen=True)
class Requests:
    """Requests of a resource by a task, and by the tasks that execute before it on its CPU.

    ``own``: the job's requests.  ``others``: for each other task, the requests of one job, the period and the jitter,
    ns.
    """

    own: int
    others: tuple[tuple[int, int, int], ...]

    def at(self, window: int) -> int:
        """The number of requests in a window of that length."""
        return self.own + sum(-(-(window + jitter) // period) * times for times, period, jitter in self.others)


class _Fewest(Shared):
    """Blocking: by each task once in each gap, or by each resource once for each request; the smaller total counts."""

    __slots__ = ("by_tasks", "resources")

    def __init__(self, tasks: Sequence[Demand], resources: Sequence[tuple[Requests, int, str]]) -> None:
        super().__init__(tasks)
        self.resources = tuple(resources)
        self.by_tasks, self.constant = self.constant, 0

    def at(self, window: int) -> int:
        """The smaller total in a window of that length, ns."""
        return min(self.by_tasks, self._requested(window))

    def _requested(self, window: int) -> int:
        return sum(requests.at(window) * time for requests, time, _ in self.resources)

    def terms(self, window: int) -> list[Term]:
        """A term for each holder."""
        if self.by_tasks <= self._requested(window):
            return super().terms(window)
        return [
            Term(TermKind.BLOCKING, holder, requests.at(window) * time, REQUESTS)
            for requests, time, holder in self.resources
        ]  # fmt: skip


class _Spinning(Shared):
    """The time that a CPU spins: each request waits for one section on each other CPU, and each section counts once.

    ``remote``: by CPU, the sections of its tasks in a window.
    """

    __slots__ = ("remote", "requests")

    def __init__(
        self, requests: Requests, remote: Sequence[Callable[[int], Sections]], sources: frozenset[str | None]
    ) -> None:
        super().__init__(())
        self.requests, self.remote, self.sources = requests, tuple(remote), sources

    def at(self, window: int) -> int:
        """The total in a window of that length, ns."""
        return sum(self._by_task(window).values())

    def terms(self, window: int) -> list[Term]:
        """A term for each task that holds the resource during these waits."""
        return [Term(TermKind.BLOCKING, name, time, RESOURCES_SPINNING) for name, time in self._by_task(window).items()]

    def _by_task(self, window: int) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for sections in self.remote:
            left = self.requests.at(window)
            for time, count, name in sorted(sections(window), reverse=True):
                found[name] = found.get(name, 0) + min(left, count) * time
                left -= min(left, count)
        return found


def blocking(task: Task, system: System, gaps: int) -> list[Demand | Shared]:
    """The time that holders take from the task, on its CPU or while it spins, in the intervals in which it is ready.

    ``gaps``: the number of these intervals.  In each, every less urgent task can hold one inheriting resource, since
    before or handed over by another task; but only one task can hold a resource with a ceiling.  When the task is
    released, one task can be spinning, or holding a resource that tasks spin for.
    """
    taskset = system.taskset
    if not taskset.resources:
        return []
    found: dict[str, int] = {}
    for resource in taskset.resources:
        for time, holder in _lower(task, taskset, resource, Protocol.INHERITANCE):
            found[holder] = max(found.get(holder, 0), time)
    each = [Demand(TermKind.BLOCKING, gaps * time, RESOURCES_LEMMA, name) for name, time in found.items()]
    demands: list[Demand | Shared] = [_Fewest(each, _requested(task, system))] if each else []
    if ceiling := [one for r in taskset.resources for one in _lower(task, taskset, r, Protocol.CEILING)]:
        time, holder = max(ceiling)
        demands.append(Demand(TermKind.BLOCKING, gaps * time, RESOURCES_LEMMA, holder))
    time, holder = wakeups.unpreempted(task.cpu, taskset, task.priority)
    if time:
        demands.append(Demand(TermKind.BLOCKING, time, RESOURCES_LEMMA, holder))
    spun = (one for one in taskset.resources if one.protocol is Protocol.SPIN)
    return [*demands, *(spins for one in spun if (spins := _spins(one, task, system)))]


def _requested(task: Task, system: System) -> list[tuple[Requests, int, str]]:
    """By inherited resource: its requests, and the longest section of a less urgent holder."""
    return [
        (_requests(one, task, system), *longest) for one in system.taskset.resources
        if (longest := max(_lower(task, system.taskset, one, Protocol.INHERITANCE), default=None))
    ]  # fmt: skip


def _requests(resource: Resource, task: Task, system: System) -> Requests:
    """Requests of the task, and of tasks of its CPU that can execute before it, equals included.

    A task above may also request in a job released earlier, unless it never sleeps (readings: boosted).
    """
    one = next(t for t in system.taskset if t.name == task.name)
    jobs = len(task.segments) // max(len(one.segments), 1)
    times = Counter[str]()
    for section in resource.sections:
        times[section.task] += section.times

    def jitter(h: Task) -> int:
        return system.jitter(h, 0) if system.taskset.sleeps(h) or h.priority == task.priority else h.jitter

    others = tuple((times[h.name], h.period, jitter(h)) for h in system.hpp(task) if times[h.name])
    return Requests(jobs * times[task.name], others)


def _spins(resource: Resource, task: Task, system: System) -> _Spinning | None:
    """The time that the task's CPU spins for a resource; None if no other CPU uses it, or no request counts."""
    requests = _requests(resource, task, system)
    tasks = {t.name: t for t in system.taskset}
    remote: dict[int, list[tuple[Task, int, int]]] = {}
    for section in resource.sections:
        one = tasks[section.task]
        if one.cpu != task.cpu:
            remote.setdefault(one.cpu, []).append((one, section.time, section.times))
    if not remote or not (requests.own or requests.others):
        return None

    named = [one for used in remote.values() for one, _, _ in used]
    rests = frozenset[str | None](one.name for one in named if not _unlimited(one, system))
    return _Spinning(requests, [partial(_sections, used, system) for used in remote.values()], rests)


def _sections(used: Sequence[tuple[Task, int, int]], system: System, window: int) -> Sections:
    """The sections of a CPU's tasks that can execute in a window."""
    return [(time, _most(one, times, window, system), one.name) for one, time, times in used]


def _unlimited(task: Task, system: System) -> bool:
    return task.best_effort or task.name in system.late


def _most(task: Task, times: int, window: int, system: System) -> int:
    """The most sections of a task that can execute in a window; no limit if the task has no bound."""
    if _unlimited(task, system):
        return 1 << 62
    return -(-(window + system.jitter(task, 0)) // task.period) * times


def _lower(task: Task, taskset: Taskset, resource: Resource, protocol: Protocol) -> Iterator[tuple[int, str]]:
    """The sections of a resource that less urgent tasks of the CPU can execute at the task's priority: time and task.

    A holder may have waited for the resource while a less urgent task held it; then its section includes a wake-up.
    """
    if resource.protocol is not protocol or ceiling_of(resource, taskset) < task.priority:
        return
    tasks = {t.name: t for t in taskset}
    users = {section.task for section in resource.sections}
    for section in resource.sections:
        holder = tasks[section.task]
        if holder.cpu != task.cpu or holder.priority >= task.priority:
            continue
        waits = any(tasks[name].priority <= holder.priority for name in users - {holder.name})
        yield section.time + (wakeups.latency_contained(taskset) if waits else 0), holder.name


def ceiling_of(resource: Resource, taskset: Taskset) -> int:
    """The highest CPU priority of the tasks that use it; 0 if none of these is in the taskset."""
    names = {section.task for section in resource.sections}
    return max((t.priority for t in taskset if t.name in names), default=0)

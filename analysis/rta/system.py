# SPDX-License-Identifier: GPL-2.0
"""A taskset during its analysis: the sets of tasks that the lemmas use, and the bounds found so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from analysis.model import Task, Taskset
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind

Made = TypeVar("Made")


@dataclass(frozen=True)
class System:
    """A taskset during its analysis.

    ``known``: the bounds found so far, by task; jitters use them.  ``ends``: bounds of the end of a job's last GPU
    segment, for tests that use it.  ``pending``: whether the test bounds tasks with several pending jobs.
    ``assumed``: GPU priorities are being assigned, so no bound may depend on the order of the tasks above the analysed
    one.  ``settled``: bounds of all tasks are known, and none is added.  ``late``: tasks without a bound, on
    which no bound may rest.
    """

    taskset: Taskset
    known: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    pending: bool = False
    assumed: bool = False
    settled: bool = False
    late: frozenset[str] = frozenset()
    _shared: dict[Hashable, Shared] = field(default_factory=dict, repr=False, compare=False)
    _once: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def shared(self, key: Hashable, make: Callable[[], Iterable[Demand]]) -> Shared:
        """The demands that ``make`` returns, computed once for each key."""
        if key not in self._shared:
            self._shared[key] = Shared(make())
        return self._shared[key]

    def once(self, key: str, make: Callable[[], Made]) -> Made:
        """The value that ``make`` returns, computed once for each key."""
        if key not in self._once:
            self._once[key] = make()
        made: Made = self._once[key]
        return made

    @property
    def epsilon(self) -> int:
        """Runlist update cost, ns."""
        return self.taskset.platform.epsilon

    @cached_property
    def _by_cpu(self) -> dict[int, list[Task]]:
        by_cpu: dict[int, list[Task]] = {}
        for task in self.taskset.real_time:
            by_cpu.setdefault(task.cpu, []).append(task)
        return by_cpu

    @cached_property
    def gpu_tasks(self) -> tuple[Task, ...]:
        """The real-time tasks that use the GPU."""
        return tuple(t for t in self.taskset.real_time if t.uses_gpu)

    @cached_property
    def gpu_users(self) -> int:
        """The number of tasks that use the GPU, best effort included."""
        return sum(t.uses_gpu for t in self.taskset)

    def on_cpu(self, cpu: int) -> Sequence[Task]:
        """The real-time tasks of a CPU, most urgent first."""
        return self._by_cpu.get(cpu, [])

    def hpp(self, task: Task) -> list[Task]:
        """hpp(tau_i): the tasks of its CPU that can execute before it: tasks above it, and its equals.

        Tasks that its own thread serves are left out: analysis.rta.threads counts these."""
        return [
            h for h in self.on_cpu(task.cpu)
            if h.name != task.name and h.priority >= task.priority and (h.thread is None or h.thread != task.thread)
        ]  # fmt: skip

    def updating(self, task: Task) -> int:
        """The number of its segments that begin and end with an update of the runlist."""
        return 0 if task.name in self.taskset.inside else task.eta

    def outranked(self, task: Task) -> list[Task]:
        """The GPU-using tasks of any CPU whose segments have a lower GPU priority, best effort included."""
        return [t for t in self.taskset if t.uses_gpu and t.segment_priority < task.segment_priority]

    def lower_on_cpu(self, task: Task) -> list[Task]:
        """The GPU-using tasks of its CPU with a lower CPU priority, best effort included."""
        return [t for t in self.taskset if t.uses_gpu and t.cpu == task.cpu and t.priority < task.priority]

    def remote_hpg(self, task: Task) -> list[Task]:
        """The GPU-using tasks of other CPUs whose GPU segments have at least the task's GPU priority."""
        return self.remote_owners(task.cpu, task.segment_priority)

    def remote_owners(self, cpu: int, level: int) -> list[Task]:
        """The GPU-using tasks of CPUs other than ``cpu`` of at least GPU priority ``level``."""
        return [h for h in self.gpu_tasks if h.cpu != cpu and h.segment_priority >= level]

    def jitter(self, task: Task, execution: int) -> int:
        """J_h + R_h - e, at least J_h: how long after its arrival a job's last ``execution`` ns can begin.

        D_h replaces an unknown R_h; both count from the release.
        """
        return task.jitter + max(self.known.get(task.name, task.deadline) - execution, 0)

    def end(self, task: Task) -> int:
        """The latest end of a job's last GPU segment, counted from the release, ns; D_h if nothing is known."""
        return min(self.ends.get(task.name, task.deadline), self.known.get(task.name, task.deadline))


#: An analysis: the demands that make up the response time of a task.
Demands: TypeAlias = Callable[[Task, System], "Sequence[Demand | Shared]"]


def recurring(kind: TermKind, task: Task, amount: int, lemma: str, system: System) -> Demand:
    """``amount`` for each job of the task that can execute, at least partly, in the window (readings: L3)."""
    return Demand(kind, amount, lemma, task.name, task.period, system.jitter(task, amount))


def bounded(kind: TermKind, task: Task, amount: int, cap: int, lemma: str, system: System) -> Demand:
    """``amount`` for each job of the task, in total at most ``cap``.

    A best-effort task is charged the cap: its jobs cannot be counted, because it has no response time.
    """
    if task.best_effort or not cap:
        return Demand(kind, cap, lemma, task.name)
    return Demand(kind, amount, lemma, task.name, task.period, system.jitter(task, amount), cap)

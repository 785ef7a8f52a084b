# SPDX-License-Identifier: GPL-2.0
"""GPU priority assignment: Audsley's method on GPU segments (ECRTS'24, sections 5.3 and 6.4).

Levels are filled from the lowest.  On each CPU only the unassigned task of lowest CPU priority is tried.  Therefore
the GPU priorities on a CPU are in the order of its CPU priorities.  They need no later check of that order, which could
reject feasible assignments.  A task's test depends only on the set of tasks with higher GPU priority (every jitter
uses D_h), and its bound grows with that set.  Therefore the method is optimal if CPU priorities are distinct on each
CPU, for `boosted-suspend` up to one term.  A thread that serves several tasks has one level, which its tasks share.
docs/readings/gcaps.md, "Audsley", has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.model import Task, Taskset, Waiting
from analysis.rta.result import Bound, Failure
from analysis.rta.system import Demands, System
from analysis.rta.threads import verdict_of_threads

#: How many GPU priorities there are.
GPU_LEVELS = 99


@dataclass(frozen=True)
class Assignment:
    """GPU priorities by task name; or None for ``priorities``, and the reason.

    ``blocked``: for the first level that no task could take, each candidate's failure.
    """

    priorities: dict[str, int] | None
    level: int = 0
    blocked: tuple[Failure, ...] = ()

    def __str__(self) -> str:
        if self.priorities is not None:
            return ", ".join(f"{name}={level}" for name, level in self.priorities.items())
        return f"{self.why}: {'; '.join(str(failure) for failure in self.blocked)}"

    @property
    def why(self) -> str:
        """Why there are no priorities, without each candidate's failure; empty if there are priorities."""
        if self.priorities is not None:
            return ""
        if not self.level:
            return "no GPU priorities help tasks that use no GPU"
        if self.level == 1:
            return "no task has a bound below its deadline with the lowest GPU priority"
        above = f"the tasks above the {self.level - 1} lowest GPU priorities"
        return f"none of {above} has a bound below its deadline with the next"


def assign(
    demands: Demands, waiting: Waiting | None, taskset: Taskset, *, any_order: bool = False, pending: bool = False
) -> Assignment:
    """GPU priorities under which every real-time task passes, if such priorities exist.

    ``waiting`` None: each task waits in its own mode.  ``any_order``: GPU priorities on a CPU need not have the order
    of CPU priorities.  ``pending``: as in ``analyse``.

    Raises ValueError if more tasks use the GPU than there are priorities.
    """
    unassigned = [t for t in taskset.real_time if t.uses_gpu and _first(t, taskset) is t]
    numbers, priorities = _numbers(unassigned), dict[str, int]()
    alone = [t for t in taskset.real_time if _first(t, taskset) is None and not _rider(t, taskset, waiting)]
    independent = _failures(alone, demands, _trial(taskset, {}, pending))
    if independent:
        return Assignment(None, 0, independent)
    for level, number in enumerate(numbers, 1):
        blocked: list[Failure] = []
        for candidate in _candidates(unassigned, any_order):
            trial = _trial(taskset, _tentative(unassigned, priorities, candidate, number), pending)
            riders = [t for t in taskset.real_time if _rider(t, taskset, waiting) == candidate.name]
            failures = _failures([*taskset.served_with(candidate), *riders], demands, trial)
            if not failures:
                priorities[candidate.name] = number
                unassigned.remove(candidate)
                break
            blocked += failures
        else:
            return Assignment(None, level, tuple(blocked))
    return Assignment(_of_threads(priorities, taskset))


def _first(task: Task, taskset: Taskset) -> Task | None:
    """The first GPU-using task of the task's thread, which stands for the thread and its GPU priority; or None."""
    return next((t for t in taskset.served_with(task) if t.uses_gpu), None)


def _of_threads(priorities: dict[str, int], taskset: Taskset) -> dict[str, int]:
    """These priorities, also given to the other GPU-using tasks of the same threads."""
    return priorities | {
        t.name: priorities[first.name]
        for t in taskset.real_time
        if t.uses_gpu and (first := _first(t, taskset)) is not None and first.name in priorities
    }


def _numbers(tasks: list[Task]) -> list[int]:
    """Priority numbers, lowest first: the tasks' own numbers if they are distinct, else ranks."""
    if len(tasks) > GPU_LEVELS:
        raise ValueError(f"{len(tasks)} tasks use the GPU, but there are only {GPU_LEVELS} priorities")
    own = sorted({t.priority for t in tasks})
    return own if len(own) == len(tasks) else list(range(1, len(tasks) + 1))


def _candidates(unassigned: list[Task], any_order: bool) -> list[Task]:
    """All tasks, or the lowest of each CPU, in ascending CPU priority; equals are in the order of their CPUs.

    Of equals on one CPU, the last in the file counts as the lowest.
    """
    if any_order:
        return unassigned[::-1]
    lowest = {t.cpu: t for t in unassigned}
    return sorted(lowest.values(), key=lambda t: (t.priority, t.cpu))


def _rider(task: Task, taskset: Taskset, waiting: Waiting | None) -> str | None:
    """The GPU-using task whose GPU priority decides a CPU-only task's bound; None if there is none.

    The rider waits busily, and is the lowest such task on the CPU of at least the task's priority.  The rider's waiting
    time contains the waiting times of the other tasks above.
    """
    if _first(task, taskset) is not None:
        return None
    above = [
        h for h in taskset.real_time if h.cpu == task.cpu and h.priority >= task.priority and h.spins(waiting)
    ]
    return above[-1].name if above else None


def _tentative(unassigned: list[Task], done: dict[str, int], candidate: Task, number: int) -> dict[str, int]:
    """GPU priorities with the candidate at ``number`` and all other unassigned tasks above it, in CPU order."""
    above = [t for t in unassigned if t is not candidate]
    return done | {candidate.name: number} | {t.name: GPU_LEVELS + len(above) - i for i, t in enumerate(above)}


def _trial(taskset: Taskset, priorities: dict[str, int], pending: bool) -> System:
    return System(taskset.with_gpu_priorities(_of_threads(priorities, taskset)), pending=pending, assumed=True)


def _failures(tasks: list[Task], demands: Demands, system: System) -> tuple[Failure, ...]:
    """The failures among these tasks; every jitter uses the deadline."""
    by_name = {t.name: t for t in system.taskset}
    verdicts = [verdict_of_threads(by_name[t.name], demands, system)[0] for t in tasks]
    return tuple(v for v in verdicts if not isinstance(v, Bound))  # type: ignore[misc]

# SPDX-License-Identifier: GPL-2.0
"""GPU priority assignment: Audsley's method on GPU segments (ECRTS'24, sections 5.3 and 6.4).

Levels are filled from the lowest.  On each CPU only the unassigned task of lowest CPU priority is tried, so that
the order of GPU priorities on a CPU equals that of CPU priorities by construction and no feasible assignment is
lost to a check afterwards.  A task's test depends on the set of tasks with higher GPU priority alone (D_h stands
in every jitter), and grows with it, which is what makes the method optimal where CPU priorities are distinct on
each CPU; docs/readings.md, "Audsley", has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from analysis.model import Task, Taskset, Waiting
from analysis.rta.recurrence import solve
from analysis.rta.result import Bound, Failure
from analysis.rta.system import Demands, System

LEVELS = 99


@dataclass(frozen=True)
class Assignment:
    """GPU priorities by task name, or None and why there are none.

    ``blocked``: for the first level that nobody could take, each candidate's failure.
    """

    priorities: dict[str, int] | None
    level: int = 0
    blocked: tuple[Failure, ...] = ()

    def __str__(self) -> str:
        if self.priorities is not None:
            return ", ".join(f"{name}={level}" for name, level in self.priorities.items())
        causes = "; ".join(str(failure) for failure in self.blocked)
        return f"no task can take GPU priority level {self.level} of the lowest: {causes}"


def assign(demands: Demands, waiting: Waiting | None, taskset: Taskset) -> Assignment:
    """GPU priorities under which every real-time task passes, if there are any.

    ``waiting`` None: each task waits in its own mode.

    Raises ValueError if more tasks use the GPU than there are priorities.
    """
    unassigned = [t for t in taskset.real_time if t.uses_gpu]
    numbers = _numbers(unassigned)
    priorities: dict[str, int] = {}
    alone = [t for t in taskset.real_time if not t.uses_gpu and not _rider(t, taskset, waiting)]
    independent = _failures(alone, demands, _trial(taskset, {}))
    if independent:
        return Assignment(None, 0, independent)
    for level, number in enumerate(numbers, 1):
        blocked: list[Failure] = []
        for candidate in _lowest_of_each_cpu(unassigned):
            trial = _trial(taskset, _tentative(unassigned, priorities, candidate, number))
            riders = [t for t in taskset.real_time if _rider(t, taskset, waiting) == candidate.name]
            failures = _failures([candidate, *riders], demands, trial)
            if not failures:
                priorities[candidate.name] = number
                unassigned.remove(candidate)
                break
            blocked += failures
        else:
            return Assignment(None, level, tuple(blocked))
    return Assignment(priorities)


def _numbers(tasks: list[Task]) -> list[int]:
    """Priority numbers, lowest first: the tasks' own where they are distinct, else ranks."""
    if len(tasks) > LEVELS:
        raise ValueError(f"{len(tasks)} tasks use the GPU, but there are only {LEVELS} priorities")
    own = sorted({t.priority for t in tasks})
    return own if len(own) == len(tasks) else list(range(1, len(tasks) + 1))


def _lowest_of_each_cpu(unassigned: list[Task]) -> list[Task]:
    """Candidates, lowest CPU priority first; of equals the last in the file."""
    lowest = {t.cpu: t for t in unassigned}
    return sorted(lowest.values(), key=lambda t: t.priority)


def _rider(task: Task, taskset: Taskset, waiting: Waiting | None) -> str | None:
    """The GPU-using task whose GPU priority decides a CPU-only task's bound; None if there is none.

    That is the lowest GPU-using task above it on its CPU that waits busily, whose waiting contains that of the
    others above it.
    """
    if task.uses_gpu:
        return None
    above = [
        h for h in taskset.real_time
        if h.cpu == task.cpu and h.uses_gpu and h.priority >= task.priority
        and (waiting or h.waiting) is Waiting.BUSY
    ]  # fmt: skip
    return above[-1].name if above else None


def _tentative(unassigned: list[Task], done: dict[str, int], candidate: Task, number: int) -> dict[str, int]:
    """The candidate at ``number``, all other unassigned tasks above it, in CPU order."""
    above = [t for t in unassigned if t is not candidate]
    return done | {candidate.name: number} | {t.name: LEVELS + len(above) - i for i, t in enumerate(above)}


def _trial(taskset: Taskset, priorities: dict[str, int]) -> System:
    changed = tuple(
        replace(t, gpu_priority=priorities[t.name]) if t.name in priorities else t for t in taskset
    )
    return System(replace(taskset, tasks=changed))


def _failures(tasks: list[Task], demands: Demands, system: System) -> tuple[Failure, ...]:
    """The failures among the tasks' own tests, every jitter by deadline."""
    by_name = {t.name: t for t in system.taskset}
    verdicts = [solve(by_name[t.name], demands(by_name[t.name], system)) for t in tasks]
    return tuple(v for v in verdicts if not isinstance(v, Bound))  # type: ignore[misc]

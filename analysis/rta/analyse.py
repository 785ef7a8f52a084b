# SPDX-License-Identifier: GPL-2.0
"""The analysis of a whole taskset: the order in which tasks are bounded, and the effect of a task without a bound."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from analysis.model import Task, Taskset
from analysis.rta.forkjoin import Paths
from analysis.rta.pending import Needs, end_within
from analysis.rta.recurrence import Unbounded
from analysis.rta.result import BestEffort, Bound, Failure, Reason, Result, Verdict
from analysis.rta.system import Demands, System
from analysis.rta.threads import verdict_of_threads

#: The most rounds in which responses grow.  If they still grow then, deadlines stand for unknown responses.
MAX_RESPONSE_ROUNDS = 200


@dataclass(frozen=True)
class _Formulas:
    """The formulas of a test.  ``brief``: only the first failure counts."""

    name: str
    demands: Demands
    ends: Demands | None
    brief: bool
    instead: Demands | None
    paths: Paths | None


def analyse(
    name: str, demands_of: Demands, taskset: Taskset, *, assume_deadlines: bool = False, end_of: Demands | None = None,
    brief: bool = False, pending: bool = False, instead: Demands | None = None, paths: Paths | None = None,
) -> Result:  # fmt: skip
    """Bounds every task of a taskset, most urgent first.

    ``end_of``: the formula of a job up to the end of its last GPU segment, for tests that use that end.  ``instead``: a
    formula that counts where the first has no bound.  ``paths``: the formula of tasks with workers.
    ``assume_deadlines``: every jitter uses D_h instead of R_h (ECRTS'24, section 6.4).  A bound that rests on a task
    without a bound is withdrawn: it assumed that this task meets its deadline.  ``brief``: stop at the first failure.
    ``pending``: several jobs of a task may be pending; otherwise a task has no bound beyond its period.
    """
    formulas = _Formulas(name, demands_of, end_of, brief, instead, paths)
    found = None if assume_deadlines else _together(formulas, taskset, pending)
    if found:
        return found
    result, late = _round(formulas, System(taskset, {}, {}, pending, assume_deadlines))[0], frozenset[str]()
    asking = {section.task for one in taskset.resources for section in one.sections}
    while not brief and (more := asking & {one.task for one in result.causes} - late):
        late |= more  # their requests have no limit; other tasks keep bounds that do not rest on these tasks
        result = _round(formulas, System(taskset, {}, {}, pending, assume_deadlines, late=late))[0]
    return result


def _together(formulas: _Formulas, taskset: Taskset, pending: bool) -> Result | None:
    """The least responses that all follow from one another; None if one of them would exceed a deadline.

    The bounds of workers rest on one another.  So do the bounds of tasks of several CPUs that spin for a resource
    (readings: groups, "Responses together").
    """
    known, ends = dict.fromkeys((t.name for t in taskset.real_time), 0), dict[str, int]()
    for _ in range(MAX_RESPONSE_ROUNDS if taskset.forks or taskset.resources else 0):
        result, ended = _round(formulas, System(taskset, known, ends, pending, settled=True))
        if not result.schedulable:
            return None
        before, known = known, {n: v.wcrt for n, v in result.verdicts.items() if isinstance(v, Bound)}
        if (before, ends) == (known, ended):
            return result
        ends = ended
    return None


def _round(formulas: _Formulas, system: System) -> tuple[Result, dict[str, int]]:
    """A verdict on each task, and the ends of last GPU segments.  Adds to the known bounds of an unsettled system."""
    taskset = system.taskset
    verdicts: dict[str, Verdict] = {t.name: BestEffort(t.name) for t in taskset if t.best_effort}
    needs: dict[str, Needs] = {}
    failed: set[str | None] = set()
    lost_on: dict[int, str] = {}  # by CPU: a task without a bound, which preempts all less urgent tasks
    found: dict[str, int] = {}  # ends that no other task uses yet
    equals: list[Task] = []
    for task in taskset.real_time:
        if equals and equals[0].priority != task.priority:
            _settle(equals, verdicts, found, system)
            equals = []
        lost = lost_on.get(task.cpu)
        if lost in {t.name for t in taskset.served_with(task)}:
            lost = None  # the order of their common thread says what a late task costs the thread's other tasks
        verdict: Verdict | None = None
        if lost is None:
            try:
                verdict, needs[task.name] = verdict_of_threads(
                    task, formulas.demands, system, formulas.instead, formulas.paths
                )
                lost = _culprit(needs[task.name], failed)
            except Unbounded as unbounded:
                lost = unbounded.culprit
        if lost or verdict is None:
            verdict = _depends(task, lost or task.name)
        verdicts[task.name] = verdict
        if isinstance(verdict, Failure):
            failed.add(task.name)
            if formulas.brief:
                return Result(formulas.name, verdicts), found
            if task.cpu_time or task.misc_time:
                lost_on.setdefault(task.cpu, task.name)
        elif formulas.ends and _has_end(task, system):
            end = end_within(task, formulas.ends, formulas.demands, system)
            found |= {} if end is None else {task.name: end}
        equals.append(task)
    _withdraw(taskset, verdicts, needs, failed)
    return Result(formulas.name, {t.name: verdicts[t.name] for t in taskset}), found


def _has_end(task: Task, system: System) -> bool:
    """Whether the bounds of other tasks use the end of the task's last GPU segment."""
    taskset = system.taskset
    return task.uses_gpu and not (system.assumed or taskset.threads or task.name in taskset.forked)


def _settle(tasks: list[Task], verdicts: dict[str, Verdict], ends: Mapping[str, int], system: System) -> None:
    """Makes the tasks' bounds known to less urgent tasks; tasks of equal priority use each other's deadlines."""
    if system.settled or system.assumed:
        return
    for task in tasks:
        verdict = verdicts[task.name]
        if isinstance(verdict, Bound):
            system.known[task.name] = verdict.wcrt
        if task.name in ends:
            system.ends[task.name] = ends[task.name]


def _depends(task: Task, culprit: str) -> Failure:
    return Failure(task.name, Reason.DEPENDS_ON, task.deadline, culprit=culprit)


def _culprit(needs: Needs, failed: AbstractSet[str | None]) -> str | None:
    """The first, by name, of the needed tasks that have no bound; None if all have one."""
    lost = [name for names in needs if not names.isdisjoint(failed) for name in names & failed if name]
    return min(lost, default=None)


def _withdraw(
    taskset: Taskset,
    verdicts: dict[str, Verdict],
    needs: Mapping[str, Needs],
    failed: set[str | None],
) -> None:
    """Withdraws, until nothing changes, bounds that assumed that a task without a bound meets its deadline."""
    bounded = [t for t in taskset.real_time if isinstance(verdicts[t.name], Bound)]
    changed = True
    while changed:
        changed = False
        for task in bounded:
            culprit = None if task.name in failed else _culprit(needs[task.name], failed)
            if culprit:
                verdicts[task.name] = _depends(task, culprit)
                failed.add(task.name)
                changed = True

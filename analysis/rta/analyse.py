# SPDX-License-Identifier: GPL-2.0
"""The analysis of a whole taskset: in which order tasks are bounded, and what follows from one without a bound."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from analysis.model import Task, Taskset
from analysis.rta.forkjoin import Paths
from analysis.rta.pending import Needs, end_within
from analysis.rta.recurrence import Unbounded
from analysis.rta.result import BestEffort, Bound, Failure, Reason, Result, Verdict
from analysis.rta.system import Demands, System
from analysis.rta.threads import verdict_of


def analyse(
    name: str, demands_of: Demands, taskset: Taskset, *, assume_deadlines: bool = False, end_of: Demands | None = None,
    brief: bool = False, pending: bool = False, instead: Demands | None = None, paths: Paths | None = None,
) -> Result:  # fmt: skip
    """Bounds every task of a taskset, most urgent first.

    ``end_of``: the formula of a job up to the end of its last GPU segment, of tests that look at it.  ``instead``:
    a formula that counts where the first has no bound.  ``paths``: that of tasks with workers.
    ``assume_deadlines``: every jitter uses D_h instead of R_h (ECRTS'24, section 6.4).  A bound that rests on a task
    without one is withdrawn, because it assumed that this task meets its deadline.  ``brief``: up to the first failure.
    ``pending``: several jobs of a task may be pending; else such a task has a bound up to its period only.
    """
    verdicts: dict[str, Verdict] = {t.name: BestEffort(t.name) for t in taskset if t.best_effort}
    needs: dict[str, Needs] = {}
    failed: set[str | None] = set()
    lost_on: dict[int, str] = {}  # by CPU: a task without a bound that preempts all less urgent ones
    known: dict[str, int] = {}
    ends: dict[str, int] = {}
    found: dict[str, int] = {}  # ends that no other task uses yet
    equals: list[Task] = []
    system = System(taskset, known, ends, pending, assume_deadlines)
    for task in taskset.real_time:
        if equals and equals[0].priority != task.priority:
            _settle(equals, verdicts, known, assume_deadlines)
            ends.update(found)
            found = {}
            equals = []
        lost = lost_on.get(task.cpu)
        if lost in {t.name for t in taskset.served_with(task)}:
            lost = None  # a thread's order says what a late task costs the others that it serves
        verdict: Verdict | None = None
        if lost is None:
            try:
                verdict, needs[task.name] = verdict_of(task, demands_of, system, instead, paths)
                lost = _culprit(needs[task.name], failed)
            except Unbounded as unbounded:
                lost = unbounded.culprit
        if lost or verdict is None:
            verdict = _depends(task, lost or task.name)
        verdicts[task.name] = verdict
        if isinstance(verdict, Failure):
            failed.add(task.name)
            if brief:
                return Result(name, verdicts)
            if task.cpu_time or task.misc_time:
                lost_on.setdefault(task.cpu, task.name)
        elif end_of and task.uses_gpu and not (assume_deadlines or taskset.threads or task.name in taskset.forked):
            end = end_within(task, end_of, demands_of, system)
            found |= {} if end is None else {task.name: end}
        equals.append(task)
    _withdraw(taskset, verdicts, needs, failed)
    return Result(name, {t.name: verdicts[t.name] for t in taskset})


def _settle(tasks: list[Task], verdicts: dict[str, Verdict], known: dict[str, int], never: bool) -> None:
    """Makes these tasks' bounds known to lower priorities; tasks of equal priority use each other's deadlines."""
    for task in tasks:
        verdict = verdicts[task.name]
        if isinstance(verdict, Bound) and not never:
            known[task.name] = verdict.wcrt


def _depends(task: Task, culprit: str) -> Failure:
    return Failure(task.name, Reason.DEPENDS_ON, task.deadline, culprit=culprit)


def _culprit(needs: Needs, failed: AbstractSet[str | None]) -> str | None:
    """The first by name of the tasks without a bound that a task needs; None if there is none."""
    lost = [name for names in needs if not names.isdisjoint(failed) for name in names & failed if name]
    return min(lost, default=None)


def _withdraw(
    taskset: Taskset,
    verdicts: dict[str, Verdict],
    needs: Mapping[str, Needs],
    failed: set[str | None],
) -> None:
    """Turns bounds that assumed the deadline of a task without a bound into failures, until nothing changes."""
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

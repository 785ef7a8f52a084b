# SPDX-License-Identifier: GPL-2.0
"""Compares observed response times with deadlines and bounds."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from analysis.answers import compiled
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.traces.trace import PRIORITIES, About, Kind, Trace
from pycontrol.observe.judge.chains import ChainCheck
from pycontrol.observe.judge.finding import Finding, Sort, What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.judge.seen import commands_of, meaning

#: A task gets a remark if this many times its observed jobs could have been observed.
FEW_JOBS_FACTOR = 2
#: Why the answer for a taskset without a real-time task is no.
NOTHING_OBSERVED = "there is no real-time task, so nothing was observed"

#: The advice if tasks of a real run missed deadlines.
LATE = (
    "tasks were late: `gpurt doctor` says what delays them on this machine, `gpurt analyze` whether the file's times "
    "leave them in time at all"
)
#: The advice if tasks of a real run exceeded bounds, but missed no deadline.
ABOVE_BOUNDS = (
    "no deadline was missed, but a bound was exceeded: a time in the file is too small, or something that the analysis "
    "does not have delays tasks; `gpurt doctor` says what does on this machine"
)


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """One task: its observed response times, its bound and its deadline, ns.

    ``misses``: jobs that finished after their deadline, or were unfinished then.  ``segments``: GPU segments that
    ended.  ``ended``: when its program ended, if before the end of the run, ns.  ``above``: jobs that were not done
    within their bound, including unfinished jobs.  ``period``: ns.
    """

    task: str
    jobs: int
    mort: int | None
    bound: int | None
    deadline: int
    misses: int
    best_effort: bool
    segments: int
    ended: int | None
    above: int = 0
    period: int = 0

    @property
    def above_bound(self) -> bool:
        """Whether the observation contradicts the bound."""
        return self.above > 0 or (self.mort is not None and self.bound is not None and self.mort > self.bound)

    @property
    def failed(self) -> bool:
        """Whether the task missed a deadline, exceeded its bound, or had no observed job."""
        return not self.best_effort and (not self.jobs or self.misses > 0 or self.above_bound)


def notes(lines: Sequence[TaskCheck], trace: Trace) -> list[str]:
    """Remarks for the user: why a job was late or not seen, which programs ended early, what the trace lacks."""
    silent = [f"{line.task} ({line.segments})" for line in lines if line.segments and not line.jobs]
    found = [NOTHING_OBSERVED] if all(line.best_effort for line in lines) else []
    if silent:
        found.append(
            f"GPU segments were seen, but no job, of {', '.join(silent)}; jobs are only known of tasks that "
            "`gpurt run` executes without a command of the user's, and of programs that tell of them "
            "(gpurt_job_begin)"
        )
    found += [
        f"{line.task}: its program ended after {line.ended / 1e9:.1f} s, before the run did"
        for line in lines
        if line.ended is not None
    ]
    found += [
        f"{line.task}: {line.jobs} jobs were seen in {trace.end / 1e9:.1f} s, in which its period allows "
        f"{trace.end // line.period}: if it is periodic, jobs are missing"
        for line in lines
        if not line.best_effort and line.ended is None and 0 < line.jobs * FEW_JOBS_FACTOR * line.period < trace.end
    ]
    urgent = [line for line in lines if not line.best_effort]
    if trace.meta.get("clock") != "virtual" and any(line.misses or line.above_bound for line in urgent):
        found.append(LATE if any(line.misses for line in urgent) else ABOVE_BOUNDS)
    lost = [event for event in trace.events if event.kind is Kind.LOST and event.detail]
    return found + [f"{event.task}: {event.detail}" if event.task else str(event.detail) for event in lost]


@dataclass(frozen=True)
class Judged:
    """The verdict on a run: a line for each task of the file, the findings in order of time, and each chain.

    ``unsure``: see Slept.
    """

    lines: Sequence[TaskCheck]
    findings: Sequence[Finding]
    chains: Sequence[ChainCheck] = ()
    unsure: Collection[str] = ()


def why_no(seen: Judged) -> str:
    """Why the answer is no; empty if jobs of every real-time task were seen, all in time, and nothing was found."""
    if any(one.what is What.CLOCK for one in seen.findings):  # times mean little then
        return incomplete(seen)
    late = [line for line in seen.lines if not line.best_effort and (line.above_bound or line.misses)]
    for line in sorted(late, key=lambda one: not one.misses):
        return f"{line.task} {'missed a deadline' if line.misses else 'exceeded its bound'}"
    if why := incomplete(seen):
        return why
    return f"{seen.findings[0].what.value}: {seen.findings[0].line()}" if seen.findings else ""


def incomplete(seen: Judged) -> str:
    """Why it proves nothing that no late job was seen: some were not seen.  Empty: none is known to be missing."""
    if all(line.best_effort for line in seen.lines):
        return NOTHING_OBSERVED
    blind = [one for one in seen.findings if one.what.sort is Sort.BLIND]
    if blind:
        more = f", and {len(blind) - 1} more like it" if len(blind) > 1 else ""
        return f"not everything was seen: {blind[0].line()}{more}"
    unseen = [line.task for line in seen.lines if not line.best_effort and not line.jobs]
    if unseen:
        return f"no job of {', '.join(unseen)} was seen"
    for chain in seen.chains:
        if chain.why_unseen:
            return chain.why_unseen
    return _gone(seen.lines)


def _gone(lines: Sequence[TaskCheck]) -> str:
    """The real-time tasks that were missing at the end, and then delayed no other task; empty if none was."""
    gone = [line.task for line in lines if not line.best_effort and line.ended is not None]
    return f"jobs of {', '.join(gone)} are missing: the program ended before the run did" if gone else ""


def unbounded_tasks(lines: Sequence[TaskCheck], test: Test) -> str:
    """The real-time tasks for which the test has no bound; empty if it bounds all."""
    without = [line.task for line in lines if not line.best_effort and line.bound is None]
    return f"{test.name} has no bound of {', '.join(without)}" if without else ""


def compare_tasks(trace: Trace, file: TasksetFile, test: Test | None = None) -> Sequence[TaskCheck]:
    """One line for each task of the file; ``test``: the test whose bounds to compare with."""
    return judged(trace, file, test).lines


def judged(trace: Trace, file: TasksetFile, test: Test | None = None) -> Judged:
    """The verdict on a trace; ``test``: the test whose bounds to compare with."""
    result = compiled.run_compiled(test, file.taskset) if test else None
    bounds = {task.name: result.wcrt(task.name) for task in file.taskset} if result else {}
    parts, known = len(file.taskset.parts), meant(trace, file)
    judge = Judge(file, {name: wcrt for name, wcrt in bounds.items() if wcrt is not None},
                  policy=trace.meta.get("policy"), jump=0, gpus=parts if trace.meta.get("gpus") == str(parts) else 0,
                  tellers=_tellers(trace, known), until=_last_release(trace), command_of=commands_of(trace))
    priorities = {name: about.priority for name, about in trace.tasks.items()
                  if name not in known or about.deadline is None} | _told(trace)  # fmt: skip
    findings = []
    for event in trace.events:
        level = priorities.get(event.task)  # the highest in the trace, if the event does not state its own
        findings += judge.feed(event, level if level is None or event.priority is None else event.priority)
    findings += judge.advance(trace.end)
    return Judged(task_lines(judge, _ended(trace, file)), findings, judge.chains, judge.slept.unsure)


def _last_release(trace: Trace) -> int | None:
    """When the last job of any task was released, ns: at the end of a run some tasks continue longer than others."""
    return max((event.time for event in trace.events if event.kind is Kind.RELEASE), default=None)


def _tellers(trace: Trace, known: Collection[str]) -> set[str]:
    """The processes that report jobs of the file's tasks, perhaps after segments that began before the trace.

    ``known``: the names in the trace that mean a task.
    """
    jobs = (event for event in trace.events if event.kind in (Kind.START, Kind.COMPLETE) and event.detail)
    return {event.detail or "" for event in jobs if event.task in known}


def _told(trace: Trace) -> dict[str, int]:
    """The GPU priorities that the tasks' programs had, if the run states them; only the run states them."""
    try:
        found = json.loads(trace.meta.get(PRIORITIES, "{}"))
        return {str(name): int(priority) for name, priority in found.items()}
    except (AttributeError, TypeError, ValueError):
        return {}


def _ended(trace: Trace, file: TasksetFile) -> dict[str, int]:
    """For each task with a program that ended before the run did: when the first such program ended, ns."""
    found: dict[str, int] = {}
    for name, task in meant(trace, file).items():
        ended = trace.tasks.get(name, About()).ended
        if ended is not None:
            found[task] = min(ended, found.get(task, ended))
    return found


def task_lines(judge: Judge, ended: Mapping[str, int]) -> list[TaskCheck]:
    """A line for each task of the judge's file; ``ended``: when its program ended early by other evidence, ns.

    A worker need not report its jobs or last to the end: its job is over when its task's job is.
    """
    found = []
    workers = judge.file.taskset.started
    for task in judge.file.taskset:
        seen = judge.tally(task.name)
        if task.name in workers and not seen.jobs:
            continue
        found.append(TaskCheck(
            task.name, seen.jobs, seen.mort, judge.bounds.get(task.name), task.deadline, seen.misses, task.best_effort,
            seen.segments, None if task.name in workers else ended.get(task.name, judge.left(task.name)), seen.above,
            task.period,
        ))  # fmt: skip
    return found


def meant(trace: Trace, file: TasksetFile) -> dict[str, str]:
    """The file's task for each name in the trace (``meaning``); names that mean no task are omitted."""
    command_of = commands_of(trace)
    return {name: task for name in trace.names() if (task := meaning(file, name, command_of))}

# SPDX-License-Identifier: GPL-2.0
"""The simplest taskset that still breaks a bound."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from attack_outcome import Longest, size
from attack_search import bounds_of, climb, ways

from analysis.attack.exact import prioritised
from analysis.model import MS, CpuSegment, Segment, Span, Task, Taskset
from analysis.rta import Test


def minimised(test: Test, finding: Longest, tries: int = 200) -> Longest:
    """A finding with a simpler taskset that still breaks the bound: tasks and segments dropped, times rounded."""
    smaller = True
    while smaller:
        smaller = False
        for taskset in simpler(finding.taskset, finding.task):
            if size(taskset) < size(finding.taskset):
                again = broken(test, taskset, finding.task, tries)
                if again:
                    finding, smaller = again, True
                    break
    return finding


def broken(test: Test, taskset: Taskset, task: str, tries: int) -> Longest | None:
    """A schedule in which the task exceeds its bound; None if none is found."""
    taskset = prioritised(test, taskset)
    result, rng = test.run(taskset), random.Random(0)
    bound = bounds_of(taskset, result).get(task)
    if not result.schedulable or bound is None:
        return None
    for options in ways(test, taskset, rng):
        found, _ = climb(taskset, task, bound, options, rng, tries)
        if found.observed > bound:
            return found
    return None


def simpler(taskset: Taskset, keep: str) -> Iterator[Taskset]:
    """Tasksets that are simpler by one step: a task other than ``keep`` less, a segment less, or fewer digits.

    Tasks with workers, workers, and tasks of chains stay, except for their digits.
    """
    for index, task in enumerate(taskset):
        rest = taskset.tasks[:index], taskset.tasks[index + 1 :]
        if task.name in taskset.forked or any(task.name in chain.tasks for chain in taskset.chains):
            continue
        if task.name != keep:
            yield replace(taskset, tasks=rest[0] + rest[1])
        for position in range(len(task.segments)):
            segments = task.segments[:position] + task.segments[position + 1 :]
            yield replace(taskset, tasks=(*rest[0], replace(task, segments=segments), *rest[1]))
    for unit in (MS, MS // 10, MS // 100, 1000):
        yield replace(taskset, tasks=tuple(replace(t, segments=_rounded(t, unit)) for t in taskset))


def _rounded(task: Task, unit: int) -> tuple[Segment, ...]:
    def span(old: Span) -> Span:
        return Span.exactly((old.worst + unit // 2) // unit * unit)

    return tuple(
        CpuSegment(span(s.time)) if isinstance(s, CpuSegment)
        else replace(s, misc=span(s.misc), pure=span(s.pure), parts=(), scaling=None)
        for s in task.segments
    )  # fmt: skip

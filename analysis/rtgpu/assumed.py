# SPDX-License-Identifier: GPL-2.0
"""The assumptions about a file that bounds of tasks with their own units make.  Remarks only, no analysis."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.model import Copy, CpuSegment, Task, Taskset


def assumed_of_units(taskset: Taskset) -> list[str]:
    """These assumptions, a sentence each: the file's author may not have intended them."""
    exact = [task.name for task in taskset.real_time if any(best == worst for best, worst in _spans(task) if worst)]
    delaying = exact if len(taskset.real_time) > 1 else []
    always = (
        "a segment without a best case is taken to last as long as its worst case, always; a shorter one can delay "
        'others more: say best = "0ns" where that may be'
    )
    return [f"{', '.join(delaying)}: {always}"] if delaying else []


def _spans(task: Task) -> Iterator[tuple[int, int]]:
    """The best and the worst case, ns, of each part of a job; for a table, those on each number of units."""
    for segment in task.segments:
        if isinstance(segment, CpuSegment):
            yield segment.time.best, segment.time.worst
            continue
        yield segment.misc.best, segment.misc.worst
        for part in segment.parts:
            spans = [part.time] if isinstance(part, Copy) else part.times or [part.work]
            yield from ((span.best, span.worst) for span in spans)
        if not segment.parts:
            yield segment.pure.best, segment.pure.worst

# SPDX-License-Identifier: GPL-2.0
"""The jobs and the GPU segments in a trace."""

from __future__ import annotations

from typing import NamedTuple

from analysis.traces.trace import About, Kind, Trace


class JobTimes(NamedTuple):
    """One job: when it was released, when it finished and its deadline; None: not finished, or unknown."""

    release: int
    finish: int | None
    due: int | None

    @property
    def late(self) -> bool:
        """Whether it finished after its deadline."""
        return self.finish is not None and self.due is not None and self.finish > self.due

    def last(self, end: int) -> int:
        """The last time at which something of it is shown, in a picture that goes to ``end``."""
        return max(end if self.finish is None else self.finish, self.due or 0)


def jobs_of(trace: Trace) -> dict[str, list[JobTimes]]:
    """Every job of each task."""
    found: dict[str, list[JobTimes]] = {}
    finished = {task: [(job.release, job.release + job.response) for job in jobs]
                for task, jobs in trace.responses().items()}  # fmt: skip
    cut = {task: [(release, None) for release in releases] for task, releases in trace.unfinished().items()}
    for task in trace.names():
        deadline = deadline_of(trace, task)
        found[task] = [
            JobTimes(release, finish, None if deadline is None else release + deadline)
            for release, finish in (*finished.get(task, []), *cut.get(task, []))
        ]
    return found


def deadline_of(trace: Trace, task: str) -> int | None:
    """The relative deadline of a task, ns; None if unknown, and for best effort, whose deadline does not count."""
    about = trace.tasks.get(task, About())
    return about.deadline if about.priority else None


def traced_segments(trace: Trace) -> dict[str, list[tuple[int, int]]]:
    """When each task was in GPU segments, ns: from begin to end, or to the end of the trace."""
    inside: dict[str, tuple[int, int]] = {}
    found: dict[str, list[tuple[int, int]]] = {}
    for event in trace.events:
        if event.kind is Kind.BEGIN:
            start, depth = inside.get(event.task, (event.time, 0))
            inside[event.task] = start, depth + 1
        elif event.kind in (Kind.END, Kind.GONE) and event.task in inside:
            start, depth = inside.pop(event.task)
            if depth > 1 and event.kind is Kind.END:
                inside[event.task] = start, depth - 1
            else:
                found.setdefault(event.task, []).append((start, event.time))
    for task, (start, _) in inside.items():
        found.setdefault(task, []).append((start, trace.end))
    return found

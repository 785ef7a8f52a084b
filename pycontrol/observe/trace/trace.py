# SPDX-License-Identifier: GPL-2.0
"""Makes the common trace of a real run from the tasks' reports and the host's events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.model import Task
from analysis.traces.trace import About, Event, Kind, Trace
from gpurt.enums import Policy
from pycontrol.observe.trace.task_report import TaskReport

#: An interval of time: its start and its end, ns.
Interval = tuple[int, int]


def subtract(interval: Interval, holes: Sequence[Interval]) -> Iterator[Interval]:
    """The parts of an interval outside the holes.  The holes are sorted and do not overlap."""
    start, end = interval
    for low, high in holes:
        if high <= start:
            continue
        if low >= end:
            break
        if low > start:
            yield start, low
        start = max(start, high)
    if start < end:
        yield start, end


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of intervals: sorted, none touching another."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def job_events(report: TaskReport, period: int, origin: int) -> Iterator[Event]:
    """Releases of a task's jobs, the first at ``origin``; begins and ends of its finished jobs."""
    for job in report.jobs:
        yield Event(job.release, Kind.RELEASE, report.task, job.number)
        yield Event(job.start, Kind.START, report.task, job.number, job.start - job.release)
        yield Event(job.finish, Kind.COMPLETE, report.task, job.number, job.response, executed=job.executed)
    done = report.jobs[-1].number + 1 if report.jobs else 0  # exceeds the number of jobs if a late timer skipped some
    for number in range(done, done + report.unfinished):
        yield Event(origin + number * period, Kind.RELEASE, report.task, number)


class _Runlist:
    """The tasks on the runlist, derived from the host's events (kmod/core/sched.h, gpurt_sched_ops)."""

    def __init__(self, tasks: Iterable[str], segments: bool) -> None:
        self._all = frozenset(tasks)
        self._shared = True
        self._runner = ""
        self._inside: set[str] = set()
        self._segments = segments  # whether tasks begin segments; otherwise they submit work at any time

    def feed(self, event: Event) -> None:
        """Takes the next event."""
        ends = event.kind in (Kind.END, Kind.GONE)
        if event.kind is Kind.BEGIN:
            self._inside.add(event.task)
        elif not event.task and event.kind in (Kind.PREEMPT, Kind.RESUME):
            self._shared = event.kind is Kind.RESUME
        elif event.kind in (Kind.GRANT, Kind.RESUME):
            self._runner = event.task
        elif ends or event.kind is Kind.PREEMPT:
            self._inside -= {event.task} if ends else set()
            self._runner = "" if self._runner == event.task else self._runner

    def on(self) -> frozenset[str]:
        """The tasks whose work the GPU may execute now."""
        if not self._shared:
            return frozenset({self._runner} - {""})
        return frozenset(self._inside) if self._segments else self._all


def held_gpu(events: Sequence[Event], tasks: Iterable[str]) -> dict[str, list[Interval]]:
    """When the GPU could execute each task's work, from the host's events in order of time.

    Args:
        events: the host's events, in order of time.
        tasks: names of all tasks, for policies under which tasks begin no segments.
    """
    runlist = _Runlist(tasks, any(event.kind in (Kind.BEGIN, Kind.END) for event in events))
    since: dict[str, int] = dict.fromkeys(runlist.on(), 0)
    result: dict[str, list[Interval]] = {}
    for event in events:
        runlist.feed(event)
        now = runlist.on()
        for task in now - since.keys():
            since[task] = event.time
        for task in since.keys() - now:
            if event.time > (start := since.pop(task)):
                result.setdefault(task, []).append((start, event.time))
    end = max((event.time for event in events), default=0)
    for task, start in since.items():
        result.setdefault(task, []).append((start, max(start, end)))
    return result


def gpu_events(reports: Mapping[str, TaskReport], host: Sequence[Event], exclusive: bool) -> Iterator[Event]:
    """When the work of each task was on the GPU: from submission to completion.

    Args:
        reports: the tasks' reports, by name.
        host: the host's events, in order of time.
        exclusive: whether the policy takes tasks off the runlist.  Then time off the runlist is left out.
    """
    holding = held_gpu(host, reports) if exclusive else {}
    stalls = merge((e.time, e.time + (e.duration or 0)) for e in host if e.kind is Kind.COMMIT)
    for report in reports.values():
        for job in report.jobs:
            for whole in job.work:
                parts = _within(whole, holding.get(report.task, [])) if exclusive else [whole]
                detail = None if exclusive else "queued or executing"
                for part in parts:
                    for start, end in subtract(part, stalls):
                        yield Event(start, Kind.GPU, report.task, job.number, end - start, gpu=0, detail=detail)


def _within(whole: Interval, parts: Iterable[Interval]) -> list[Interval]:
    cut = [(max(low, whole[0]), min(high, whole[1])) for low, high in parts]
    return [(low, high) for low, high in cut if low < high]


def owned_events(host: Sequence[Event], tasks: Collection[str]) -> Iterator[Event]:
    """When the GPU could execute the work of tasks whose jobs are not known, from the first event on.

    Args:
        host: the host's events, in order of time.
        tasks: the names of these tasks.
    """
    stalls = merge((e.time, e.time + (e.duration or 0)) for e in host if e.kind is Kind.COMMIT)
    first = min((event.time for event in host), default=0)  # a recording may begin in the middle of segments
    for task, owned in held_gpu(host, tasks).items():
        for low, high in owned if task in tasks else ():
            for start, end in subtract((max(low, first), high), stalls):
                yield Event(start, Kind.GPU, task, None, end - start, gpu=0)


def assemble(
    meta: Mapping[str, str],
    tasks: Sequence[Task],
    reports: Mapping[str, TaskReport],
    host: Sequence[Event],
    times: Interval,
    ended: Mapping[str, int],
    priorities: Mapping[str, int],
) -> Trace:
    """The trace of a run.

    Args:
        meta: known facts about the run.
        tasks: the tasks that ran.
        reports: the tasks' reports, by name.
        host: the host's events, with task names, in order of time.  They give the jobs of tasks without a
            report.
        times: the instant that becomes time 0, and the end of the run, ns of CLOCK_MONOTONIC.
        ended: when programs ended that ended before the run, by task, ns of CLOCK_MONOTONIC.
        priorities: the GPU priorities of all clients, including clients that are no task, by name.
    """
    origin, over = times
    mine = (Kind.RELEASE, Kind.START, Kind.COMPLETE)
    events = [event for event in host if not (event.kind in mine and event.task in reports)]
    for task in tasks:
        if report := reports.get(task.name):
            events.extend(job_events(report, task.period, origin))
    events.extend(gpu_events(reports, host, meta.get("policy") != Policy.TIMESLICED.word))
    events.extend(owned_events(host, {event.task for event in host} - {"", *reports}))
    shifted = (replace(event, time=event.time - origin) for event in events if event.time >= origin)
    others = {name: About(priority) for name, priority in priorities.items()}
    about = others | {
        task.name: About(task.priority, task.deadline, ended[task.name] - origin if task.name in ended else None)
        for task in tasks
    }
    return Trace(dict(meta), tuple(sorted(shifted, key=lambda event: event.time)), about, over - origin)

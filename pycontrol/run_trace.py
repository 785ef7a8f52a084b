# SPDX-License-Identifier: GPL-2.0
"""Turns what tasks report and what the host tells of a real run into the common trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.model import Task
from analysis.trace import Event, Kind, Trace
from pycontrol.task_report import GpuTimes, Report, SegmentTimes

#: An interval of time: its start and its end, ns.
Interval = tuple[int, int]


def subtract(interval: Interval, holes: Sequence[Interval]) -> Iterator[Interval]:
    """What is left of an interval without the holes, which are sorted and do not overlap."""
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


def _on_cpu(times: SegmentTimes, busy: bool) -> list[Interval]:
    if not isinstance(times, GpuTimes):
        return [(times.start, times.end)]
    if busy:
        return [(times.begin, times.end)]
    return [(times.begin, times.submit), (times.seen, times.end)]


def cpu_events(tasks: Sequence[Task], reports: Mapping[str, Report], busy: Mapping[str, bool]) -> Iterator[Event]:
    """When each task executed: its segments, without the time in which a more urgent task of its CPU had one.

    That is derived, not measured: the kernel's and the host's own work is not taken off.
    """
    taken: dict[int, list[Interval]] = {}
    for task in sorted(tasks, key=lambda t: -t.priority):
        report = reports.get(task.name)
        if report is None or report.cpu is None:
            continue
        holes = merge(taken.get(report.cpu, []))
        mine: list[Interval] = []
        for job in report.jobs:
            for times in job.segments:
                for whole in _on_cpu(times, busy[task.name]):
                    mine.append(whole)
                    for start, end in subtract(whole, holes):
                        yield Event(start, Kind.CPU, task.name, job.number, end - start, cpu=report.cpu)
        taken[report.cpu] = [*holes, *mine]


def job_events(report: Report) -> Iterator[Event]:
    """Releases and completions."""
    for job in report.jobs:
        yield Event(job.release, Kind.RELEASE, report.task, job.number)
        yield Event(job.finish, Kind.COMPLETE, report.task, job.number, job.response)


def held(events: Sequence[Event]) -> dict[str, list[Interval]]:
    """When each task held the GPU alone, from the host's GRANT, RESUME, PREEMPT, END and GONE events."""
    since: dict[str, int] = {}
    result: dict[str, list[Interval]] = {}
    for event in events:
        if event.kind in (Kind.GRANT, Kind.RESUME):
            since.setdefault(event.task, event.time)
        elif event.kind in (Kind.PREEMPT, Kind.END, Kind.GONE) and event.task in since:
            start = since.pop(event.task)
            result.setdefault(event.task, []).append((start, event.time))
    return result


def gpu_events(reports: Mapping[str, Report], holding: Mapping[str, Sequence[Interval]] | None) -> Iterator[Event]:
    """When the work of each task was on the GPU: from submission to completion.

    With ``holding`` (see `held`) only while the task held the GPU.
    """
    for report in reports.values():
        for job in report.jobs:
            for times in job.segments:
                if not isinstance(times, GpuTimes) or times.completed <= times.submit:
                    continue
                whole = (times.submit, times.completed)
                parts = [whole] if holding is None else _within(whole, holding.get(report.task, []))
                detail = "queued or executing" if holding is None else None
                for start, end in parts:
                    yield Event(start, Kind.GPU, report.task, job.number, end - start, gpu=0, detail=detail)


def _within(whole: Interval, parts: Iterable[Interval]) -> list[Interval]:
    cut = [(max(low, whole[0]), min(high, whole[1])) for low, high in parts]
    return [(low, high) for low, high in cut if low < high]


def assemble(
    meta: Mapping[str, str],
    tasks: Sequence[Task],
    reports: Mapping[str, Report],
    busy: Mapping[str, bool],
    host: Sequence[Event],
    origin: int,
) -> Trace:
    """The trace of a run.

    Args:
        meta: what is known about the run.
        tasks: the tasks that ran.
        reports: what they reported, by name.
        busy: whether a task waited busily, by name.
        host: the host's events, with task names, in order of time.
        origin: what becomes time 0, ns of CLOCK_MONOTONIC.
    """
    events = list(host)
    for report in reports.values():
        events.extend(job_events(report))
    events.extend(cpu_events(tasks, reports, busy))
    exclusive = meta.get("policy") != "timesliced"
    events.extend(gpu_events(reports, held(host) if exclusive else None))
    shifted = (replace(event, time=event.time - origin) for event in events if event.time >= origin)
    return Trace(dict(meta), tuple(sorted(shifted, key=lambda event: event.time)))

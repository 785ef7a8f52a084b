# SPDX-License-Identifier: GPL-2.0
"""A trace in a report: when its jobs were released and finished, and the distribution of response times."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.taskset import TasksetFile
from analysis.traces.trace import Kind, Trace
from gpurt.types import Document
from pycontrol.machine.placement import FIFO, UNFOLDED
from pycontrol.observe.judge.check import meant


def released(recorded: Trace) -> bool:
    """Whether the trace has releases of jobs."""
    return any(event.kind is Kind.RELEASE for event in recorded.events)


def placed_by_run(recorded: Trace) -> bool:
    """Whether `gpurt run` put the tasks on the file's CPUs, with their SCHED_FIFO priorities."""
    return recorded.meta.get("placement") == UNFOLDED and recorded.meta.get("scheduling") == FIFO


def unfinished(recorded: Trace, file: TasksetFile) -> dict[str, tuple[int, int]]:
    """By task, how many jobs were unfinished when the recording ended, and the longest wait of one, ns.

    The response time of an unfinished job is not known.  Tasks without unfinished jobs are omitted.
    """
    names, end = meant(recorded, file), recorded.end
    found: dict[str, list[int]] = {}
    for name, releases in recorded.unfinished().items():
        if name in names:
            found.setdefault(names[name], []).extend(end - release for release in releases)
    return {task: (len(waits), max(waits)) for task, waits in found.items()}


def distributions(recorded: Trace, file: TasksetFile) -> dict[str, Document]:
    """The distribution of response times of each task that had a job, ns."""
    found: dict[str, list[int]] = {}
    responses = recorded.responses()
    for name, task in meant(recorded, file).items():
        found.setdefault(task, []).extend(job.response for job in responses.get(name, ()))
    return {name: _distribution(sorted(times)) for name, times in found.items() if times}


def _distribution(times: Sequence[int]) -> Document:
    """``times``: sorted.  Percentiles are observed times."""
    return {
        "minimum_ns": times[0], "median_ns": times[(len(times) - 1) // 2],
        "p99_ns": times[-(-len(times) * 99 // 100) - 1],
    }  # fmt: skip

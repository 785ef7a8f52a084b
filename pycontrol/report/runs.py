# SPDX-License-Identifier: GPL-2.0
"""What a trace is worth as evidence: whether it is of the taskset, and whether bounds speak of its run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from analysis.model import Task, Waiting
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.trace import Kind, Trace
from gpurt.text import visible
from pycontrol.run.check import meant
from pycontrol.run.placement import DEFAULT_CLASS, FIFO, FOLDED, UNFOLDED

#: Response times are counted in so many intervals of equal length.
BINS = 48


def of_another_taskset(recorded: Trace, file: TasksetFile) -> str:
    """Why the trace is not of this taskset; empty if nothing says so.

    The traces of `gpurt run` and `gpurt simulate` have every task with its deadline and its priority; those of
    `gpurt trace` have neither, and only know processes.
    """
    known = {name: about for name, about in recorded.tasks.items() if about.deadline is not None}
    tasks = {task.name: task for task in file.taskset}
    for name in known:
        if name not in tasks:
            return f"it has task {visible(name)}, which the file lacks"
    for name, task in tasks.items() if known else ():
        if name not in known:
            return f"it lacks the file's task {visible(name)}"
        there = known[name]
        if there.deadline != task.deadline:
            return f"{visible(name)} has a deadline of {there.deadline} ns there, and of {task.deadline} ns in the file"
        if there.priority is not None and there.priority != task.priority:
            return f"{visible(name)} has priority {there.priority} there, and {task.priority} in the file"
    return ""


def beyond_the_bounds(recorded: Trace, file: TasksetFile, test: Test | None) -> str:
    """Why the test's bounds do not speak of the run that was recorded; empty if they do."""
    if test is None:
        return "there are no bounds to compare with"
    if (policy := recorded.meta.get("policy")) != test.policy:
        return f"the run was under policy {visible(policy or 'unknown')}, the bounds are for policy {test.policy}"
    if recorded.meta.get("placement") == FOLDED:
        return "the run folded the file's CPUs onto fewer: it is not the system that the bounds speak of"
    if recorded.meta.get("scheduling") == DEFAULT_CLASS:
        return "the tasks were not permitted SCHED_FIFO, so that their priorities did not count"
    waiting = recorded.meta.get("waiting")
    modes = [mode.value for mode in Waiting]
    users = [task for task in file.taskset.real_time if task.uses_gpu]
    if waiting in modes and any((test.waiting or task.waiting).value != waiting for task in users):
        return f"in the run every task waited in mode {waiting}, which is not what the bounds are for"
    if waiting not in modes and test.waiting and any(task.waiting is not test.waiting for task in users):
        return f"the bounds are for tasks that all wait in mode {test.waiting.value}, and the run's did not"
    return ""


def lost(recorded: Trace) -> int:
    """How many times events were lost while the trace was recorded."""
    return sum(event.kind is Kind.LOST for event in recorded.events)


def too_close(recorded: Trace, file: TasksetFile) -> str:
    """Which task was released earlier than its period after its last release, or before it; empty if none was."""
    names, tasks = meant(recorded, file), {task.name: task for task in file.taskset}
    releases: dict[str, list[int]] = {}
    for event in recorded.events:
        if event.kind is Kind.RELEASE and event.task in names:
            releases.setdefault(event.task, []).append(event.time)
    for name, times in releases.items():
        task = tasks[names[name]]
        closest = min((later - earlier for earlier, later in pairwise(times)), default=task.period)
        if closest < task.period and not task.best_effort:
            return f"two jobs of {visible(task.name)} were released {closest} ns apart; its period is {task.period} ns"
    return ""


def released(recorded: Trace) -> bool:
    """Whether the trace has releases of jobs."""
    return any(event.kind is Kind.RELEASE for event in recorded.events)


def placed(recorded: Trace) -> bool:
    """Whether `gpurt run` put the tasks on the file's CPUs, with their SCHED_FIFO priorities."""
    return recorded.meta.get("placement") == UNFOLDED and recorded.meta.get("scheduling") == FIFO


def unfinished(recorded: Trace, file: TasksetFile) -> dict[str, tuple[int, int]]:
    """Of each task that has some: how many jobs were not finished when the recording ended, and the longest wait, ns.

    No response time is known of these.
    """
    names, end = meant(recorded, file), recorded.end
    found: dict[str, list[int]] = {}
    for name, releases in recorded.unfinished().items():
        if name in names:
            found.setdefault(names[name], []).extend(end - release for release in releases)
    return {task: (len(waits), max(waits)) for task, waits in found.items()}


def distributions(recorded: Trace, file: TasksetFile) -> dict[str, dict[str, Any]]:
    """How the response times of each task that had a job are distributed, ns."""
    found: dict[str, list[int]] = {}
    responses = recorded.responses()
    for name, task in meant(recorded, file).items():
        found.setdefault(task, []).extend(job.response for job in responses.get(name, ()))
    tasks = {task.name: task for task in file.taskset}
    return {name: _distribution(sorted(times), tasks[name]) for name, times in found.items() if times}


def _distribution(times: Sequence[int], task: Task) -> dict[str, Any]:
    """``times``: in order.  Percentiles are times that were seen; the intervals reach to the deadline at least."""
    width = -(-(max(times[-1], task.deadline) + 1) // BINS)
    counts = [0] * BINS
    for time in times:
        counts[time // width] += 1
    return {
        "minimum_ns": times[0], "median_ns": times[(len(times) - 1) // 2],
        "p99_ns": times[-(-len(times) * 99 // 100) - 1],
        "histogram": [{"below_ns": (at + 1) * width, "jobs": count} for at, count in enumerate(counts) if count],
        "interval_ns": width,
    }  # fmt: skip

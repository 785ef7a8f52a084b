# SPDX-License-Identifier: GPL-2.0
"""What a trace is about: whether it is of the file's tasks, and whether bounds speak of its run."""

from __future__ import annotations

from analysis.model import Task, Waiting
from analysis.rta import Test
from analysis.taskset import TasksetFile
from analysis.trace import SLICES, Kind, Trace, placed_of, times_of
from gpurt.text import visible
from pycontrol.run.placement import DEFAULT_CLASS, FOLDED
from pycontrol.run.seen import meaning


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
    if (times := recorded.meta.get("times")) and times != times_of(_made_up(recorded, file)):
        return "its tasks have other periods or worst-case times than the file's, by which they executed"
    if (placed := recorded.meta.get("placed")) and placed != placed_of(file.taskset):
        return "its tasks have other CPUs, GPU priorities, partitions or waiting modes than the file's"
    return ""


def _made_up(recorded: Trace, file: TasksetFile) -> list[Task]:
    """The tasks of the file that such a run executes for as long as the file says, as they have no program."""
    simulated = recorded.meta.get("source") == "simulator"
    return [task for task in file.taskset if simulated or not file.launch[task.name].command]


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
    if SLICES in recorded.meta and file.taskset.time_partitioned:
        return f"in the run TSGs had slices and levels of {visible(recorded.meta[SLICES])}, not the file's"
    parts = len(file.taskset.parts)
    if parts > 1 and recorded.meta.get("gpus", str(parts)) != str(parts):
        there = visible(recorded.meta["gpus"])
        return f"the run's host had {there} GPU(s), and the file has {parts} partitions, which are a GPU each"
    waiting = recorded.meta.get("waiting")
    modes = [mode.value for mode in Waiting]
    users = [task for task in file.taskset.real_time if task.uses_gpu]
    if waiting in modes and any((test.waiting or task.waiting).value != waiting for task in users):
        return f"in the run every task waited in mode {waiting}, which is not what the bounds are for"
    if waiting not in modes and test.waiting and any(task.waiting is not test.waiting for task in users):
        return f"the bounds are for tasks that all wait in mode {test.waiting.value}, and the run's did not"
    return ""


def of_another_system(recorded: Trace, file: TasksetFile) -> str:
    """Why the run says nothing of the file's system without a test: its policy or waiting modes were others."""
    policy, wanted = recorded.meta.get("policy"), file.taskset.policies
    if policy is not None and policy not in wanted:
        return f"the run was under policy {visible(policy or 'unknown')}, the file says {' and '.join(wanted)}"
    waiting, users = recorded.meta.get("waiting"), [task for task in file.taskset.real_time if task.uses_gpu]
    other = [task.name for task in users if task.waiting.value != waiting]
    if waiting in [mode.value for mode in Waiting] and other:
        return f"in the run every task waited in mode {waiting}, the file says otherwise of {', '.join(other)}"
    return ""


def lost(recorded: Trace, file: TasksetFile) -> int:
    """How many times events were lost while the trace was recorded, other than those of a client of no task alone."""
    lost = [event.task for event in recorded.events if event.kind is Kind.LOST]
    return sum(not task or meaning(file, task) is not None for task in lost)

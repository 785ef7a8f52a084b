# SPDX-License-Identifier: GPL-2.0
"""The optimistic defaults of a file: the facts that it leaves out, and the values that its bounds assume instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from analysis.model import Assumed, Copy, Task, Taskset, Waiting
from analysis.taskset.fields import PLATFORM, TASK
from gpurt.types import Document

#: The keys whose absence can make a yes wrong, each with a condition on the taskset.  All other fields are parts of a
#: time that the file states (docs/taskset.md has the list).
OF_PLATFORM: dict[str, Callable[[Taskset], bool]] = {
    "cpu_latency": lambda _taskset: True,
    "region": lambda taskset: _shared(taskset) and not all(one.units for one in taskset.rules),
    "time_slice": lambda taskset: _shared(taskset) and (any(one.turns for one in taskset.rules) or bool(taskset.forks)),
    "copy_engine": lambda taskset: _shared(taskset) and any(
        isinstance(part, Copy) for task in taskset for one in task.gpu_segments for part in one.parts
    ),
    "cross_contention": lambda taskset: len(taskset.parts) > 1,
    "clocks": lambda _taskset: True,
}  # fmt: skip
OF_TASK: dict[str, Callable[[Task, Taskset], bool]] = {
    "waiting": lambda task, _taskset: task.uses_gpu,
    "form": lambda task, taskset: task.uses_gpu and any(one.raises for one in taskset.rules),
    "process": lambda task, taskset: task.uses_gpu and _shared(taskset) and task.name not in taskset.forked,
    "thread": lambda task, taskset: len(taskset) > 1 and task.name not in taskset.forked,
    "jitter": lambda task, taskset: task.name not in taskset.started and task.name not in taskset.triggers,
    "conflict": lambda task, taskset: any(
        other.intensity is task.intensity is not None and other is not task for other in taskset
    ),
}  # fmt: skip


def _shared(taskset: Taskset) -> bool:
    """Whether several tasks use the GPU."""
    return sum(task.uses_gpu for task in taskset) > 1


def assumed(tables: Document, taskset: Taskset) -> Iterator[Assumed]:
    """Each key that the file lacks, and what its absence assumes of real-time tasks; the likeliest wrong ones first.

    ``tables``: the tables of a file without mistakes; each [[task]] also has the keys of its thread or its parent.
    """
    if not taskset.real_time:
        return
    threads = {one["name"]: one for one in tables.get("thread", [])}
    said = {one["name"]: {*one, *threads.get(one.get("thread"), ())} for one in tables.get("task", [])}
    for key, matters in OF_TASK.items():
        names = tuple(t.name for t in taskset if not t.best_effort and matters(t, taskset) and key not in said[t.name])
        if names:
            yield Assumed(key, names, TASK[key].assumes)
    for key, counts in OF_PLATFORM.items():
        if key not in tables["platform"] and counts(taskset):
            yield Assumed(key, (), PLATFORM[key].assumes)


def of_tests(taskset: Taskset, modes: Collection[Waiting | None]) -> list[Assumed]:
    """What tests for these waiting modes assume beside the file; mode None: each task waits in its own mode."""
    return [one for one in taskset.assumed if one.key != "waiting" or not all(mode and mode.spins for mode in modes)]


def assumed_data(those: Collection[Assumed]) -> list[Document]:
    """These assumptions as data for JSON (docs/output.md)."""
    return [{"key": one.key, "assumption": one.text, "of": one.tasks} for one in those]


def assumption_lines(those: Collection[Assumed]) -> Iterator[str]:
    """The lines about these assumptions beside a verdict: first those on waiting modes, then the others by key."""
    for one in those:
        if one.key == "waiting":
            yield (
                f"assumed, for the file does not say (waiting): jobs of {', '.join(one.tasks)} sleep while their GPU "
                "work executes; CUDA and HIP spin unless told otherwise"
            )
    if others := [one.key for one in those if one.key != "waiting"]:
        yield f"assumed of what the file does not say, as docs/taskset.md has it: {', '.join(others)}"

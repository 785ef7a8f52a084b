# SPDX-License-Identifier: GPL-2.0
"""The tests of partitioned units as the registry has them: a taskset in, verdicts and an allocation out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.model import Copy, CpuSegment, Task, Taskset, Waiting
from analysis.rta.result import Reason, Result
from analysis.rtgpu import compiled
from analysis.rtgpu.analyse import System, Units, failed, on_units
from analysis.rtgpu.method import METHODS


def run(name: str, taskset: Taskset) -> Result:
    """The test: on the units that the file gives the tasks if it gives each one with a kernel some, else on found ones.

    The result carries the allocation.  Units that exceed the platform's, or that two tasks share, are a failure, and so
    are tasks of which some wait busily and some suspend.
    """
    platform = taskset.platform
    system, total = System(METHODS[name], taskset, platform.bus_chunk), platform.compute_units
    if contradiction := mixed(taskset):
        return failed(system, Reason.WAITING, contradiction)
    given = stated(system)
    if given is None:
        try:
            return compiled.run(system, Units.of(total, taskset.platform.sizes))
        except ValueError as error:
            return failed(system, Reason.NO_UNITS, str(error))
    if why := too_many(given, total):
        return failed(system, Reason.NO_UNITS, why)
    return on_units(system, given)


def mixed(taskset: Taskset) -> str:
    """Which two tasks wait in different modes; empty if all that use the GPU wait in one."""
    first = {task.waiting: task.name for task in reversed(taskset.real_time) if task.uses_gpu}
    if len(first) < 2:
        return ""
    return f"{first[Waiting.BUSY]} waits busily and {first[Waiting.SUSPEND]} suspends, and no test is about both"


def other_mode(waiting: Waiting | None, taskset: Taskset) -> str:
    """Which task waits in another mode than a test's; empty if none does."""
    for task in taskset.real_time:
        if task.uses_gpu and waiting is not None and task.waiting is not waiting:
            return f"{task.name} waits in mode {task.waiting.value}, and the test is about mode {waiting.value}"
    return ""


def too_many(given: Mapping[str, int], total: int) -> str:
    """By how much tasks' units exceed those that there are; empty if they do not."""
    wanted = sum(given.values())
    return f"the tasks' partitions have {wanted} units of the GPU, and it has {total}" if wanted > total else ""


def assumed(taskset: Taskset) -> list[str]:
    """What bounds of tasks that own units assume that the file's author may not have meant, a sentence each."""
    plain = [
        task.name for task in taskset.real_time
        if any(one.pure.worst and not (one.parts or one.scaling) for one in task.gpu_segments)
    ]  # fmt: skip
    exact = [task.name for task in taskset.real_time if any(best == worst for best, worst in _spans(task) if worst)]
    delaying = exact if len(taskset.real_time) > 1 else []
    same = "a GPU time without kernel or kernel_times is taken to be the same on any number of units"
    always = (
        "a segment without a best case is taken to last as long as its worst case, always; a shorter one can delay "
        'others more: say best = "0ns" where that may be'
    )
    return [f"{', '.join(names)}: {what}" for names, what in ((plain, same), (delaying, always)) if names]


def _spans(task: Task) -> Iterator[tuple[int, int]]:
    """The best and the worst case, ns, of all that a job consists of; of a table, those on each number of units."""
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


def stated(system: System) -> dict[str, int] | None:
    """The units that the file gives the tasks with kernels; None if some task has none."""
    users = [task for task, user in zip(system.tasks, system.users, strict=True) if user]
    given = {task.name: task.partition.size for task in users if task.partition}
    found = {name: units for name, units in given.items() if units is not None}
    return found if users and len(found) == len(users) else None

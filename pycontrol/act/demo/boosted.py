# SPDX-License-Identifier: GPL-2.0
"""The demonstration under policy `boosted`: it needs priorities that the host orders, and the right to raised ones."""

from __future__ import annotations

from dataclasses import replace

from analysis.model import Taskset
from analysis.taskset import TasksetFile
from gpurt._gpurt import lib
from pycontrol.machine.placement import fifo_permitted


def _used(tasks: Taskset) -> list[int]:
    """Every priority of real-time threads and segments, ascending."""
    found = {task.priority for task in tasks} | {task.segment_priority for task in tasks if task.uses_gpu}
    return sorted(found - {0})


def within_file(file: TasksetFile, normal: int) -> tuple[TasksetFile, str]:
    """The file with priorities of 1 to ``normal`` in the same order; bounds depend on the order only.

    Also returns a remark for the user.  The file stays unchanged, without a remark, if its priorities are within that
    range, or are too many for it.
    """
    used = _used(file.taskset)
    if not used or used[-1] <= normal or len(used) > normal:
        return file, ""
    rank = {0: 0, **{priority: number for number, priority in enumerate(used, 1)}}
    tasks = tuple(
        replace(
            task,
            priority=rank[task.priority],
            gpu_priority=None if task.gpu_priority is None else rank[task.gpu_priority],
        )
        for task in file.taskset
    )
    remark = (
        f"under policy boosted, tasks had priorities 1 to {len(used)} in the order of the file's: the host orders 1 to "
        f"{normal}, and raises threads above those"
    )
    return replace(file, taskset=replace(file.taskset, tasks=tasks)), remark


def unable_here(file: TasksetFile, normal: int) -> str:
    """Why these tasks cannot run under policy `boosted` on a host with this ``normal``; empty if they can."""
    if not normal:
        return "the host cannot do it"
    highest = max(_used(file.taskset), default=0)
    if highest > normal:
        return f"the host orders priorities 1 to {normal}, and the file has more"
    raised = int(lib.gpurt_boost_cpu(normal, highest))
    if not fifo_permitted(max(1, raised)):
        return (
            f"threads may not be raised to SCHED_FIFO priority {raised}; become root, or set RLIMIT_RTPRIO to "
            f"{raised} or more"
        )
    return ""

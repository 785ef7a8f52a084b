# SPDX-License-Identifier: GPL-2.0
"""Finds gpurt-task, the program that executes one task of a taskset, and makes its arguments."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from analysis.model import CpuSegment, Segment, Span, Task, Waiting
from analysis.model.callbacks import Callback, Order
from gpurt._gpurt import lib
from pycontrol.act.run.compiling import find_built

#: The variable that names a program built elsewhere.
PROGRAM_VARIABLE = "GPURT_TASK"


def find_task_program() -> Path:
    """The program: GPURT_TASK, else this source tree's, else an installed one.  Raises RuntimeFailure."""
    return find_built("gpurt-task", PROGRAM_VARIABLE, "gpurt", (f"{sys.prefix}/bin", *os.get_exec_path()))


def _shrunk(span: Span, share: int) -> int:
    """This percentage of the worst case, ns, but no less than the work takes on a virtual GPU."""
    return max(span.worst * share // 100, min(span.worst, int(lib.GPURT_MIN_WORK_NS)))


def _segment(segment: Segment, share: int) -> str:
    if isinstance(segment, CpuSegment):
        return f"cpu:{_shrunk(segment.time, share)}"
    return f"gpu:{_shrunk(segment.misc, share)}+{_shrunk(segment.pure, share)}"


def task_arguments(
    task: Task, *, waiting: Waiting | None, managed: bool, tell: bool = False, share: int = 100
) -> list[str]:  # fmt: skip
    """gpurt-task's arguments that describe a task.  The launcher has the arguments for CPU and priority.

    Args:
        task: the task.
        waiting: overrides the task's own mode.
        managed: whether the task begins and ends its GPU segments.
        tell: whether the task reports its jobs to readers of the host's events.
        share: how much of each worst case it takes, percent.
    """
    result = [
        f"--name={task.name}",
        f"--period={task.period}",
        f"--deadline={task.deadline}",
        f"--segments={','.join(_segment(one, share) for one in task.segments)}",
    ]
    flags = {"--busy": (waiting or task.waiting).spins, "--tell": tell, "--no-segments": not managed}
    return [*result, *(flag for flag, wanted in flags.items() if wanted)]


def thread_arguments(task: Task) -> list[str]:
    """The arguments that make the task's thread serve other tasks, too; none if it serves only this one."""
    if task.thread is None:
        return []
    order = [*Order].index(task.thread.order)
    return [f"--order={order}", f"--rank={task.rank}", *["--timer"] * (task.callback is Callback.TIMER)]

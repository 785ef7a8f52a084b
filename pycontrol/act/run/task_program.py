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

#: Set this to use a program built elsewhere.
PROGRAM_VARIABLE = "GPURT_TASK"


def find_task_program() -> Path:
    """The program: GPURT_TASK, else the one of this source tree, else an installed one.  Raises RuntimeFailure."""
    return find_built("gpurt-task", PROGRAM_VARIABLE, "gpurt", (f"{sys.prefix}/bin", *os.get_exec_path()))


def _shrunk(span: Span, share: int) -> int:
    """This percentage of the worst case, ns.  No work gets shorter than what a virtual GPU takes."""
    return max(span.worst * share // 100, min(span.worst, int(lib.GPURT_MIN_WORK_NS)))


def _segment(segment: Segment, share: int) -> str:
    if isinstance(segment, CpuSegment):
        return f"cpu:{_shrunk(segment.time, share)}"
    return f"gpu:{_shrunk(segment.misc, share)}+{_shrunk(segment.pure, share)}"


def task_arguments(
    task: Task, *, waiting: Waiting | None, managed: bool, tell: bool = False, share: int = 100
) -> list[str]:  # fmt: skip
    """gpurt-task's arguments that say what a task does.  CPU and scheduling priority are the launcher's arguments.

    Args:
        task: the task.
        waiting: overrides the task's own mode.
        managed: whether the task begins and ends its GPU segments.
        tell: whether it tells the host's readers of its jobs.
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
    """Those that say how the task's thread serves it and others; none if it serves no others."""
    if task.thread is None:
        return []
    order = [*Order].index(task.thread.order)
    return [f"--order={order}", f"--rank={task.rank}", *["--timer"] * (task.callback is Callback.TIMER)]

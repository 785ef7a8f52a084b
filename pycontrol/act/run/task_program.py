# SPDX-License-Identifier: GPL-2.0
"""Finds gpurt-task, the program that executes one task of a taskset, and makes its arguments."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from analysis.model import CpuSegment, Segment, Span, Task, Waiting
from gpurt._gpurt import lib
from pycontrol.act.run.compiling import find_built

#: Set this to use a program built elsewhere.
PROGRAM_VARIABLE = "GPURT_TASK"


def find_task_program() -> Path:
    """The program: GPURT_TASK, else the one of this source tree, else an installed one.  Raises RuntimeFailure."""
    return find_built("gpurt-task", PROGRAM_VARIABLE, "gpurt", (f"{sys.prefix}/bin", *os.get_exec_path()))


def _shrunk(span: Span, share: int) -> Span:
    """The span with this percentage of its worst case, and a best case that is no longer.

    No work gets shorter than what a virtual GPU takes.
    """
    worst = max(span.worst * share // 100, min(span.worst, lib.GPURT_MIN_WORK_NS))
    return Span(worst, min(span.best, worst))


def _span(span: Span) -> str:
    return f"{span.worst}ns" if span.best == span.worst else f"{span.best}ns..{span.worst}ns"


def _segment(segment: Segment, share: int) -> str:
    if isinstance(segment, CpuSegment):
        return f"cpu:{_span(_shrunk(segment.time, share))}"
    return f"gpu:{_span(_shrunk(segment.misc, share))}+{_span(_shrunk(segment.pure, share))}"


def task_arguments(
    task: Task, *, waiting: Waiting | None, managed: bool, scale: tuple[int, int], seed: int, tell: bool = False,
    share: int = 100,
) -> list[str]:  # fmt: skip
    """gpurt-task's arguments that say what a task does.  CPU and scheduling priority are the launcher's arguments.

    Args:
        task: the task.
        waiting: overrides the task's own mode.
        managed: whether the task begins and ends its GPU segments.
        scale: range from which execution times are drawn, in percent between best and worst time.
        seed: for drawing execution times.
        tell: whether it tells the host's readers of its jobs.
        share: how much of each worst case it takes, percent.
    """
    result = [
        f"--name={task.name}",
        f"--period={task.period}ns",
        f"--deadline={task.deadline}ns",
        f"--segments={','.join(_segment(one, share) for one in task.segments)}",
        f"--waiting={(waiting or task.waiting).value}",
        f"--scale={scale[0]}..{scale[1]}",
        f"--seed={seed}",
    ]
    if tell:
        result.append("--tell")
    return result if managed else [*result, "--no-segments"]

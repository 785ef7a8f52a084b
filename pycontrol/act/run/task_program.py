# SPDX-License-Identifier: GPL-2.0
"""Finds gpurt-task, the program that executes one task of a taskset, and makes its arguments."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from pathlib import Path

from analysis.model import CpuSegment, Segment, Span, Task, Waiting
from gpurt._gpurt import lib
from gpurt.errors import RuntimeFailure
from pycontrol.act.run.compiling import compile_with, missing

ROOT = Path(__file__).resolve().parents[3]
#: Set this to use a program built elsewhere.
PROGRAM_VARIABLE = "GPURT_TASK"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
INCLUDE = f"-I{ROOT / 'userlib' / 'include'}"


def find_task_program() -> Path:
    """The program: GPURT_TASK, else one compiled from this source tree, else what `make install` installed.

    Compiles at most once for each state of the sources, into the user's cache directory.

    Raises:
        RuntimeFailure: there is no program, and none can be built.
    """
    named = os.environ.get(PROGRAM_VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise RuntimeFailure(f"{PROGRAM_VARIABLE}={named} is not an executable program; correct or unset it")
        return Path(named)
    sources = _sources()
    if sources:
        return _build(sources)
    for directory in (f"{sys.prefix}/bin", *os.get_exec_path()):
        if os.access(installed := Path(directory) / "gpurt-task", os.X_OK):
            return installed
    raise missing("gpurt-task", "gpurt", PROGRAM_VARIABLE)


def _sources() -> list[Path]:
    library = list((ROOT / "userlib").glob("*.c"))
    examples = list((ROOT / "userlib" / "examples").glob("gpurt_task*.c"))
    return sorted([*library, *examples]) if library and examples else []


def _fingerprint(sources: list[Path], command: list[str]) -> str:
    digest = hashlib.sha256("\0".join([*command, os.uname().machine]).encode())
    headers = [*(ROOT / "userlib").rglob("*.h"), ROOT / "kmod" / "uapi" / "gpurt.h"]
    for path in [*sources, *sorted(set(headers))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpurt"


def _build(sources: list[Path]) -> Path:
    compiler = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS]
    try:
        target = _cache() / f"gpurt-task-{_fingerprint(sources, compiler)}"
        if not os.access(target, os.X_OK):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as directory:
                program = Path(directory) / "program"
                compile_with([*compiler, INCLUDE, *map(str, sources), "-pthread", "-o", str(program)], "gpurt-task")
                program.replace(target)
    except OSError as error:
        why = f"cannot build gpurt-task in {_cache()}: {error.strerror}"
        raise RuntimeFailure(f"{why}; set {PROGRAM_VARIABLE}") from None
    return target


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

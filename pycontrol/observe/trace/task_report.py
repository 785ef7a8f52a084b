# SPDX-License-Identifier: GPL-2.0
"""Reads the report that gpurt-task writes (userlib/examples/gpurt_task_report.c describes the format)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpurt.errors import RuntimeFailure


@dataclass(frozen=True, slots=True)
class GpuTimes:
    """Times of a GPU segment, ns of CLOCK_MONOTONIC as all times of this module, in this order.

    The task calls begin (``begin``), begin returns (``begun``), and the task submits work (``submit``).  The GPU
    completes the work (``completed``), the task notices (``seen``), and end returns (``end``).
    """

    begin: int
    begun: int
    submit: int
    completed: int
    seen: int
    end: int


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """One finished job.  ``executed``: of its thread's CPU time, ns.  ``segments``: those of the GPU."""

    number: int
    release: int
    start: int
    finish: int
    executed: int
    segments: tuple[GpuTimes, ...]

    @property
    def response(self) -> int:
        """Response time, ns."""
        return self.finish - self.release


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task's whole run.  ``complete`` is false if the task was killed before it could report."""

    task: str
    pid: int
    notes: tuple[str, ...]
    jobs: tuple[FinishedJob, ...]
    unfinished: int
    error: str | None
    complete: bool


def _job(words: Iterator[str]) -> FinishedJob:
    number, release, start, finish, executed = (int(next(words)) for _ in range(5))
    segments: list[GpuTimes] = []
    for kind in words:
        times = [int(next(words)) for _ in range({"c": 2, "g": 6}[kind])]
        segments += [GpuTimes(*times)] if kind == "g" else []
    return FinishedJob(number, release, start, finish, executed, tuple(segments))


def parse_report(text: str) -> TaskReport:
    """Reads a report.  From a report that was cut off it takes the whole lines.

    Raises:
        ValueError: this is not a report.
    """
    header, _, body = text.partition("\n")
    lines = body.splitlines(keepends=True)
    if header != "gpurt-task 2" or not lines:
        raise ValueError("not a report of gpurt-task")
    try:
        words = lines[0].split()
        name, fields = words[1], dict(zip(words[2::2], words[3::2], strict=True))
        whole = [line.rstrip("\n").partition(" ") for line in lines[1:] if line.endswith("\n")]
        ends = [[int(n) for n in rest.split()] for key, _, rest in whole if key == "end"]
        return TaskReport(
            name, int(fields["pid"]),
            notes=tuple(rest for key, _, rest in whole if key == "note"),
            jobs=tuple(_job(iter(rest.split())) for key, _, rest in whole if key == "job"),
            unfinished=ends[0][1] if ends else 0,
            error=next((rest for key, _, rest in whole if key == "error"), None),
            complete=bool(ends),
        )  # fmt: skip
    except (KeyError, IndexError, ValueError, StopIteration, RuntimeError) as error:
        raise ValueError(f"a damaged report of gpurt-task ({error})") from None


def load_report(path: Path) -> TaskReport | None:
    """The report in a file; None if the task never wrote one.

    Raises:
        RuntimeFailure: the file is not a report.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    if not text:
        return None
    try:
        return parse_report(text)
    except ValueError as error:
        raise RuntimeFailure(f"{path}: {error}; the task's results are lost, run it again") from None

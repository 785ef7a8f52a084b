# SPDX-License-Identifier: GPL-2.0
"""Reads the report that gpurt-task writes (userlib/examples/gpurt_task_report.c describes the format)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpurt.errors import RuntimeFailure


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """One finished job; times are ns of CLOCK_MONOTONIC.  ``executed``: its thread's CPU time, ns.

    ``work``: when the work of each of its GPU segments was submitted and completed.
    """

    number: int
    release: int
    start: int
    finish: int
    executed: int
    work: tuple[tuple[int, int], ...]

    @property
    def response(self) -> int:
        """Response time, ns."""
        return self.finish - self.release


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task's whole run.  ``complete`` is false if the task was killed before it could report."""

    task: str
    notes: tuple[str, ...]
    jobs: tuple[FinishedJob, ...]
    unfinished: int
    error: str | None
    complete: bool


def _job(text: str) -> FinishedJob:
    number, release, start, finish, executed, *work = map(int, text.split())
    return FinishedJob(number, release, start, finish, executed, tuple(zip(work[::2], work[1::2], strict=True)))


def parse_report(text: str) -> TaskReport:
    """Reads a report.  If the report was cut off, takes the whole lines.

    Raises:
        ValueError: this is not a report.
    """
    header, _, body = text.partition("\n")
    lines = body.splitlines(keepends=True)
    if header != "gpurt-task 3" or not lines:
        raise ValueError("not a report of gpurt-task")
    try:
        word, name = lines[0].split()
        if word != "task":
            raise ValueError(word)
        whole = [line.rstrip("\n").partition(" ") for line in lines[1:] if line.endswith("\n")]
        ends = [[int(n) for n in rest.split()] for key, _, rest in whole if key == "end"]
        return TaskReport(
            name,
            notes=tuple(rest for key, _, rest in whole if key == "note"),
            jobs=tuple(_job(rest) for key, _, rest in whole if key == "job"),
            unfinished=ends[0][1] if ends else 0,
            error=next((rest for key, _, rest in whole if key == "error"), None),
            complete=bool(ends),
        )  # fmt: skip
    except (IndexError, ValueError) as error:
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

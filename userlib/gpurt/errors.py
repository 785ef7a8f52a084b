# SPDX-License-Identifier: GPL-2.0
"""Errors that a user sees: one line that says what is wrong, where, and what to do about it; and an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gpurt.text import filename, visible

#: What each exit code says.  Only `gpurt run --auto` and `--group` have others: those of their program, 126 and 127.
EXIT_CODES: Mapping[int, str] = MappingProxyType({
    0: "done; the answer is yes",
    1: "the answer is no: not schedulable, a deadline missed, a check failed; or too many tasks for an answer",
    2: "wrong usage of the command line",
    3: "a file is missing, wrong, or cannot be written; stdout too",
    4: "no host: neither the kernel module nor a process answers that serves GPUs",
    5: "the host refused: not permitted, no such client, or not valid in its present state",
    6: "something failed while running: a program did not start, a bound was exceeded in virtual time",
    70: "a bug in gpurt",
    130: "interrupted (Ctrl-C, SIGHUP)",
    141: "the reader of stdout is gone",
    143: "ended by SIGTERM",
})
#: What to do with a trace where a taskset file is read, and the other way round.
TRACE_FIRST = "of a trace and its taskset file the trace comes first: gpurt trace check RUN.json FILE.toml"


class GpurtError(Exception):
    """An error whose text the command line prints as it is, without a traceback."""

    exit_code = 6


class UsageError(GpurtError):
    """The command line asks for something that makes no sense."""

    exit_code = 2


class TooLargeError(GpurtError):
    """The question is larger than the analysis answers.  The text names the limit; nothing is proved."""

    exit_code = 1


class FileError(GpurtError):
    """A file is missing, not what it should be, or cannot be read or written."""

    exit_code = 3


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in a file; ``line`` counts from 1."""

    line: int
    message: str


class TasksetError(FileError):
    """A taskset file has mistakes; ``problems`` lists all of them."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{filename(path)}:{p.line}: {visible(p.message)}" for p in self.problems))


class DeviceError(GpurtError):
    """No host can be reached."""

    exit_code = 4


class RefusedError(GpurtError):
    """The host refused.  ``errno`` is its error number, and the text says why."""

    exit_code = 5

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class RuntimeFailure(GpurtError):
    """Something failed while running."""

    exit_code = 6

# SPDX-License-Identifier: GPL-2.0
"""Loads taskset files that bounds can model.  Each function raises FileError and TasksetError."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis import taskset
from analysis.rta import Test
from analysis.taskset import TasksetFile
from gpurt.errors import TasksetError, UsageError
from gpurt.files import is_stream
from gpurt.text import filename


def analysable(file: Path, chosen: Sequence[Test] = (), *, workers: bool = False) -> TasksetFile:
    """A taskset file with everything that the bounds of these tests need; see `refuse_file`."""
    return analysable_text(file, chosen, workers=workers)[0]


def analysable_text(
    file: Path, chosen: Sequence[Test] = (), *, workers: bool = False
) -> tuple[TasksetFile, str]:  # fmt: skip
    """`analysable` and the file's text.  The file is read once, so that it may be a pipe."""
    text = taskset.read_text(file)
    loaded = taskset.parse(file, text)
    refuse_file(loaded, chosen, workers=workers)
    return loaded, text


def without_workers(loaded: TasksetFile) -> TasksetFile:
    """Returns the file.  Raises TasksetError if tasks have workers."""
    if loaded.workers:
        raise TasksetError(loaded.path, loaded.workers)
    return loaded


def refuse_file(loaded: TasksetFile, chosen: Sequence[Test] = (), *, workers: bool = False) -> None:
    """Raises TasksetError for a file that lacks a fact that bounds need, or states a feature that no bound models.

    ``workers``: whether tasks may have workers.

    Epsilon has no default: zero would make every bound too small.  Only tests of tasks that own units do not need it.
    ``chosen``: the tests that the user named, if any.
    """
    updates = not chosen or any(not test.rules.units for test in chosen)
    if problems := [*(loaded.lacks if updates else ()), *loaded.unmodelled, *(() if workers else loaded.workers)]:
        raise TasksetError(loaded.path, problems)


def modelled(file: Path, *, workers: bool = False) -> TasksetFile:
    """Loads a file that bounds can model; tasks may have workers only with ``workers``."""
    loaded = taskset.load(file)
    if loaded.unmodelled:
        raise TasksetError(file, loaded.unmodelled)
    return loaded if workers else without_workers(loaded)


def rewritable(file: Path, write: bool) -> TasksetFile:
    """`analysable`; raises UsageError also if the file is to be written back and is not a regular file."""
    loaded = analysable(file)
    if write and is_stream(file):
        raise UsageError(f"--write needs a file, and {filename(file)} is none")
    return loaded

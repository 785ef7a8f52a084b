# SPDX-License-Identifier: GPL-2.0
"""Taskset files from texts: what is read, and each mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.model import Taskset
from analysis.taskset import load
from gpurt.errors import TasksetError


def taskset_of(path: Path, text: str) -> Taskset:
    """The taskset of a file that is written with that text."""
    path.write_text(text)
    return load(path).taskset


def mistakes(path: Path, text: str) -> list[tuple[int, str]]:
    """The mistakes of such a file, which has some: lines and messages."""
    with pytest.raises(TasksetError) as error:
        taskset_of(path, text)
    return [(problem.line, problem.message) for problem in error.value.problems]

# SPDX-License-Identifier: GPL-2.0
"""The settings of a taskset file's partitions on a Tegra for the processes of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analysis.model import Task
from gpurt.errors import FileError
from gpurt.text import filename
from pycontrol.link.hints import HintLevel
from pycontrol.link.tegra import Setting, whole_us


def settings_of(file: Path, tasks: Mapping[int, Task]) -> Iterator[Setting]:
    """Slices and levels of processes whose partitions have them.  Raises FileError if no Tegra has such a slice."""
    for pid, task in tasks.items():
        part = task.partition
        if part is None or (part.slice, part.interleave) == (None, None):
            continue
        try:
            slice_us = None if part.slice is None else whole_us(part.slice)
        except ValueError as error:
            raise FileError(f"{filename(file)}: partition {part.name}: slice is {error}, as nvgpu takes it") from None
        yield Setting(pid, slice_us, None if part.interleave is None else HintLevel[part.interleave.upper()])

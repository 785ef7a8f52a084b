# SPDX-License-Identifier: GPL-2.0
"""A taskset file with other partitions: replaces [[partition]] and what tasks say of theirs, and keeps the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.model import Partition
from analysis.taskset.file import document_of, parse
from analysis.taskset.lines import lines_of
from analysis.taskset.schema import quoted
from analysis.taskset.write import with_values
from gpurt.errors import FileError, TasksetError
from gpurt.text import filename
from gpurt.units import format_time


def with_partitions(path: Path, text: str, partitions: Sequence[Partition], names: Mapping[str, str]) -> str:
    """The file's text with these partitions, and each task in the one that ``names`` has for it.

    The text is read back and compared.  Raises FileError if it would have a mistake, such as a size that its platform
    does not have, or if the layout is not understood.
    """
    for entry in document_of(path, text)[0].get("task", []):
        if entry["name"] in names and isinstance(entry.get("partition"), dict):
            hint = "remove that, so that the name of a partition can be written there"
            raise FileError(f"{filename(path)}: task {quoted(entry['name'])} has a part of its own; {hint}")
    made = _without_tables(path, text)
    made = with_values(made, "partition", names)
    made = made.rstrip("\n") + "\n\n" + "\n".join(map(_table, partitions))
    try:
        read = parse(path, made).taskset
    except TasksetError as error:
        wrong = error.problems[0].message
        raise FileError(f"{filename(path)}: cannot be written with these partitions: {wrong}") from None
    told = {task.name: task.partition.name for task in read if task.partition}
    if read.partitions != tuple(partitions) or any(told.get(task) != name for task, name in names.items()):
        raise _not_understood(path)
    return made


def _not_understood(path: Path) -> FileError:
    hint = "its form is not understood well enough to be written; set the partitions by hand"
    return FileError(f"{filename(path)}: {hint}")


def _without_tables(path: Path, text: str) -> str:
    """The text without its [[partition]] tables; comments above the table that follows stay."""
    lines, where = text.splitlines(keepends=True), lines_of(text)
    for index in reversed(range(len(document_of(path, text)[0].get("partition", [])))):
        first = where["partition", index] - 1
        last = first + 1
        while last < len(lines) and not lines[last].lstrip().startswith("["):
            last += 1
        while last < len(lines) and last > first + 1 and lines[last - 1].lstrip()[:1] in ("#", ""):
            last -= 1
        del lines[first:last]
    return "".join(lines)


def _table(partition: Partition) -> str:
    values = {
        "name": f'"{partition.name}"', "compute_units": partition.compute_units,
        "cu_mask": None if partition.cu_mask is None else f'"{partition.cu_mask:#x}"',
        "policy": partition.policy and f'"{partition.policy}"',
        "slice": partition.slice and f'"{format_time(partition.slice)}"',
        "interleave": partition.interleave and f'"{partition.interleave}"',
    }  # fmt: skip
    rows = "".join(f"{key} = {value}\n" for key, value in values.items() if value is not None)
    return f"[[partition]]\n{rows}"

# SPDX-License-Identifier: GPL-2.0
"""A taskset file with other partitions: replaces [[partition]] and the tasks' keys for it, and keeps the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.model import Partition
from analysis.taskset.file import parse
from analysis.taskset.lines import lines_of
from analysis.taskset.schema import quoted
from analysis.taskset.text import document_of
from analysis.taskset.write import lines_in, with_values
from gpurt.errors import FileError, TasksetError
from gpurt.text import filename
from gpurt.types import Document


def with_partitions(path: Path, text: str, partitions: Sequence[Partition], names: Mapping[str, str]) -> str:
    """The file's text with these partitions, and each task in the partition that ``names`` has for it.

    The result is read back, and everything else compared with the old text.  Raises FileError if the result would have
    a mistake, such as a size that its platform does not have, or if the layout is not understood.
    """
    for entry in document_of(path, text)[0].get("task", []):
        if entry["name"] in names and isinstance(entry.get("partition"), dict):
            hint = "remove that, so that the name of a partition can be written there"
            raise FileError(f"{filename(path)}: task {quoted(entry['name'])} has a part of its own; {hint}")
    ending = "\r\n" if "\r\n" in text else "\n"
    added = "\n".join(map(_table, partitions)).replace("\n", ending)
    try:
        made = with_values(_without_tables(path, text), "partition", names)
        made = made.rstrip("\r\n") + 2 * ending + added
        tables = document_of(path, made)[0]
        homes = {entry["name"]: entry.get("partition") for entry in tables.get("task", [])}
        if _rest(tables) != _rest(document_of(path, text)[0]) or any(homes[task] != names[task] for task in names):
            raise _not_understood(path)
    except (TasksetError, ValueError, KeyError):  # wrong TOML raises ValueError
        raise _not_understood(path) from None
    try:
        read = parse(path, made).taskset
    except TasksetError as error:
        wrong = error.problems[0].message
        raise FileError(f"{filename(path)}: cannot be written with these partitions: {wrong}") from None
    if read.partitions != tuple(partitions):
        raise _not_understood(path)
    return made


def _not_understood(path: Path) -> FileError:
    hint = "its form is not understood well enough to be written; set the partitions by hand"
    return FileError(f"{filename(path)}: {hint}")


def _rest(tables: Document) -> Document:
    """The tables that must not change: all except [[partition]] and the partitions that tasks name."""
    tasks = [{key: value for key, value in task.items() if key != "partition"} for task in tables.get("task", [])]
    return {**tables, "task": tasks, "partition": None}


def _without_tables(path: Path, text: str) -> str:
    """The text without its [[partition]] tables; comments above the next table stay."""
    lines, where = lines_in(text), lines_of(text)
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
    """The table of a part of the GPU in space; ``with_partitions`` notices if it omits a key."""
    values = {
        "name": f'"{partition.name}"', "compute_units": partition.compute_units,
        "cu_mask": None if partition.cu_mask is None else f'"{partition.cu_mask:#x}"',
        "mps_percentage": partition.mps_percentage, "green_context": partition.green_context,
        "mps_partition": partition.mps_partition and f'"{partition.mps_partition}"',
        "mig": partition.mig and f'"{partition.mig}"',
    }  # fmt: skip
    rows = "".join(f"{key} = {value}\n" for key, value in values.items() if value is not None)
    return f"[[partition]]\n{rows}"

# SPDX-License-Identifier: GPL-2.0
"""The task of a file that a process is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence

from analysis.model import Task
from analysis.taskset import TasksetFile
from pycontrol.machine.procs import NAME_BYTES


def fingerprint(command: Sequence[str]) -> str:
    """A hash of a program and its arguments, which traces keep in their place; empty if they are not known."""
    return hashlib.sha256("\0".join(command).encode("utf-8", "surrogateescape")).hexdigest()[:16] if command else ""


def tasks_of(file: TasksetFile, name: str, command: str = "") -> list[str]:
    """The tasks of the file that a process may be, several if it cannot be told which.

    These are the tasks whose command is exactly the process's.  If there are none, they are those whose own name, or
    whose command's program, has the process's name.  One task stands for all of a thread or process.

    Args:
        file: the taskset file.
        name: the process's name, as the kernel keeps it.
        command: the fingerprint of its program and arguments, if they are known.
    """
    exact = [task.name for task in file.taskset if command == fingerprint(file.launch[task.name].command or ()) != ""]
    return _first_of_processes(file, exact or [task.name for task in file.taskset if name in _names(file, task)])


def _first_of_processes(file: TasksetFile, names: Sequence[str]) -> list[str]:
    first = {task.name: file.taskset.beside(task)[0].name for task in file.taskset if task.name in names}
    return list(dict.fromkeys(first[name] for name in names))


def _names(file: TasksetFile, task: Task) -> Iterator[str]:
    """The names under which the kernel may know the task's process."""
    command = file.launch[task.name].command
    for name in (task.name, *(command or ())[:1]):
        yield os.fsencode(name.rpartition("/")[2])[:NAME_BYTES].decode("utf-8", "replace")

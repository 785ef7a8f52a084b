# SPDX-License-Identifier: GPL-2.0
"""Which task of a file a process is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from analysis.model import Task
from analysis.taskset import TasksetFile
from pycontrol.machine import procs
from pycontrol.machine.procs import NAME_BYTES

#: The most digits of a process id.
MOST_DIGITS = 7


def fingerprint(command: Sequence[str], name: str = "") -> str:
    """Hashes of a program and its arguments, which traces keep in place of these; empty if they are not known.

    The hashes omit the program's folder.  A script's command begins with its interpreter (execve(2)), but its process
    has the script's ``name``: a second hash is for the command from the script on.
    """
    script = next((at for at, word in enumerate(command) if at and _short(word) == name), 0)
    parts = [command, command[script:]] if script and _short(command[0]) != name else [command]
    return " ".join(map(_hash, filter(None, parts)))


def command_of(pid: str) -> str:
    """The fingerprint of a running process's command; empty if it is not known."""
    number = int(pid) if len(pid) <= MOST_DIGITS else 0
    return fingerprint(procs.command_line_of(number), procs.name(number)) if number else ""


def _hash(command: Sequence[str]) -> str:
    words = "\0".join([command[0].rpartition("/")[2], *command[1:]])
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def tasks_of(file: TasksetFile, name: str, command: str = "") -> list[str]:
    """The tasks of the file that a process may be: several if nothing tells which.

    These are the tasks with the process's command.  If there are none, they are the tasks whose own name, or whose
    command's program, is the process's name.  Then the arguments must be equal, too, if they are known: `python3
    other.py` is not the task of `python3 camera.py`.  One task stands for all tasks of a thread or process.

    Args:
        file: the taskset file.
        name: the process's name (comm).
        command: the fingerprint of the process's program and arguments, if known.
    """
    known = command.split()
    exact = [task.name for task in file.taskset if fingerprint(file.launch[task.name].command or ()) in known]
    named = [task.name for task in file.taskset if _named(file, task, name, bool(known))]
    return _first_of_processes(file, exact or named)


def _first_of_processes(file: TasksetFile, names: Sequence[str]) -> list[str]:
    first = {task.name: file.taskset.beside(task)[0].name for task in file.taskset if task.name in names}
    return list(dict.fromkeys(first[name] for name in names))


def _named(file: TasksetFile, task: Task, name: str, other: bool) -> bool:
    """Whether the kernel may know the task's process by that name; ``other``: the process has another command."""
    program = next(iter(file.launch[task.name].command or ()), None)
    if program is not None and _short(program) == name:
        return not other
    return _short(task.name) == name


def _short(name: str) -> str:
    """A program's name, cut to the length that the kernel keeps."""
    return os.fsencode(name.rpartition("/")[2])[:NAME_BYTES].decode("utf-8", "replace")

# SPDX-License-Identifier: GPL-2.0
"""Changes of a taskset file by commands: they set values of tasks, and keep comments and layout."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from analysis.model import DEFAULT_POLICY
from analysis.taskset import load, parse, read_text
from analysis.taskset.lines import lines_of
from analysis.taskset.threads import OF_THREAD
from gpurt.errors import FileError, TasksetError
from gpurt.files import written
from gpurt.text import filename

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

#: By key of a task's table, then by task.
Values = Mapping[str, Mapping[str, int | str]]
#: The regular expression of a task's value: a number, or a string in either kind of quotes.
VALUE = r"(\d+|\"[^\"]*\"|'[^']*')"


def write_values(path: Path | str, values: Values, policy: str | None = None) -> None:
    """Sets keys of tasks in the file, such as ``{"gpu_priority": {"camera": 7}, "waiting": {"camera": "busy"}}``.

    ``policy``: the platform's new policy; None leaves the old one.

    The file is replaced as a whole or not at all.  Raises FileError if it cannot be read or written, or if the result
    would be no taskset file.  Raises TasksetError if it is none now.
    """
    path = Path(path)
    known = {task.name for task in load(path).taskset}
    if unknown := sorted({name for tasks in values.values() for name in tasks} - known):
        raise FileError(f"{filename(path)}: has no task {unknown[0]!r}")
    text = read_text(path)
    for key, tasks in values.items():
        text = with_values(text, key, tasks)
    if policy:
        text = with_policy(path, text, policy)
    _check(path, text, values)
    with written(path) as file:
        file.write(text.encode())


def _not_understood(path: Path, key: str) -> FileError:
    return FileError(f"{filename(path)}: its form is not understood well enough to be written; set {key} by hand")


def _check(path: Path, text: str, values: Values) -> None:
    """Raises FileError unless the text is a taskset file with these values."""
    try:
        parse(path, text)
    except TasksetError:
        keys = (key for key, tasks in values.items() if tasks)
        raise _not_understood(path, " and ".join(keys)) from None
    document = tomllib.loads(text)
    written = {entry["name"]: entry for entry in document.get("task", [])}
    threads = {entry["name"]: entry for entry in document.get("thread", [])}
    for key, tasks in values.items():
        homes = {name: threads.get(written[name].get("thread")) if key in OF_THREAD else None for name in tasks}
        if any((homes[name] or written[name]).get(key) != value for name, value in tasks.items()):
            raise _not_understood(path, key)


def with_policy(path: Path, text: str, policy: str) -> str:
    """The file's text with the platform's ``policy`` replaced if it has one, else added below its ``cpus``.

    Raises FileError if the layout is not understood.
    """
    platform = tomllib.loads(text)["platform"]
    if platform.get("policy", DEFAULT_POLICY) == policy:
        return text
    try:
        made = _replaced(text, platform, policy)
        if tomllib.loads(made)["platform"].get("policy") == policy:
            return made
    except (ValueError, KeyError):  # wrong TOML raises ValueError
        pass
    raise _not_understood(path, "policy")


def _replaced(text: str, platform: Mapping[str, object], policy: str) -> str:
    lines = lines_in(text)
    where = lines_of(text)
    if "policy" in platform:
        at = where["platform", "policy"] - 1
        lines[at] = re.sub(rf"(policy[\"']?\s*=\s*){VALUE}", rf'\g<1>"{policy}"', lines[at], count=1)
    else:
        at = where["platform", "cpus"]
        lines.insert(at, f'policy = "{policy}"{_ending(lines[at - 1])}')
    return "".join(lines)


def lines_in(text: str) -> list[str]:
    """The lines as TOML counts them, with endings.  U+2028 and others at which str.splitlines breaks end no line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _ending(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n"


def with_values(text: str, key: str, tasks: Mapping[str, int | str]) -> str:
    """The text with ``key`` replaced if the task has it, else added below its ``priority``.

    If the task has a thread, and the key belongs to threads, the key is written in the thread's table.
    """
    document = tomllib.loads(text)
    wanted = dict(tasks)
    if key in OF_THREAD:
        homes = {entry["name"]: entry["thread"] for entry in document.get("task", []) if "thread" in entry}
        threads = {homes[name]: value for name, value in tasks.items() if name in homes}
        text = _with(text, "thread", key, threads)
        wanted = {name: value for name, value in tasks.items() if name not in homes}
    return _with(text, "task", key, wanted)


def _with(text: str, kind: str, key: str, values: Mapping[str, int | str]) -> str:
    """The text with ``key`` set in those tables of kind ``kind`` whose names are in ``values``."""
    lines = lines_in(text)
    where = lines_of(text)
    inserts: list[tuple[int, str]] = []
    for index, entry in enumerate(tomllib.loads(text).get(kind, [])):
        if entry["name"] not in values or entry.get(key) == values[entry["name"]]:
            continue
        value = values[entry["name"]]
        literal = f'"{value}"' if isinstance(value, str) else str(value)
        if key in entry:
            at = where[kind, index, key] - 1
            lines[at] = re.sub(rf"({key}[\"']?\s*=\s*){VALUE}", rf"\g<1>{literal}", lines[at], count=1)
        else:
            place = "priority" if "priority" in entry else "name"
            at = where[kind, index, place]
            indent = lines[at - 1][: len(lines[at - 1]) - len(lines[at - 1].lstrip())]
            inserts.append((at, f"{indent}{key} = {literal}{_ending(lines[at - 1])}"))
    for at, line in reversed(inserts):
        lines.insert(at, line)
    return "".join(lines)

# SPDX-License-Identifier: GPL-2.0
"""The things that a measurement's times depend on, as far as gpurt sees: runs of different things have no common worst
case.  gpurt does not see libraries that a program loads, files that a program opens by itself, nor its environment."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpurt.errors import FileError, RuntimeFailure
from gpurt.text import filename, visible
from gpurt.types import Document, DocumentView
from pycontrol.measure.clocks import settings
from pycontrol.measure.conditions import Here, described, files
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileOptions

HASHED_BYTES = 1 << 20


def identity(plan: Sequence[Planned], options: ProfileOptions, here: Here) -> Document:
    """The request, and the host and machine that it is of; JSON.

    Left out: what only ends runs (the timeout), or only says how times are written.
    """
    order = repr([(one.condition.value, one.given) for one in plan])
    return {
        "command": list(options.command), "folder": _folder(),
        "inputs": sorted({one.given for one in plan if one.given is not None}),
        "runs": len(plan), "conditions": sorted({one.condition.value for one in plan}),
        "order": hashlib.sha256(order.encode("utf-8", "surrogateescape")).hexdigest(),
        "priority": options.priority, "preload": options.preload, "duration": options.duration, "task": options.task,
        "segments": options.per_job, "beside": list(here.beside),
        "machine": [platform.node(), platform.release(), platform.machine()], "cpus": sorted(os.sched_getaffinity(0)),
        "host": described(here.gpus), "clocks": settings(here.clocks),
    }  # fmt: skip


def _folder() -> str:
    """The current folder.  Raises FileError: it was removed."""
    try:
        return str(Path.cwd())
    except OSError as error:
        raise FileError(f"the current folder: {error.strerror}") from None


def unlike(before: DocumentView, now: DocumentView) -> str:
    """The first difference between two identities, in words; empty if there is none."""
    for name in {**now, **before}:
        if before.get(name) != now.get(name):
            return f"{name} was {_shown(before.get(name))}, and is {_shown(now.get(name))}"
    return ""


def _shown(value: object) -> str:
    words = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return visible(shlex.join(value) if words else str(value))[:200]  # type: ignore[arg-type]


class Contents:
    """The contents of the program's file, its co-runner's, and files that they are given.

    ``program``: the program's own.  ``outputs``: the files that a run changed or made; the program writes them.

    Raises:
        FileError: on creation, a file cannot be read.
    """

    def __init__(self, plan: Sequence[Planned], options: ProfileOptions, here: Here) -> None:
        named = [found for one in plan for found in files(one.command(options.command))]
        beside = files(here.beside) if here.beside else []
        loaded = [options.preload] if options.preload and os.path.isfile(options.preload) else []
        self.program = named[:1] if files(options.command[:1]) else []
        self.outputs: set[str] = set()
        self._command, self._beside = options.command, here.beside
        self._stamps = {path: _stamp(path) for path in dict.fromkeys([*named, *beside, *loaded])}
        self.hashes = {path: _hash(path) for path in self._stamps}

    def compare(self, before: Mapping[str, str], outputs: Sequence[str], cut_off: Planned | None = None) -> str:
        """A sentence about a file whose content has changed; empty if none has.

        ``cut_off``: the run that was interrupted.  It made each file of its command that did not exist before.
        """
        self.outputs |= set(outputs)
        if cut_off:
            self.outputs |= {path for path in self._named(cut_off) if path not in before}
        for path in {**before, **self.hashes}:
            if path not in self.outputs and before.get(path) != self.hashes.get(path):
                return f"{filename(path)} has changed"
        return ""

    def check(self) -> None:
        """Called before and after a run.  Raises RuntimeFailure: a file that is no output has changed."""
        for path in self._changed():
            raise _changed(path)

    def after(self, run: Planned) -> list[str]:
        """Called after each run, failed or not: the files that it has written, outputs from now on."""
        made = [path for path in self._named(run) if path not in self._stamps and path not in self.outputs]
        written = [path for path in (*self._changed(), *made) if path not in self.program]
        self.outputs |= set(written)
        return written

    def _named(self, run: Planned) -> list[str]:
        """The files of a run's command and of its co-runner's, as they are now."""
        beside = files(self._beside) if self._beside else []
        return list(dict.fromkeys([*files(run.command(self._command)), *beside]))

    def _changed(self) -> list[str]:
        found = []
        for path, stamp in self._stamps.items():
            if path in self.outputs or (now := _stamp(path)) == stamp:
                continue
            if not now or _hash(path) != self.hashes[path]:
                found.append(path)
            else:
                self._stamps[path] = now
        return found


def _changed(path: str) -> RuntimeFailure:
    why = "has changed since the measurement began: begin it anew, without the checkpoint"
    return RuntimeFailure(f"{filename(path)} {why}")


def _stamp(path: str) -> tuple[int, ...]:
    """The numbers that change with a file's content; empty if the file is gone."""
    try:
        seen = os.stat(path)
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _hash(path: str) -> str:
    """SHA-256 of a file; of one that may be executed and not read, its size and time of change."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(HASHED_BYTES):
                digest.update(chunk)
    except PermissionError:
        return repr(_stamp(path)[2:4])
    except OSError as error:
        raise FileError(f"{filename(path)}: {error.strerror}") from None
    return digest.hexdigest()

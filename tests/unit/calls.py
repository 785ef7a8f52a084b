# SPDX-License-Identifier: GPL-2.0
"""Calls of `gpurt` in this process, and pipes that it reads."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import pytest

from pycontrol import act, cli, commands, link, measure, observe
from pycontrol.table import paths

#: Takes arguments; returns the exit code, stdout and stderr.
Gpurt = Callable[..., tuple[int, str, str]]
#: Commands with their groups, such as "plan modes".
PATHS = dict(paths())


def caller(capture: pytest.CaptureFixture[Any], *first: str) -> Gpurt:
    """A call of the command with ``first`` and then its own arguments.  A command with its groups is one or several."""

    def call(*arguments: object) -> tuple[int, str, str]:
        words = [word for one in arguments for word in (str(one).split() if str(one) in PATHS else [str(one)])]
        code = cli.run([*first, *words])
        out, err = capture.readouterr()
        return code, out, err

    return call


@contextmanager
def standard_input(content: bytes) -> Iterator[str]:
    """A pipe as standard input."""
    before = os.dup(0)
    with pipe(content) as name:
        os.dup2(int(name.rpartition("/")[2]), 0)
        try:
            yield "-"
        finally:
            os.dup2(before, 0)
            os.close(before)


@contextmanager
def pipe(content: bytes, form: str = "/dev/fd/{}") -> Iterator[str]:
    """The name of a pipe's descriptor, which the shell makes of <(...)."""
    reader, writer = os.pipe()
    feeder = threading.Thread(target=_feed, args=(writer, content))
    feeder.start()
    try:
        yield form.format(reader)
    finally:
        os.close(reader)  # which ends a writer of more than was read
        feeder.join()


def _feed(writer: int, content: bytes) -> None:
    with suppress(BrokenPipeError), open(writer, "wb") as file:
        file.write(content)


@cache
def import_all() -> None:
    """Imports what commands import later."""
    for folder in (act, commands, link, measure, observe):
        for one in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
            with suppress(ImportError):  # what is optional is not installed
                importlib.import_module(one.name)


def everywhere(patch: pytest.MonkeyPatch, known: object, fake: object) -> None:
    """Puts ``fake`` in the place of ``known`` in each module that has it, also in those that commands import later.

    A module that was imported meanwhile would keep ``fake`` for tests to come.
    """
    import_all()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("pycontrol", "analysis"):
            for key in [key for key, value in vars(module).items() if value is known]:
                patch.setattr(module, key, fake)


def interrupted_starts(patch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The programs started from now on; SIGTERM comes when each is there, and before anything has noted that."""
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    patch.setattr(subprocess, "Popen", Interrupted)
    return started


def rest_of(terminal: int) -> bytes:
    """The bytes that are still to be read of a terminal that no process has open."""
    shown = b""
    with suppress(OSError):  # EIO, which is its end
        while more := os.read(terminal, 1000):
            shown += more
    return shown

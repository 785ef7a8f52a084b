# SPDX-License-Identifier: GPL-2.0
"""Hosts and other processes that tests start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from links import eventually

from pycontrol import procs

#: Starts a host with options and returns its socket.
StartHost = Callable[..., Path]


def alive(pid: int) -> bool:
    """Whether the process runs.  A zombie does not: its parent may be slow to reap it."""
    found = procs.stat(pid)
    return found is not None and found.state != "Z"


def until_written(file: Path) -> Callable[[float], None]:
    """For launch(): the run goes on until a program has written to the file, however late it begins."""
    return lambda _seconds: eventually(lambda: file.exists() and file.stat().st_size > 0)

# SPDX-License-Identifier: GPL-2.0
"""The programs of docs/frameworks.md, and what the host saw of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from library import PATIENCE, ROOT

from gpurt.enums import EventKind
from pycontrol.link.control import EventRecord
from pycontrol.link.events import Listener

FAKES = Path(__file__).parent / "frameworks"
PROGRAMS: dict[str, str] = dict(
    re.findall(r"^## (\w[^\n]*)\n.*?^```python\n(.*?)^```$", (ROOT / "docs/frameworks.md").read_text(), re.M | re.S)
)
#: The segments of each program; coroutines overlap, so that theirs are one.
SEGMENTS = {"PyTorch": 3, "CuPy": 3, "Numba": 3, "PyCUDA": 3, "asyncio": 1, "ROS 2": 3}


def seen(socket: str, command: list[str], **environment: str) -> tuple[list[EventRecord], int, str]:
    """The host's events while a command runs that must succeed, its process, and what it prints."""
    with Listener(socket) as listener:
        given = {**os.environ, "GPURT_DEVICE": socket, **environment}
        process = subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, ""), err
        listener.control.status()  # the host answers after its events
        return list(listener.records()), process.pid, out


def execute(program: str, socket: str, path: str, **environment: str) -> list[EventRecord]:
    """The host's events of the program's run, from its first segment on.  ``path``: the framework's folder."""
    records, process, _ = seen(socket, [sys.executable, "-c", program], PYTHONPATH=path, **environment)
    of_it = [one for one in records if one.pid == process]
    first = next(at for at, one in enumerate(of_it) if one.kind is EventKind.BEGIN)
    return of_it[first:]


def whole(records: list[EventRecord]) -> list[int]:
    """How much work each outermost segment had; -1 for one that ended before its work did."""
    found, depth, done = [], 0, 0
    for one in records:
        if one.kind is EventKind.BEGIN:
            depth, done = depth + 1, done if depth else 0
        elif one.kind is EventKind.WORK:
            if depth:
                done += 1
            else:
                found[-1] = -1
        elif one.kind is EventKind.END:
            depth -= 1
            found += [] if depth else [done]
    return found

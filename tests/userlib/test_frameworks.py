# SPDX-License-Identifier: GPL-2.0
"""Every program of docs/frameworks.md runs: each segment ends when the work is done that was launched in it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from library import PATIENCE, ROOT

from analysis.model import Platform
from gpurt.enums import EventKind
from pycontrol.live.control import EventRecord
from pycontrol.live.events import Listener
from pycontrol.run.emulator import Emulator
from pycontrol.run.placement import fifo_permitted

FAKES = Path(__file__).parent / "frameworks"
PROGRAMS: dict[str, str] = dict(
    re.findall(r"^## (\w[^\n]*)\n.*?^```python\n(.*?)^```$", (ROOT / "docs/frameworks.md").read_text(), re.M | re.S)
)
#: The segments of each program; coroutines overlap, so that theirs are one.
SEGMENTS = {"PyTorch": 3, "CuPy": 3, "Numba": 3, "PyCUDA": 3, "asyncio": 1, "ROS 2": 3}


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with Emulator(Platform(1)) as running:
        yield str(running.socket)


def execute(program: str, socket: str, path: str) -> list[EventRecord]:
    """The host's events of the program's run, from its first segment on."""
    with Listener(socket) as listener:
        environment = {**os.environ, "GPURT_DEVICE": socket, "PYTHONPATH": path, "NUMBA_ENABLE_CUDASIM": "1"}
        process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
        listener.control.status()  # the host answers after its events
        records = [one for one in listener.records() if one.pid == process.pid]
    first = next(at for at, one in enumerate(records) if one.kind is EventKind.BEGIN)
    return records[first:]


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


def test_the_page_has_these_programs() -> None:
    assert PROGRAMS.keys() == SEGMENTS.keys()


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_end_when_their_work_is_done(name: str, socket: str) -> None:
    if "SCHED_FIFO" in PROGRAMS[name] and not fifo_permitted(20):
        pytest.skip("SCHED_FIFO is not permitted")
    found = whole(execute(PROGRAMS[name], socket, str(FAKES)))
    assert sum(found) == 3
    assert len(found) == SEGMENTS[name]


def test_without_a_stream_they_end_before(socket: str) -> None:
    """What the test above looks at can fail."""
    program = PROGRAMS["CuPy"].replace("gpurt.segment(stream=stream)", "gpurt.segment()")
    assert program != PROGRAMS["CuPy"]
    assert -1 in whole(execute(program + "\nstream.synchronize()\n", socket, str(FAKES)))


@pytest.mark.skipif(os.environ.get("GPURT_LONG") != "1", reason="compiles with Numba; GPURT_LONG=1 runs it")
@pytest.mark.skipif(not importlib.util.find_spec("numba"), reason="needs Numba")
def test_numba_s_own_simulator(socket: str) -> None:
    """Its work is done on the CPU: the segments are what there is to see."""
    program = PROGRAMS["Numba"] + "\nassert values.copy_to_host()[63] == 63 * 16\n"
    assert whole(execute(program, socket, os.environ.get("PYTHONPATH", ""))) == [0, 0, 0]

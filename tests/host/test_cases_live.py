# SPDX-License-Identifier: GPL-2.0
"""The programs of tests/cases, as real processes, and what the commands find in them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from links import PATIENCE
from processes import StartHost

from gpurt.enums import EventKind
from pycontrol import cli
from pycontrol.link.control import connect
from pycontrol.machine.placement import fifo_permitted

CASES = Path(__file__).resolve().parents[1] / "cases"
pytestmark = pytest.mark.skipif(not fifo_permitted(10), reason="needs the right to SCHED_FIFO")


@contextmanager
def executed(host: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of tests/cases, and what it has forked, until the context is left."""
    command = [sys.executable, CASES / words[0], *words[1:]]
    environment = {**os.environ, "GPURT_DEVICE": str(host)}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def recorded(host: Path, trace: Path) -> Iterator[None]:
    """`gpurt trace record` records until the context is left."""
    words = [sys.executable, "-m", "pycontrol", "--device", str(host), "trace", "record", "-o", str(trace)]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as recorder:
        assert recorder.stderr
        recorder.stderr.readline()  # it has subscribed
        try:
            yield
        finally:
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(PATIENCE) == 0


def findings(trace: Path, file: str, capfd: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """The findings of `gpurt trace check`, the first of each kind."""
    capfd.readouterr()
    assert cli.run(["trace", "check", str(trace), str(CASES / file), "--json"]) == 1
    found = json.loads(capfd.readouterr().out)["findings"]
    return {one["finding"]: one for one in reversed(found)}


def test_callbacks_that_one_thread_serves_are_found_out(
    start_host: StartHost, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """callbacks.py, of which callbacks.toml says that each callback is a task of its own."""
    host, trace = start_host(), tmp_path / "run.json"
    with recorded(host, trace), executed(host, "callbacks.py", "6") as program:
        assert program.wait(PATIENCE) == 0
    found = findings(trace, "callbacks.toml", capfd)
    assert "one thread serves both" in found["thread"]["message"]


@pytest.mark.parametrize("jobs", [[], ["jobs"]])
def test_an_owner_that_waits_for_a_less_urgent_program_is_told_of(
    start_host: StartHost, tmp_path: Path, capfd: pytest.CaptureFixture[str], jobs: list[str]
) -> None:
    """dep.py, which ends never, with dep.toml."""
    host, trace = start_host("--bound=stuck=100ms"), tmp_path / "run.json"
    with connect(str(host)) as control, recorded(host, trace):
        events = control.events(PATIENCE)
        with executed(host, "dep.py", *jobs) as program:
            stuck = next(one for one in events if one.kind is EventKind.STUCK)
            assert stuck.pid == program.pid
            assert cli.run(["--device", str(host), "status", "--json"]) == 0
            (gpu,) = json.loads(capfd.readouterr().out)["gpus"]
            assert gpu["stuck_ns"] >= 100_000_000
    if jobs:
        assert findings(trace, "dep.toml", capfd)["stuck"]["task"] == "urgent"

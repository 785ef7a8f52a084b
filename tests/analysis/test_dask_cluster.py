# SPDX-License-Identifier: GPL-2.0
"""An experiment on a real Dask cluster: a scheduler and two workers, processes of their own, one of which is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from analysis.experiments import EXPERIMENTS
from analysis.experiments.runner import Settings, run

#: It takes long to import, and each worker collects these tests.
MISSING = not find_spec("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(MISSING, reason="the optional package distributed is not installed"),
]
PATIENCE = 200.0
SETTINGS = Settings(tasksets=1000)
NAME = "gcaps-fig8a"


def start(module: str, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", f"distributed.cli.{module}"]
    command = [*program, "--scheduler-file", str(folder / "cluster.json"), *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler and two workers with one thread each, on addresses of this machine."""
    common = ("--host", "127.0.0.1", "--no-dashboard")
    running = [start("dask_scheduler", tmp_path, *common, "--port", "0")]
    running += [start("dask_worker", tmp_path, *common, "--no-nanny", "--nthreads", "1") for _ in range(2)]
    yield running[1:]
    for one in reversed(running):
        one.kill()
        one.wait()


def address(folder: Path) -> str:
    """Where the scheduler is, once it has written that."""
    file = folder / "cluster.json"
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if file.exists() and (text := file.read_text()).endswith("}"):
            return str(json.loads(text)["address"])
        time.sleep(0.05)
    raise AssertionError("the scheduler did not start")


def test_a_worker_that_is_killed_loses_nothing(workers: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    from analysis.experiments.cluster import connect

    left: list[int] = []

    def kill_one(done: int, total: int) -> None:
        """As soon as a piece is done, so that others are under way."""
        if not left:
            workers[0].send_signal(signal.SIGKILL)
            workers[0].wait()
            left.append(total - done)

    connected = connect(address(tmp_path), PATIENCE)
    connected.client.wait_for_workers(2, timeout=PATIENCE)
    with connected as executor:
        table = run(EXPERIMENTS[NAME], SETTINGS, tmp_path / "checkpoint", 1, kill_one, executor)
        until = time.monotonic() + PATIENCE
        while len(connected.client.ncores()) != 1 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(connected.client.ncores()) == 1
    assert left[0] > SETTINGS.tasksets  # it died in the middle: more than one point was not done
    assert (workers[0].returncode, workers[1].poll()) == (-signal.SIGKILL, None)
    assert table == run(EXPERIMENTS[NAME], SETTINGS)

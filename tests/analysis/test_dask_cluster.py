# SPDX-License-Identifier: GPL-2.0
"""An experiment on a real Dask cluster: a scheduler and two workers, processes of their own that are killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from analysis.answers.fingerprint import source_fingerprint
from analysis.papers.experiments import EXPERIMENTS
from analysis.papers.experiments.engine import plan, run
from analysis.papers.experiments.plan import Settings
from gpurt.errors import RuntimeFailure

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
def cluster(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler and two workers with one thread each, on addresses of this machine."""
    common = ("--host", "127.0.0.1", "--no-dashboard")
    running = [start("dask_scheduler", tmp_path, *common, "--port", "0")]
    running += [start("dask_worker", tmp_path, *common, "--no-nanny", "--nthreads", "1") for _ in range(2)]
    yield running
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


def test_what_is_killed_loses_nothing(cluster: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """First a worker, and the other does its part; then the rest, and this machine goes on alone."""
    from analysis.papers.experiments.cluster import GONE, connect

    left: list[int] = []

    def kill(victims: list[subprocess.Popen[bytes]], done: int, total: int) -> None:
        """As soon as a piece is done, so that others are under way."""
        if not left:
            for one in victims:
                one.send_signal(signal.SIGKILL)
                one.wait()
            left.append(total - done)

    connected = connect(address(tmp_path), PATIENCE)
    connected.client.wait_for_workers(2, timeout=PATIENCE)
    checkpoint, other = tmp_path / "checkpoint", replace(SETTINGS, seed=2)
    with connected as executor:
        table = run(EXPERIMENTS[NAME], SETTINGS, checkpoint, 1, partial(kill, cluster[1:2]), executor)
        until = time.monotonic() + PATIENCE
        while connected.workers() != 1 and time.monotonic() < until:
            time.sleep(0.05)
        assert connected.workers() == 1
        assert left.pop() > SETTINGS.tasksets  # it died in the middle: more than one point was not done
        assert [one.poll() for one in cluster] == [None, -signal.SIGKILL, None]
        assert table == run(EXPERIMENTS[NAME], SETTINGS)
        checkpoint.unlink()
        with pytest.raises(RuntimeFailure, match=re.escape(GONE)):
            run(EXPERIMENTS[NAME], other, checkpoint, 1, partial(kill, [cluster[0], cluster[2]]), executor)
    assert left.pop() > SETTINGS.tasksets
    kept = len(checkpoint.read_text().splitlines()) - 1
    assert kept > 0
    pieces: list[int] = []
    gone_on = run(EXPERIMENTS[NAME], other, checkpoint, 1, lambda done, _: pieces.append(done))
    assert len(pieces) + kept == len(plan(EXPERIMENTS[NAME], other))
    assert gone_on == run(EXPERIMENTS[NAME], other)


def test_a_worker_of_another_release_counts_nothing() -> None:
    """Or a figure would be of two releases' tests."""
    from analysis.papers.experiments import cluster

    ours = source_fingerprint()
    assert cluster._call(ours, max, 1, 2) == 2
    with pytest.raises(RuntimeFailure, match="install the same release"):
        cluster._call(ours[::-1], max, 1, 2)


def test_what_a_worker_lacks_is_said() -> None:
    from analysis.papers.experiments.cluster import _pass_on

    inner, outer = Future[int](), Future[int]()
    inner.set_exception(ModuleNotFoundError("No module named 'analysis'"))
    _pass_on(inner, outer)
    with pytest.raises(RuntimeFailure, match="ModuleNotFoundError: No module named 'analysis'; each machine needs"):
        outer.result()

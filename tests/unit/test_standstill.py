# SPDX-License-Identifier: GPL-2.0
"""Tests are run again if they failed while the machine stood still, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from standstill import ATTEMPTS

TESTS = Path(__file__).resolve().parents[1]
HOOKS = "from standstill import pytest_runtest_protocol, pytest_sessionfinish, pytest_sessionstart"
HEAD = """
import os, signal, time
from pathlib import Path
import pytest
from standstill import WATCHER

RUNS = Path(__file__).with_name("runs")

@pytest.fixture(scope="module", autouse=True)
def runs():
    with RUNS.open("a") as file:
        file.write("x")
    return RUNS.stat().st_size

@pytest.fixture
def standing_still(request):
    watcher = request.config.stash[WATCHER].process
    os.kill(watcher.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(watcher.pid, signal.SIGCONT)
"""


def run_test(folder: Path, body: str) -> tuple[int, subprocess.CompletedProcess[str]]:
    """How often the test with that body was run, and what became of pytest."""
    (folder / "conftest.py").write_text(HOOKS)
    (folder / "test_it.py").write_text(HEAD + body)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", folder]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    return (folder / "runs").stat().st_size, done


def test_what_failed_in_a_machine_that_stood_still_is_run_again(tmp_path: Path) -> None:
    runs, done = run_test(tmp_path, "def test_it(runs, standing_still): assert runs == 2")
    assert (runs, done.returncode) == (2, 0)
    assert "1 passed, 1 warning" in done.stdout
    assert "stood still" in done.stdout


def test_what_fails_each_time_fails(tmp_path: Path) -> None:
    runs, done = run_test(tmp_path, "def test_it(standing_still): assert False")
    assert (runs, done.returncode) == (ATTEMPTS, 1)
    assert "1 failed" in done.stdout


def test_what_failed_in_a_machine_that_did_not_is_not_run_again(tmp_path: Path) -> None:
    """The watcher is stopped for good, so it sees nothing, even if the machine does stand still."""
    body = """
def test_it(request):
    os.kill(request.config.stash[WATCHER].process.pid, signal.SIGSTOP)
    assert False
"""
    runs, done = run_test(tmp_path, body)
    assert (runs, done.returncode) == (1, 1)

# SPDX-License-Identifier: GPL-2.0
"""Owners of the GPU that end while something keeps their memory: the GPU is handed on, not kept for the dead."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from links import eventually

from pycontrol.live.control import Control

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
#: Ways in which the owner ends while a process that shares its memory and its descriptors lives.
WITH_SIBLING = ["exit", "exec", "kill", "files-exit", "files-exec", "vfork", "opened"]


def granted(program: Path, how: str) -> subprocess.Popen[str]:
    """Starts ``ends`` and returns it when its waiting client has been granted the GPU; it ends with its input."""
    command = [program, how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "granted\n", process.communicate()
    return process


def finish(process: subprocess.Popen[str]) -> None:
    assert process.communicate()[0] == ""
    assert process.returncode == 0


@pytest.mark.parametrize("how", WITH_SIBLING)
def test_an_owner_ends_whose_memory_another_process_has(module: Control, compiled: Path, how: str) -> None:
    process = granted(compiled / "ends", how)
    eventually(lambda: [one.pid for one in module.clients()] == [process.pid])  # nothing of the owner is left
    assert module.status()[0].runner_pid == process.pid
    finish(process)
    eventually(lambda: module.clients() == [])


@pytest.fixture
def endless_cores() -> Iterator[None]:
    """A program gets cores through a pipe, as in most distributions, and never reads them."""
    before = CORE_PATTERN.read_text()
    CORE_PATTERN.write_text("|/bin/sleep 1000")
    yield
    CORE_PATTERN.write_text(before)


@pytest.mark.usefixtures("endless_cores")
def test_a_crashed_owner_does_not_keep_the_gpu_while_its_core_is_written(module: Control, compiled: Path) -> None:
    process = granted(compiled / "ends", "core")
    assert module.status()[0].runner_pid == process.pid
    subprocess.run(["pkill", "-f", "^/bin/sleep 1000"], check=True)
    finish(process)
    eventually(lambda: module.clients() == [])

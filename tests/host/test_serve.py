# SPDX-License-Identifier: GPL-2.0
"""How a host tells the process that started it that clients may connect, and when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from links import eventually
from processes import StartHost


def serve(command: str, socket: Path, descriptor: str, *passed: int) -> subprocess.CompletedProcess[str]:
    """A host that is to end at once, because it cannot write to the descriptor."""
    words = [sys.executable, "-m", "pycontrol.cli", command, f"--socket={socket}", f"--ready-fd={descriptor}"]
    return subprocess.run(words, capture_output=True, text=True, check=False, pass_fds=passed, timeout=200)


@pytest.mark.parametrize("command", ["emulate", "serve"])
def test_a_descriptor_that_is_not_open_is_named(tmp_path: Path, command: str) -> None:
    for number in ("3", "99", "-1", str(2**40)):  # 3: one of the host's own files would have it
        done = serve(command, tmp_path / "host.sock", number)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"gpurt: Invalid value for '--ready-fd': descriptor {number} is not open (see")
        assert done.stderr.count("\n") == 1


def test_a_descriptor_that_is_only_read_is_named(tmp_path: Path) -> None:
    with Path(os.devnull).open() as file:
        number = file.fileno()
        done = serve("emulate", tmp_path / "host.sock", str(number), number)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"descriptor {number} is not open for writing" in done.stderr


@pytest.mark.parametrize("command", ["emulate", "serve"])
def test_a_descriptor_that_nobody_reads_is_named(tmp_path: Path, command: str) -> None:
    """The process that would have read it is gone; stdout, which is read, is not blamed."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = serve(command, tmp_path / "host.sock", str(writer), writer)
    finally:
        os.close(writer)
    assert done.returncode == 3
    assert done.stderr.endswith(f"gpurt: --ready-fd: descriptor {writer} cannot be written: Broken pipe\n")
    assert not (tmp_path / "host.sock").exists()


@pytest.mark.parametrize("command", ["emulate", "serve"])
def test_a_host_says_why_it_starts_with_another_policy_than_files(start_host: StartHost, command: str) -> None:
    """Nothing more is said where the user named the policy."""
    why = "policy segment (files that name none are for boosted, which refuses real-time clients without SCHED_FIFO"
    for options, told in (((), True), (("--policy=segment",), False), (("--policy=boosted",), False)):
        log = start_host(*options, program=("-m", "pycontrol.cli", command)).with_suffix(".log")
        eventually(lambda log=log: "serving" in log.read_text())  # type: ignore[misc]
        assert (why in log.read_text()) == told

# SPDX-License-Identifier: GPL-2.0
"""Tests begin with default dispositions of signals, whatever their caller has."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import signal
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
import conftest, subprocess, sys
subprocess.run(["sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"], check=True, timeout=60)
"""


def test_a_child_of_a_test_ignores_and_blocks_nothing_under_nohup() -> None:
    command = [sys.executable, "-c", CHILD]
    said = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True, timeout=60, check=True).stdout
    masks = dict(line.split(":\t") for line in said.splitlines())
    wanted = sum(1 << (one - 1) for one in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM))
    assert set(masks) == {"SigBlk", "SigIgn"}
    assert all(int(mask, 16) & wanted == 0 for mask in masks.values()), masks

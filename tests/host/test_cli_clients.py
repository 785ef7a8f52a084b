# SPDX-License-Identifier: GPL-2.0
"""`gpurt status clients` on a narrow terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from links import PATIENCE, SocketClient

ME = str(os.getpid())


def test_clients_stay_a_table_where_the_terminal_is_narrow(host: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    words = [sys.executable, "-m", "pycontrol", "--device", str(host), "status", "clients"]
    with SocketClient(host) as first, SocketClient(host) as second:
        first.begin(priority=9)
        second.begin(priority=4)
        subprocess.run(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, check=True, timeout=PATIENCE)
    os.close(theirs)
    lines = os.read(ours, 1 << 16).decode().splitlines()
    os.close(ours)
    assert sum(line.split()[:2] == ["0", ME] for line in lines) == 2
    assert max(map(len, lines[:-1])) <= 60
    assert lines[-1].startswith("no room in 60 columns for ")
    assert lines[-1].endswith("raised (--json)")

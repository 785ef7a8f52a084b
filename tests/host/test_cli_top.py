# SPDX-License-Identifier: GPL-2.0
"""`gpurt top` on terminals of several sizes, and into pipes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from links import PATIENCE, SocketClient

from pycontrol.link.control import connect
from pycontrol.link.sampling import Looks
from pycontrol.readable import readable

ME = str(os.getpid())
#: Escape sequences: the cursor is moved, shown and so on.
ESCAPE = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]")


class Top:
    """The command, on a terminal of its own."""

    def __init__(self, host: Path, columns: int, *options: str, rows: int = 24, command: str = "top") -> None:
        self._fd, theirs = pty.openpty()
        self.resize(columns, rows)
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment["TERM"] = "xterm"
        words = [sys.executable, "-m", "pycontrol", "--device", str(host), *command.split(), *options]
        self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.shown = ""

    def resize(self, columns: int, rows: int) -> None:
        """Changes the size of the terminal."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, pattern: str) -> list[str]:
        """Reads until the pattern appears in what is new; the lines of the last screen."""
        self.shown, end = "", time.monotonic() + PATIENCE
        while not re.search(pattern, self.shown, re.DOTALL):
            assert time.monotonic() < end, f"never showed {pattern!r}: {self.shown}"
            if readable(self._fd, 0.1):
                self.shown += self._read()
        last = self.shown.rpartition("\x1b[H")[2]
        return [ESCAPE.sub("", line).rstrip() for line in last.splitlines()]

    def _read(self) -> str:
        try:
            return os.read(self._fd, 1 << 16).decode()
        except OSError:  # the command has ended
            return ""

    def close(self) -> None:
        """Ends the command."""
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


@pytest.fixture
def owner(host: Path) -> Iterator[SocketClient]:
    """Owns the GPU; another client of this process waits for it."""
    with SocketClient(host) as first, SocketClient(host) as second:
        first.begin(priority=9)
        second.begin(priority=4)
        yield first


def test_the_column_of_what_is_owned_is_filled(host: Path, owner: SocketClient) -> None:
    top = Top(host, 200, "--once", "--interval", "0.2s")
    lines = top.until("pending.*\n")
    assert top.process.wait(PATIENCE) == 0
    top.close()
    header = next(line for line in lines if "owned ms" in line)
    rows = [line for line in lines if ME in line]
    end = header.index("share") + len("share")
    shares = [float(line[:end].split()[-1].rstrip("%")) for line in rows]
    assert shares[0] > shares[1] == 0
    assert re.search(r"  #+$", rows[0])  # there is room for a bar
    assert "#" not in rows[1]


def test_best_effort_clients_have_equal_parts_of_a_gpu_that_nobody_owns(host: Path) -> None:
    """They are in segments all the time, so that each look finds both."""
    with SocketClient(host) as first, SocketClient(host) as second:
        first.begin()
        second.begin()
        words = [sys.executable, "-m", "pycontrol", "--device", str(host), "top", "--once", "--interval", "0.2s"]
        done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    clients = json.loads(done.stdout)["clients"]
    assert [(one["share"], one["shared"]) for one in clients] == [(0.5, 0.5), (0.5, 0.5)]
    assert text.count("~50.0%") == 2


def test_a_gpu_that_another_users_process_owns_is_nobody_elses(host: Path, owner: SocketClient) -> None:
    """The host names the owner to its own user only; its part counts once."""
    with connect(str(host)) as control:
        hidden = [replace(one, runner_pid=0) for one in control.status()]
        looks = Looks(SimpleNamespace(status=lambda: hidden, clients=control.clients), 0.1)  # type: ignore[arg-type]
        looks.look()
    assert looks.take() == {}


def test_narrow_wide_and_resized_terminals(host: Path, owner: SocketClient) -> None:
    """The interval is so long that only the new size makes it draw again."""
    top = Top(host, 100, "--interval", "3600s")
    wide = top.until(f"{ME}.*{ME}")
    assert any("TSGs" in line for line in wide)
    for columns, rows in ((45, 10), (12, 10)):
        top.resize(columns, rows)
        top.process.send_signal(signal.SIGWINCH)
        lines = top.until(rf"\x1b\[H[^\x1b]*{ME}[^\x1b]*{ME}[^\x1b]*\n")
        assert max(map(len, lines)) <= columns
        assert len(lines) <= rows
        assert "pid" in lines[1]
        assert not any("TSGs" in line for line in lines)
    top.resize(45, 4)
    top.process.send_signal(signal.SIGWINCH)
    assert len(top.until("more")) <= 4
    top.process.send_signal(signal.SIGINT)
    left = top.until(r"\x1b\[\?1049l.*pending")  # the other screen again, with the last state on it
    assert not any("interrupted" in line for line in left)
    assert top.process.wait(PATIENCE) == 0
    top.close()


def test_clients_stay_a_table_where_the_terminal_is_narrow(host: Path, owner: SocketClient) -> None:
    shown = Top(host, 60, command="status clients")
    lines = shown.until(r"no room in 60 columns for .*raised \(--json\)")
    assert shown.process.wait(PATIENCE) == 0
    shown.close()
    assert sum(line.split()[:2] == ["0", ME] for line in lines) == 2
    assert max(map(len, lines[:-1])) <= 60


@pytest.mark.parametrize("as_json", [False, True])
def test_a_pipe_gets_one_report_after_the_other(host: Path, owner: SocketClient, as_json: bool) -> None:
    command = [sys.executable, "-m", "pycontrol", "--device", str(host), "top", "--interval", "0.1s"]
    with subprocess.Popen(
        [*command, "--json"] if as_json else command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as top:
        assert top.stdout
        assert top.stderr
        if as_json:
            for _ in range(2):
                document = json.loads(top.stdout.readline())
                assert (document["schema"], document["command"]) == (1, "top")
                assert document["gpus"][0]["policy"] == "segment"
                assert [one["share"] > 0 for one in document["clients"]] == [True, False]
        else:
            reports = [[top.stdout.readline() for _ in range(6)] for _ in range(2)]
            assert [report[0] for report in reports] == 2 * ["GPU 0 segment; 2 clients\n"]
            assert all("running" in report[3] and "pending" in report[4] for report in reports)
        top.send_signal(signal.SIGINT)
        _, err = top.communicate(timeout=PATIENCE)
    assert (top.returncode, err) == (0, "")

"""Hosts for tests, and clients of them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from links import PATIENCE, SocketClient
from processes import StartHost

MS = 1_000_000


@pytest.fixture
def start_host(tmp_path: Path) -> Iterator[StartHost]:
    """Starts hosts with options.  Stops them after the test, and checks that they end without an error."""
    running: list[tuple[subprocess.Popen[bytes], Path, Path]] = []

    def start(*options: str, program: Sequence[str] = ("-m", "pycontrol.cli", "emulate")) -> Path:
        path = tmp_path / f"host{len(running)}.sock"
        log = tmp_path / f"host{len(running)}.log"
        reader, writer = os.pipe()
        command = [sys.executable, *program, f"--socket={path}", f"--ready-fd={writer}", *options]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, pass_fds=[writer])
        os.close(writer)
        ready = select.select([reader], [], [], PATIENCE)[0] and os.read(reader, 16)
        os.close(reader)
        running.append((process, log, path))
        assert ready, log.read_text()
        return path

    yield start
    for process, log, path in running:
        process.terminate()
        assert process.wait(PATIENCE) == 0, log.read_text()
        assert "dropped client" not in log.read_text()
        assert not path.exists()


@pytest.fixture
def host(start_host: StartHost) -> Path:
    """A host with one virtual GPU under `segment`, without costs."""
    return start_host()


@pytest.fixture
def connect(host: Path) -> Iterator[Callable[[], SocketClient]]:
    """Makes clients of the host."""
    made: list[SocketClient] = []

    def one() -> SocketClient:
        made.append(SocketClient(host))
        return made[-1]

    yield one
    for client in made:
        client.close()

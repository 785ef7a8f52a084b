"""Hosts for tests, and clients of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from links import PATIENCE, SocketClient
from processes import EMULATE, StartHost, started

MS = 1_000_000


@pytest.fixture
def start_host(tmp_path: Path) -> Iterator[StartHost]:
    """Starts hosts with options.  Stops them after the test, and checks that they end without an error."""
    running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(*options: str, program: Sequence[str] = EMULATE, policy: str | None = "segment") -> Path:
        path = tmp_path / f"host{len(running)}.sock"
        running.append((started(path, *options, program=program, policy=policy), path))
        return path

    yield start
    for process, path in running:
        process.terminate()
        log = path.with_suffix(".log")
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

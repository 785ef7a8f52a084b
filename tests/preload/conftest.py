# SPDX-License-Identifier: GPL-2.0
"""The preload library over fake drivers: a fake GPU, a host with agents, and programs that carry out commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machines import ADDRESSES, FakeGpu, Patched, Program, Served, Start, build
from once import once

from pycontrol.link.control import Control
from pycontrol.link.control import connect as control


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the libraries, the fakes and the program."""
    return once(tmp_path_factory, "preload", build)


@pytest.fixture
def make_gpu(tmp_path: Path) -> Iterator[Callable[[int], FakeGpu]]:
    """Makes fake GPUs."""
    made: list[FakeGpu] = []

    def make(gpus: int = 1) -> FakeGpu:
        made.append(FakeGpu(tmp_path / f"gpu{len(made)}.sock", gpus))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def gpu(make_gpu: Callable[[int], FakeGpu]) -> FakeGpu:
    """One machine with two fake GPUs."""
    return make_gpu(2)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts hosts with agents.  Stops them after the test, and checks that they end without an error."""
    running: list[Served] = []

    def start(*options: str) -> Served:
        running.append(Served(tmp_path / f"host{len(running)}.sock", *options))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A host with agents for two GPUs.  An agent is late after a minute, because machines can be slow."""
    return serve("--gpus=2", "--bound=answer=60s")


@pytest.fixture
def hasty(serve: Callable[..., Served]) -> Served:
    """The same for tests that wait until an agent is late."""
    return serve("--gpus=2", "--bound=answer=1s")


@pytest.fixture
def host(served: Served) -> Path:
    """The socket of the host."""
    return served.path


@pytest.fixture
def plane(host: Path) -> Iterator[Control]:
    """The host's control plane."""
    with control(str(host)) as made:
        yield made


@pytest.fixture
def patched(request: pytest.FixtureRequest, gpu: FakeGpu, tmp_path: Path) -> Iterator[Path]:
    """The socket of a host whose driver is patched: that of the test's family, or NVIDIA's."""
    family = request.getfixturevalue("family") if "family" in request.fixturenames else "nvidia"
    served = Patched(tmp_path / "patched.sock", str(gpu.path), ADDRESSES[family])
    yield served.path
    served.stop()


@pytest.fixture
def start(built: Path, gpu: FakeGpu, host: Path) -> Iterator[Start]:
    """Starts programs.  Arguments: how they find the driver API, the driver family, the host, more environment."""
    made: list[Program] = []

    def one(how: str = "proc", family: str = "nvidia", at: Path = host, **extra: str) -> Program:
        made.append(Program(built, gpu, at, how, family, extra))
        made[-1].do("all" if family == "hip" else "context 0 0")  # the process has a queue or a group from now on
        return made[-1]

    yield one
    for program in made:
        program.kill()


@pytest.fixture
def depth(plane: Control) -> Callable[..., int]:
    """The number of open segments of a program on a GPU."""

    def of(program: Program, gpu: int = 0) -> int:
        program.heard()
        return sum(one.depth for one in plane.clients() if one.pid == program.pid and one.gpu == gpu)

    return of

# SPDX-License-Identifier: GPL-2.0
"""Unmodified programs under the preload library, over fake drivers, with the kernel module as their host."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from links import eventually
from loading import BROUGHT, DEVICE, load, unload
from machines import LONG, FakeGpu, Program, build

from gpurt.enums import Tier
from pycontrol.link.control import Control, connect

SHORT = "launch 0 20000"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, the fakes and the program."""
    if BROUGHT:
        return BROUGHT / "preload"
    return build(tmp_path_factory.mktemp("preload"))


@pytest.fixture
def plane() -> Iterator[Control]:
    """The module with one GPU that agents switch; they have time, for this machine is slow."""
    load("agent_gpus=1", "vgpus=0", "agent_bound_ms=20000")
    with connect(str(DEVICE)) as control:
        yield control
    unload()
    load()


@pytest.fixture
def start(plane: Control, built: Path, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts programs on a fake GPU."""
    gpu = FakeGpu(tmp_path / "gpu.sock", 1)
    made: list[Program] = []

    def one(how: str = "proc", **extra: str) -> Program:
        made.append(Program(built, gpu, DEVICE, how, "nvidia", extra))
        made[-1].do("context 0 0")
        return made[-1]

    yield one
    for program in made:
        program.kill()
    gpu.close()
    eventually(lambda: not plane.clients())


def test_real_time_work_comes_first(start: Callable[..., Program], plane: Control) -> None:
    background, urgent = start(), start()
    plane.set_priority(urgent.pid, 50)
    background.do(LONG)
    urgent.do(SHORT, "all", SHORT, "all")
    assert background.pid not in background.gpu.order()
    background.gpu.finish(background.pid)
    background.do("all")
    assert background.gpu.order() == [urgent.pid] * 2 + [background.pid]
    status = plane.status()[0]
    assert (status.tier, status.late, status.faults) == (Tier.UNPATCHED, 0, 0)


def test_groups_made_while_an_update_waits_for_their_process(start: Callable[..., Program], plane: Control) -> None:
    """To tell the module of a group takes its gate, which may be held by an update that needs this process's answer."""
    background, urgent = start(), start()
    plane.set_priority(urgent.pid, 50)
    background.do(LONG)
    for index in range(1, 6):
        urgent.send(SHORT, "all")
        background.do(f"context {index} 0")
        assert [urgent.answer(), urgent.answer()] == ["ok", "ok"]
    assert plane.status()[0].late == 0
    assert background.pid not in background.gpu.order()


def test_a_killed_owner_and_a_killed_loser(start: Callable[..., Program], plane: Control) -> None:
    background, low, urgent = start(), start(), start()
    plane.set_priority(low.pid, 10)
    plane.set_priority(urgent.pid, 50)
    background.do(SHORT)
    low.do(LONG)
    urgent.do(LONG)
    os.kill(low.pid, signal.SIGKILL)
    os.kill(urgent.pid, signal.SIGKILL)
    background.do("all")
    assert background.gpu.order() == [background.pid]

# SPDX-License-Identifier: GPL-2.0
"""Work that newer drivers let a program give to the GPU in other ways: it is switched, or the host hears of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from links import eventually
from machines import LONG, FakeGpu, Patched, Program, Served, Start, real_time

from gpurt.enums import Tier
from pycontrol.live.control import Control, connect

SHORT = "launch 0 20000"
ONE, OTHER = {"id": 4711}, {"id": 4712}


def on(gpu: FakeGpu, program: Program) -> list[bool]:
    return [queue["enabled"] for queue in gpu.groups(program.pid)]


@pytest.mark.parametrize("apart", [1, 0], ids=["a descriptor of its own", "the one that has queues"])
def test_contexts_of_kfd_have_queues_of_their_own(apart: int, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """Linux 7.0 and later: a second context counts its queues from 0, too."""
    gpu.machine(ONE, OTHER, release=(7, 2))
    background, urgent = start(family="hip"), real_time(plane, start(family="hip"))
    background.do(LONG, f"own-context {apart}", LONG)
    assert on(gpu, background) == [True, True]
    urgent.do(LONG)
    eventually(lambda: on(gpu, background) == [False, False])
    background.do("own-queue 100")  # made while the process is off, in the second context
    assert on(gpu, background) == [False] * 3
    gpu.finish(urgent.pid)
    urgent.do("all")
    eventually(lambda: on(gpu, background) == [True] * 3)
    background.do("own-destroy 0")
    assert on(gpu, background) == [True] * 2
    background.do("own-reopen 0")  # closes the second context's descriptor, and with it that context
    eventually(lambda: on(gpu, background) == [True])
    urgent.do(LONG)
    eventually(lambda: on(gpu, background) == [False])
    assert "0 refused by the driver" in urgent_ends(background, urgent)


def urgent_ends(background: Program, urgent: Program) -> str:
    urgent.kill()
    background.gpu.finish(background.pid)
    return background.quit()


def test_user_queues_of_the_graphics_driver_are_tier_0(
    start: Callable[..., Program], hasty: Served, gpu: FakeGpu
) -> None:
    """Nothing stops them, so the process is late while another one owns the GPU, and everyone is told."""
    background = start(family="hip", at=hasty.path)
    with connect(str(hasty.path)) as plane:
        assert plane.status()[0].tier is Tier.UNPATCHED
        background.do("own-userq 100")
        assert "amdgpu-userq: tier T0: user queues of /dev/dri" in background.said()
        assert (plane.status()[0].tier, plane.status()[0].driver) == (Tier.HINTS, "amdgpu-userq")
        urgent = real_time(plane, start(family="hip", at=hasty.path))
        urgent.do(LONG)
        eventually(lambda: plane.status()[0].late == 1)
        gpu.finish(urgent.pid)
        urgent.do("all")
        background.do("own-userq 0")
        eventually(lambda: plane.status()[0].tier is Tier.UNPATCHED)
        urgent.do(SHORT, "all")
        eventually(lambda: plane.status()[0].late == 0)


def test_a_patched_driver_does_not_switch_user_queues_either(
    start: Callable[..., Program], gpu: FakeGpu, tmp_path: Path
) -> None:
    served = Patched(tmp_path / "patched.sock", str(gpu.path), "0000:03:00.0@0")
    program = start(family="hip", at=served.path)
    program.do("own-userq 100")
    assert "amdgpu-userq: tier T0: user queues of /dev/dri" in program.said()
    program.kill()
    served.stop()

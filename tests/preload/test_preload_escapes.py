# SPDX-License-Identifier: GPL-2.0
"""Work that newer drivers let a program give to the GPU in other ways: it is switched, or the host hears of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from links import eventually, listening
from machines import LONG, FakeGpu, Patched, Program, Served, Start, real_time

from gpurt.enums import Tier
from pycontrol.link.control import Control, connect

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


@pytest.mark.parametrize(
    ("made", "gone"), [("own-userq 100", "own-userq 0"), ("own-card-userq 100", "own-card-userq -1")],
    ids=["freed", "closed, of a card's node"],
)  # fmt: skip
def test_user_queues_of_the_graphics_driver_are_tier_0(
    made: str, gone: str, start: Callable[..., Program], hasty: Served, gpu: FakeGpu
) -> None:
    """Nothing stops them, so the process is late while another one owns the GPU, and everyone is told."""
    background = start(family="hip", at=hasty.path)
    with connect(str(hasty.path)) as plane:
        assert plane.status()[0].tier is Tier.UNPATCHED
        background.do(made)
        assert "amdgpu-userq: tier T0: user queues of /dev/dri" in background.said()
        assert (plane.status()[0].tier, plane.status()[0].driver) == (Tier.HINTS, "amdgpu-userq")
        urgent = real_time(plane, start(family="hip", at=hasty.path))
        urgent.do(LONG)
        eventually(lambda: plane.status()[0].late == 1)
        gpu.finish(urgent.pid)
        urgent.do("all")
        background.do(gone)
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


@pytest.fixture
def mps(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables that a client of MPS has in its environment, while the control daemon runs."""
    with listening(tmp_path / "pipes/control"):
        yield {"FAKE_MPS": "1", "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "pipes")}


def test_a_client_of_mps_is_tier_0_and_begins_no_segment(
    start: Callable[..., Program], served: Served, make_gpu: Callable[[int], FakeGpu], built: Path, mps: dict[str, str]
) -> None:
    """Its work is on the server's channels, which are off while it has the GPU alone: it would wait for ever."""
    program = Program(built, make_gpu(1), served.path, "proc", "nvidia", dict(mps))
    program.do("context 0 0", SHORT)
    assert "nvidia-mps: tier T0: a client of MPS: its work is on channels of the MPS server" in program.said()
    with connect(str(served.path)) as plane:
        assert [(one.pid, one.depth) for one in plane.clients()] == [(program.pid, 0)]
        assert (plane.status()[0].tier, plane.status()[0].driver) == (Tier.HINTS, "nvidia-mps")
    program.do("all")


def test_a_client_of_mps_under_a_patched_driver(
    start: Callable[..., Program], gpu: FakeGpu, tmp_path: Path, mps: dict[str, str]
) -> None:
    """The driver switches the server, with all its clients."""
    served = Patched(tmp_path / "patched.sock", str(gpu.path), "0000:05:00.0@1,0000:04:00.0@0")
    program = start(at=served.path, **mps)
    program.do(LONG)
    with connect(str(served.path)) as plane:
        assert [one.depth for one in plane.clients() if one.pid == program.pid] == [0]
    said = "GPU 1, nvidia-mps: tier T2: its driver switches this process; but tier T0: a client of MPS"
    assert said in program.said()
    program.kill()
    served.stop()


@pytest.mark.parametrize("what", ["nothing", "a file", "a socket that nobody has", "a process with its own channels"])
def test_what_is_no_client_of_mps(what: str, start: Start, depth: Callable[..., int], tmp_path: Path) -> None:
    """Anyone can put a file or a socket there, for everybody's programs."""
    control = tmp_path / "control"
    if what == "a file":
        control.touch()
    if "process" in what or "socket" in what:
        daemon = listening(control)
    if "nobody" in what:
        daemon.close()
    program = start(CUDA_MPS_PIPE_DIRECTORY=str(tmp_path), **({"FAKE_MPS": "1"} if "nobody" in what else {}))
    program.do("launch 0 200000")
    assert depth(program) == (what != "a socket that nobody has")
    assert "nvidia-mps" not in program.said()

# SPDX-License-Identifier: GPL-2.0
"""The host's GPU that a program's work is on: its address decides, whatever the program calls the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machines import LONG, FakeGpu, Patched, Program, Start

from pycontrol.link.control import connect

Depths = Callable[[Program], dict[int, int]]
#: The host's numbers, which follow addresses, are not those of the drivers here.
TURNED = {"hip": "0000:03:00.0@1,0000:04:00.0@0", "nvidia": "0000:04:00.0@1,0000:05:00.0@0"}
BOTH = {
    "hip": ("use 0", "all", "use 1", "all"), "nvidia": ("context 0 0", "context 1 1"),
}  # fmt: skip


@pytest.fixture
def host(request: pytest.FixtureRequest, gpu: FakeGpu, tmp_path: Path) -> Iterator[Path]:
    """A host of patched drivers; the test's parameter `devices` says where its GPUs are."""
    if "devices" not in request.fixturenames:
        yield request.getfixturevalue("served").path
        return
    served = Patched(tmp_path / "patched.sock", str(gpu.path), request.getfixturevalue("devices"))
    yield served.path
    served.stop()


@pytest.fixture
def depths(host: Path) -> Depths:
    """The GPUs on which a program is in a segment, by the host's numbers, and how deep."""

    def of(program: Program) -> dict[int, int]:
        program.heard()
        with connect(str(host)) as plane:
            return {one.gpu: one.depth for one in plane.clients() if one.pid == program.pid and one.depth}

    return of


def turn(gpu: FakeGpu) -> None:
    """KFD's first GPU has the higher address."""
    gpu.machine({"id": 4711, "location": 0x400}, {"id": 4712, "location": 0x300})


@pytest.mark.parametrize("devices", [TURNED["hip"]])
@pytest.mark.parametrize("visible", [{}, {"HIP_VISIBLE_DEVICES": "1,0"}, {"ROCR_VISIBLE_DEVICES": "1,0"},
                                     {"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1,0"},
                                     {"ROCR_VISIBLE_DEVICES": "1"}], ids=str)  # fmt: skip
def test_hip_on_a_patched_driver(
    devices: str, visible: dict[str, str], gpu: FakeGpu, start: Start, depths: Depths
) -> None:
    turn(gpu)
    program = start(family="hip", **visible)
    only = visible == {"ROCR_VISIBLE_DEVICES": "1"}
    program.do(*BOTH["hip"][: 2 if only else 4], "use 0", LONG)
    first = len(visible) % 2 * 1  # which of KFD's GPUs the program calls device 0
    assert depths(program) == {1 - first: 1}
    gpu.finish(program.pid)
    program.do("all")
    if not only:
        program.do("use 1", LONG)
        assert depths(program) == {first: 1}


@pytest.mark.parametrize("devices", [TURNED["nvidia"]])
@pytest.mark.parametrize("visible", ["0,1", "1,0", "1"])
def test_cuda_on_a_patched_driver(devices: str, visible: str, gpu: FakeGpu, start: Start, depths: Depths) -> None:
    program = start(CUDA_VISIBLE_DEVICES=visible)
    program.do(*BOTH["nvidia"][: 1 + visible.count(",")], "use 0", LONG)
    first = int(visible[0])
    assert depths(program) == {first: 1}
    gpu.finish(program.pid)
    program.do("all")
    if "," in visible:
        program.do("use 1", LONG)
        assert depths(program) == {1 - first: 1}


@pytest.mark.parametrize(("family", "variable"), [("hip", "HIP_VISIBLE_DEVICES"), ("nvidia", "CUDA_VISIBLE_DEVICES")])
def test_agents_know_devices_by_address_too(
    family: str, variable: str, gpu: FakeGpu, start: Start, depths: Depths
) -> None:
    program = start(family=family, **{variable: "1,0"})
    program.do(*BOTH[family], "use 0", LONG)
    assert depths(program) == {1: 1}


@pytest.mark.parametrize("devices", ["0000:03:00.0@1,0000:0a:00.0@0"])
def test_a_gpu_that_the_host_does_not_have_is_not_managed(
    devices: str, gpu: FakeGpu, start: Start, depths: Depths
) -> None:
    """Here the first of KFD's GPUs, at 0000:04:00.0: its driver is not the one that is patched."""
    turn(gpu)
    program = start(family="hip")
    program.do("use 0", LONG)
    assert depths(program) == {}
    assert "kfd-queue: the host has no GPU at 0000:04:00.0: its work is not managed" in program.said()
    gpu.finish(program.pid)
    program.do("all", "use 1", "all", LONG)
    assert depths(program) == {0: 1}


@pytest.mark.parametrize("devices", [TURNED["nvidia"]])
def test_without_addresses_no_work_is_on_a_gpu_that_was_guessed(
    devices: str, gpu: FakeGpu, start: Start, depths: Depths
) -> None:
    program = start(FAKE_NO_ADDRESS="1")
    program.do(*BOTH["nvidia"], LONG, LONG)
    assert depths(program) == {}
    told = "device 1 is none of this process's GPUs that the host has: its work is best effort"
    assert program.said().count(told) == 1
    gpu.refuse("attached", 10**9, 0x56)
    other = start()
    other.do(LONG)
    assert depths(other) == {}
    assert "nvidia-rm: the address of a GPU cannot be found out: its work is not managed" in other.said()


@pytest.mark.parametrize("devices", ["0000:c1:00.0/0@0,0000:c1:00.0/1@1"])
@pytest.mark.parametrize("old", [{}, {"FAKE_FUNCTION_0": "1"}], ids=["ROCm 7", "ROCm 6"])
def test_partitions_of_one_gpu(devices: str, old: dict[str, str], gpu: FakeGpu, start: Start, depths: Depths) -> None:
    """ROCm before 7 gives all partitions the same address.  Then the one that a program uses is known, and no other."""
    gpu.machine({"id": 4711, "location": 0xC100}, {"id": 4712, "location": 0xC101})
    single = start(family="hip", HIP_VISIBLE_DEVICES="1", **old)
    single.do(LONG)
    assert depths(single) == {1: 1}
    single.kill()
    program = start(family="hip", **old)
    program.do(*BOTH["hip"], "use 1", LONG)
    assert depths(program) == ({} if old else {1: 1})


MANY = 18


@pytest.mark.parametrize("devices", [",".join(f"0000:{at + 5:02x}:00.0@{at + 2}" for at in range(16))])
def test_more_gpus_than_a_host_can_have(
    devices: str, make_gpu: Callable[[int], FakeGpu], built: Path, host: Path, depths: Depths
) -> None:
    """The host has 16 of 18.  To the others' programs it says that they are not among those."""
    machine = make_gpu(MANY)
    machine.machine(*({"id": 4711 + number, "location": (3 + number) << 8} for number in range(MANY)))
    visible = {"ROCR_VISIBLE_DEVICES": "7"}
    lucky = Program(built, machine, host, "proc", "hip", visible)
    lucky.do("all", LONG)
    assert depths(lucky) == {5: 1}
    late = Program(built, machine, host, "proc", "hip", {"ROCR_VISIBLE_DEVICES": "0"})
    late.do("all", LONG)
    assert depths(late) == {}
    assert "the host has no GPU at 0000:03:00.0: its work is not managed" in late.said()
    lucky.kill()
    late.kill()

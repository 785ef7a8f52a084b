# SPDX-License-Identifier: GPL-2.0
"""NVIDIA's GPU instances (MIG) are GPUs of their own, with the same numbers in every process and container."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from links import eventually
from machines import LONG, FakeGpu, Served, Start, real_time

from gpurt._gpurt import lib
from pycontrol.link.control import Control, connect
from pycontrol.observe.doctor import Status, examine

SHORT = "launch 0 20000"
INSTANCES = range(lib.GPURT_MIG_INSTANCES)
MOST = int(lib.GPURT_MAX_GPUS)


def together(one: int, other: int) -> bool:
    """Whether a GPU can have both instances at a time: ids are those of a heap, and none contains another."""
    low, high = sorted((one, other))
    while high > low:
        high = (high - 1) // 2
    return high != low


@pytest.mark.parametrize("gpus", range(1, MOST + 1))
def test_numbers(gpus: int) -> None:
    """No number belongs to two GPUs, and one GPU's instances have as many as there is room for."""
    parts = itertools.product(range(gpus), INSTANCES)
    numbers = {(device, instance): lib.gpurt_mig_number(device, instance, gpus) for device, instance in parts}
    assert set(numbers.values()) <= set(range(MOST))
    assert all(numbers[device, 0] == device for device in range(gpus))  # as the whole GPU
    for (one, first), (other, second) in itertools.combinations(numbers, 2):
        if one != other:
            assert numbers[one, first] != numbers[other, second]
        elif together(first, second) and gpus <= 2:
            assert numbers[one, first] != numbers[one, second]
    for level in (range(1, 3), range(3, 7), range(7, 15)):  # halves, quarters, eighths
        assert len({numbers[0, one] for one in level}) == min(len(level), MOST // gpus)


@pytest.mark.parametrize(
    ("device", "instance", "gpus"), [(0, 15, 1), (0, 2**32 - 2, 1), (1, 7, 1), (0, 7, 17), (0, 7, 0)]
)
def test_what_has_no_number(device: int, instance: int, gpus: int) -> None:
    assert lib.gpurt_mig_number(device, instance, gpus) == MOST


def test_instances_do_not_wait_for_each_other(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The two GPUs of the machine have engines 0 and 1; those of instances follow."""
    for instance in (7, 11):
        gpu.ask("divide", gpu=0, instance=instance, computes=1)
    other = start(FAKE_MIG="0.11.0")
    background, urgent = start(FAKE_MIG="0.7.0"), start(FAKE_MIG="0.7.0")
    other.do(LONG)
    background.do(LONG)
    real_time(plane, urgent).do(SHORT, "all")
    assert gpu.order(2) == [urgent.pid]
    assert [group["turns"] for group in gpu.groups(other.pid)] == [0]
    assert gpu.groups(background.pid)[0]["turns"] >= 1
    assert (plane.status()[0].driver, plane.status()[0].late, plane.status()[0].faults) == ("nvidia-rm/gi7", 0, 0)


def numbered(text: str) -> str:
    """The number and the driver that a process tells of the GPU that it is on."""
    return next(line for line in text.splitlines() if "tier T1" in line).removeprefix("gpurt: ").partition(":")[0]


def test_every_instance_of_two_gpus_has_a_number(start: Start, serve: Callable[..., Served], gpu: FakeGpu) -> None:
    host = serve("--gpus=16").path
    gpu.ask("divide", gpu=0, instance=2, computes=1)
    gpu.ask("divide", gpu=1, instance=13, computes=1)
    one, other = start(at=host, FAKE_MIG="0.2"), start(at=host, FAKE_MIG="1.13")
    assert numbered(one.said()) == "GPU 8, nvidia-rm/gi2"  # 0 + 2 * 4
    assert numbered(other.said()) == "GPU 13, nvidia-rm/gi13"  # 1 + 2 * 6
    with connect(str(host)) as control:
        assert {(client.pid, client.gpu) for client in control.clients()} == {(one.pid, 8), (other.pid, 13)}


def test_compute_instances_of_one_instance_are_one_gpu(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """They share its memory and copy engines."""
    gpu.ask("divide", gpu=0, instance=1, computes=2)
    background, urgent = start(FAKE_MIG="0.1.0"), start(FAKE_MIG="0.1.1")
    background.do(LONG)
    real_time(plane, urgent).do(LONG)
    eventually(lambda: not gpu.enabled(background.pid))
    gpu.finish(urgent.pid)
    urgent.do("all")
    eventually(lambda: gpu.enabled(background.pid))


@pytest.mark.parametrize("which", [0, 1])
def test_a_device_that_leaves_its_instance(which: int, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The driver frees its groups, which no call of the program shows."""
    gpu.ask("divide", gpu=0, instance=7, computes=1)
    background, urgent = start(FAKE_MIG="0.7.0"), start(FAKE_MIG="0.7.0")
    background.do(f"own-leave {which}")
    assert gpu.groups(background.pid) == []
    real_time(plane, urgent).do(SHORT, "all")
    assert "refused" not in background.said()
    assert (plane.status()[0].late, plane.status()[0].faults) == (0, 0)


def test_a_number_that_the_host_does_not_have(start: Start, plane: Control, gpu: FakeGpu) -> None:
    gpu.ask("divide", gpu=0, instance=14, computes=1)
    program = start(FAKE_MIG="0.14")
    program.do(SHORT, "all")
    assert "GPU 14: no host serves it; this process runs unmanaged" in program.said()
    assert plane.status()[0].client_count + plane.status()[1].client_count == len(plane.clients()) == 0


@pytest.mark.parametrize("empty", [False, True])
def test_a_process_that_cannot_count_the_gpus(empty: bool, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """It must not guess a number, because other processes on its instance have the right one."""
    gpu.ask("divide", gpu=0, instance=7, computes=1)
    shutil.rmtree(gpu.path.with_suffix(".sys") / "bus")
    if empty:
        (gpu.path.with_suffix(".sys") / "bus/pci/devices").mkdir(parents=True)
    program = start(FAKE_MIG="0.7.0")
    program.do(SHORT, "all")
    why = "this process sees no GPU in /sys/bus/pci/devices"
    assert f"GPU instance 7 of device 0 has no number ({why})" in program.said()
    assert plane.clients() == []


@pytest.mark.parametrize("instance", ["", "0.8", "0.7.1", "1.7"])
def test_what_the_driver_refuses(instance: str, start: Start, gpu: FakeGpu) -> None:
    """No instance, one that is not there, one of another GPU: the fake is as strict as the driver."""
    gpu.ask("divide", gpu=0, instance=7, computes=1)
    with pytest.raises(AssertionError):
        start(FAKE_MIG=instance)
    assert gpu.ask()["groups"] == []


def test_gpus_are_counted_or_it_is_said_that_they_cannot_be(tmp_path: Path) -> None:
    """One that cannot be read is not taken for none."""

    def counted() -> int:
        return int(lib.gpurt_mig_gpus(str(tmp_path / "devices").encode()))

    def device(name: str, vendor: str, kind: str) -> Path:
        folder = tmp_path / "devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(vendor)
        (folder / "class").write_text(kind)
        return folder

    assert counted() == 0
    (tmp_path / "devices").mkdir()
    assert counted() == 0  # hidden: an instance is on a GPU, and that is on PCI
    device("6", "0x8086\n", "0x030000\n")
    assert counted() == 0
    device("7", "0x10de\n", "0x060400\n")
    assert counted() == 1
    device("0", "0x10de\n", "0x030000\n")
    first = device("1", "0x10de\n", "0x030200\n")
    device("2", "0x10de\n", "0x040300\n")
    device("3", "0x1002\n", "0x030000\n")
    (device("4", "0x10de\n", "0x030200\n") / "physfn").symlink_to(first)
    (tmp_path / "devices/5").mkdir()  # it has just been unplugged
    assert counted() == 2
    (tmp_path / "devices/5/vendor").write_text("")
    assert counted() == 0


def test_doctor_names_the_numbers(tmp_path: Path) -> None:
    def found() -> list[tuple[Status, str, str | None]]:
        findings = examine(str(tmp_path / "none"), tmp_path)
        return [(one.status, one.text, one.cure) for one in findings if one.name == "MIG"]

    assert found() == []
    for name in ("gpu0/mig/gi9", "gpu0/mig/gi2", "gpu1/mig"):
        (tmp_path / "proc/driver/nvidia/capabilities" / name).mkdir(parents=True)
    for number in range(2):
        folder = tmp_path / f"sys/bus/pci/devices/{number}"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
    ((status, text, cure),) = found()
    assert status is Status.WARN
    assert "GPU instance 2 of nvidia0 is GPU 8, GPU instance 9 of nvidia0 is GPU 4" in text
    assert cure
    assert "--gpus 9" in cure
    assert "share" not in text


def test_doctor_names_instances_that_share_a_number(tmp_path: Path) -> None:
    for name in ("gpu0/mig/gi9", "gpu0/mig/gi10", "gpu2/mig/gi0"):
        (tmp_path / "proc/driver/nvidia/capabilities" / name).mkdir(parents=True)

    def found() -> tuple[str, str | None]:
        ((text, cure),) = [(f.text, f.cure) for f in examine(str(tmp_path / "none"), tmp_path) if f.name == "MIG"]
        return text, cure

    assert found()[0].startswith("/sys/bus/pci/devices shows no NVIDIA GPU")
    for number in range(3):
        folder = tmp_path / f"sys/bus/pci/devices/{number}"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
    text, cure = found()
    assert "GPU instance 9 of nvidia0 is GPU 3, GPU instance 10 of nvidia0 is GPU 3" in text
    assert cure
    assert "GPU 3 is shared: analyse the tasks of its instances together" in cure

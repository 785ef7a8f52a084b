# SPDX-License-Identifier: GPL-2.0
"""AMD's driver: which GPU a device is, compute units, and what a queue keeps through off and on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from links import eventually
from machines import LONG, FakeGpu, Program, Start, real_time

from gpurt.enums import Tier
from pycontrol.link.control import Control

Depth = Callable[..., int]
SHORT = "launch 0 20000"
ONE, OTHER = {"id": 4711}, {"id": 4712}
EFAULT, EBUSY, EIO, ETIME = 14, 16, 5, 62


def taken_off(gpu: FakeGpu, plane: Control, background: Program, start: Start) -> Program:
    """Has another process own the GPU; returns it when the background process is off."""
    urgent = real_time(plane, start(family="hip"))
    urgent.do(LONG)
    eventually(lambda: not any(queue["enabled"] for queue in gpu.groups(background.pid)))
    return urgent


def put_back(gpu: FakeGpu, urgent: Program, background: Program) -> None:
    """Ends the owner's segment, and waits until the background process is on again."""
    gpu.finish(urgent.pid)
    urgent.do("all")
    eventually(lambda: any(queue["enabled"] for queue in gpu.groups(background.pid)))


# Which GPU


@pytest.mark.parametrize(("visible", "number"), [("0", 0), ("1", 1)])
def test_a_process_that_sees_one_gpu(visible: str, number: int, start: Start, depth: Depth) -> None:
    program = start(family="hip", HIP_VISIBLE_DEVICES=visible)
    program.do("launch 0 100000")
    assert (depth(program, number), depth(program, 1 - number)) == (1, 0)
    program.do("all")
    assert depth(program, number) == 0


def test_a_gpu_has_the_same_number_in_every_container(start: Start, depth: Depth, gpu: FakeGpu) -> None:
    """A container may not read the ids of GPUs that it may not use."""
    gpu.machine(ONE | {"hidden": True}, OTHER)
    program = start(family="hip")
    program.do("launch 0 100000")
    assert (depth(program, 0), depth(program, 1)) == (0, 1)


def test_an_apu_is_the_first_node_of_all(start: Start, depth: Depth, gpu: FakeGpu) -> None:
    gpu.machine(ONE | {"apu": True}, OTHER)
    program = start(family="hip")
    program.do("launch 0 100000")
    assert (depth(program, 0), depth(program, 1)) == (1, 0)


@pytest.mark.parametrize("launch", ["launch 0 100000", "call-hipLaunchKernel_spt"], ids=["default", "per-thread"])
def test_the_first_launch_on_a_device(launch: str, start: Start, depth: Depth) -> None:
    """HIP makes the device's queue only then, so nothing was known of that GPU before.  Captures are not disturbed."""
    program = start(family="hip")
    program.do("use 1", launch, "call-hipStreamEndCapture")
    assert (depth(program, 0), depth(program, 1)) == (0, 1)


# Compute units


@pytest.mark.parametrize(
    ("mask", "bytes_"), [("0xff", "ff"), ("800000000000001", "0100000000000008")], ids=["short", "long"]
)
def test_compute_units(mask: str, bytes_: str, start: Start, gpu: FakeGpu) -> None:
    program = start(family="hip", GPURT_CU_MASK=mask)
    program.do("own-queue 100", SHORT, "all")
    assert {queue["mask"].rstrip("0") for queue in gpu.groups(program.pid)} == {bytes_}
    assert not any(queue["bare"] for queue in gpu.groups(program.pid))


@pytest.mark.parametrize("mask", ["", "0x", "zz", "f" * 257])
def test_compute_units_that_are_none(mask: str, start: Start, gpu: FakeGpu) -> None:
    program = start(family="hip", GPURT_CU_MASK=mask)
    program.do(SHORT, "all")
    assert "not a hexadecimal mask" in program.said()


@pytest.mark.parametrize("mask", ["0", "1" + 15 * "0"])
def test_compute_units_that_the_gpu_does_not_have(mask: str, start: Start, gpu: FakeGpu) -> None:
    """The driver accepts such a mask, and the queue's work never ends."""
    program = start(family="hip", GPURT_CU_MASK=mask)
    program.do(SHORT, "all")
    assert "none of this GPU's compute units" in program.said()


@pytest.mark.parametrize("gfx", [100300, 110000, 120001])
def test_compute_units_go_in_pairs(gfx: int, start: Start, gpu: FakeGpu) -> None:
    gpu.machine(ONE | {"gfx": gfx}, OTHER)
    odd = start(family="hip", GPURT_CU_MASK="0x7")
    odd.do(SHORT, "all")
    assert "bits 2n and 2n+1 must be equal" in odd.said()
    even = start(family="hip", GPURT_CU_MASK="0xc")
    even.do(SHORT, "all")
    assert [queue["mask"].rstrip("0") for queue in gpu.groups(even.pid)] == ["0c"]


def test_a_mask_is_set_before_the_queue_is_active(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background = start(family="hip", GPURT_CU_MASK="0xf")
    urgent = taken_off(gpu, plane, background, start)
    background.do("own-queue 100")
    assert not any(queue["enabled"] for queue in gpu.groups(background.pid))
    put_back(gpu, urgent, background)
    eventually(lambda: gpu.enabled(background.pid))
    assert not any(queue["bare"] for queue in gpu.groups(background.pid))


def test_the_programs_own_mask_is_intersected(start: Start, gpu: FakeGpu) -> None:
    program = start(family="hip", GPURT_CU_MASK="0x3c0000003c")

    def masks() -> list[str]:
        return [queue["mask"].rstrip("0") for queue in gpu.groups(program.pid)]

    program.do("own-queue 100", "own-mask 0xf0")
    assert sorted(masks()) == ["300000003", "3c0000003c"]  # bytes 30 and 3c
    program.send("own-mask 0xf00")
    assert program.answer() == "error 999"
    assert "none of these compute units: refused" in program.said()
    assert sorted(masks()) == ["300000003", "3c0000003c"]


# Off and on


def test_what_a_queue_keeps(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """Bits 8 to 15 of a percentage are the XCC."""
    gpu.machine(ONE, OTHER, release=(6, 12))
    background = start(family="hip")
    background.do("own-queue 0x232")

    def own() -> tuple[int, int, int]:
        (queue,) = (one for one in gpu.groups(background.pid) if one["xcc"])
        return queue["xcc"], queue["percentage"], queue["priority"]

    urgent = taken_off(gpu, plane, background, start)
    assert own() == (2, 0, 7)
    put_back(gpu, urgent, background)
    eventually(lambda: own() == (2, 50, 7))


def test_what_the_program_changes_while_it_is_off(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background = start(family="hip")
    background.do("own-queue 100")
    urgent = taken_off(gpu, plane, background, start)
    turns = sum(queue["turns"] for queue in gpu.groups(background.pid))
    background.do("own-percentage 50")
    assert not any(queue["enabled"] for queue in gpu.groups(background.pid))
    assert sum(queue["turns"] for queue in gpu.groups(background.pid)) == turns  # it was never on in between
    put_back(gpu, urgent, background)
    eventually(lambda: sorted(queue["percentage"] for queue in gpu.groups(background.pid)) == [50, 100])
    background.send("own-percentage 101")
    assert background.answer() == "error 999"


@pytest.mark.parametrize("hws", [True, False], ids=["hws", "mes"])
@pytest.mark.parametrize("more", [0, 1, 4])
def test_an_order_costs_a_cycle_for_each_active_queue(
    more: int, hws: bool, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    """Each unmaps and maps all queues of all processes.  With MES none does."""
    gpu.machine(ONE | {"hws": hws}, OTHER)
    background, urgent = start(family="hip"), real_time(plane, start(family="hip"))
    background.do("own-queue 0", *["own-queue 100"] * more)
    before = gpu.ask()["cycles"][0]
    urgent.do(LONG)
    eventually(lambda: not any(queue["enabled"] for queue in gpu.groups(background.pid)))
    assert gpu.ask()["cycles"][0] - before == (1 + more if hws else 0)
    background.do("own-queue 100")  # is made inactive
    assert gpu.ask()["cycles"][0] - before == (1 + more if hws else 0)
    assert not any(queue["enabled"] for queue in gpu.groups(background.pid))
    put_back(gpu, urgent, background)
    eventually(lambda: sum(queue["enabled"] for queue in gpu.groups(background.pid)) == 2 + more)


@pytest.mark.parametrize("error", [ETIME, EIO])
def test_a_queue_that_is_gone_although_its_destruction_failed(
    error: int, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    background = start(family="hip")
    background.do("own-queue 100")
    gpu.refuse("preemption", 1, error)
    background.send("own-destroy 0")
    assert background.answer() == "error 999"
    taken_off(gpu, plane, background, start)
    assert "did not switch" not in background.said()


def test_a_queue_that_is_gone(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background = start(family="hip")
    background.do("own-queue 100", "own-destroy 0")

    def updates() -> int:
        made: int = gpu.ask()["calls"][str(background.pid)].count("update")
        return made

    before = updates()
    urgent = taken_off(gpu, plane, background, start)
    put_back(gpu, urgent, background)
    eventually(lambda: gpu.enabled(background.pid))
    assert updates() - before == 2  # off and on, of the queue that is left


def test_a_queue_whose_destruction_failed(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background = start(family="hip")
    background.do("own-queue 100")
    gpu.refuse("destroy", 1, EBUSY)
    background.send("own-destroy 0")
    assert background.answer() == "error 999"
    taken_off(gpu, plane, background, start)
    assert len(gpu.groups(background.pid)) == 2


def test_a_number_that_another_queue_had(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """A queue is destroyed, and before that call returns another thread's new queue gets its number."""
    background = start(family="hip")
    background.do("own-queue 100")
    gpu.ask("delay", name="destroy", ns=300_000_000)
    background.do("own-swap 0")
    taken_off(gpu, plane, background, start)
    assert len(gpu.groups(background.pid)) == 2


@pytest.mark.parametrize("limit", ["1024", "100"])
def test_queues_outlive_the_descriptor_that_made_them(limit: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The agent keeps a descriptor, with a high number if the process may have one."""
    background = start(family="hip", FAKE_LIMIT=limit)
    background.do("own-queue 100", "own-reopen 0")
    urgent = taken_off(gpu, plane, background, start)
    background.do("own-percentage 50", "own-queue 100")
    assert not any(queue["enabled"] for queue in gpu.groups(background.pid))
    put_back(gpu, urgent, background)
    eventually(lambda: gpu.enabled(background.pid))


# What cannot be done


@pytest.mark.parametrize(
    ("cwsr", "own", "why"),
    [(0, "all", "amdgpu.cwsr_enable=0"), (1, "own-bare-queue 100", "no memory to save its waves")],
)
def test_waves_that_are_not_saved(cwsr: int, own: str, why: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    gpu.machine(ONE, OTHER, cwsr=cwsr)
    program = start(family="hip")
    program.do(own)
    eventually(lambda: plane.status()[0].tier is Tier.HINTS)
    assert why in program.said()


def test_a_queue_that_the_driver_cannot_change(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """6.12 looks for the whole ring of an AQL queue of GFX8, of which only half is a mapping."""
    gpu.machine(ONE | {"gfx": 80003}, OTHER, release=(6, 12))
    background = start(family="hip", FAKE_GFX8="1")
    real_time(plane, start(family="hip", FAKE_GFX8="1")).send(LONG)
    eventually(lambda: "did not switch queue 0: Bad address" in background.said())
    assert gpu.enabled(background.pid)


def test_cycles_are_counted_as_the_driver_counts_them(start: Start, gpu: FakeGpu) -> None:
    """The fake's own count: the first active queue unmaps nothing, an inactive one changes nothing."""
    program = start(family="hip")
    assert gpu.ask()["cycles"][0] == 0
    program.do("own-queue 0")
    assert gpu.ask()["cycles"][0] == 0
    program.do("own-queue 100")
    assert gpu.ask()["cycles"][0] == 1

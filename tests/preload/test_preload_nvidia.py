# SPDX-License-Identifier: GPL-2.0
"""NVIDIA's driver: every way to take work off the GPU, as each release has it, also if the driver fails half-way."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from links import eventually
from machines import ALWAYS, LONG, FakeGpu, Program, Served, Start, never_known_to_be_off, real_time

from gpurt.enums import Tier
from pycontrol.link.control import Control, connect

SHORT = "launch 0 20000"
INVALID_CHANNEL, NOT_SUPPORTED, TIMEOUT = 0x21, 0x56, 0x65


def without_firmware(gpu: FakeGpu) -> None:
    """The driver runs the GPU itself: it has no FIFO_DISABLE_CHANNELS, and GPFIFO_SCHEDULE takes groups off."""
    gpu.refuse("disable", ALWAYS, NOT_SUPPORTED)


def calls(gpu: FakeGpu, program: Program) -> list[str]:
    """The calls of the driver through the program's descriptor."""
    return list(gpu.ask()["calls"].get(str(program.pid), []))


def wants_the_gpu(plane: Control, gpu: FakeGpu, background: Program, urgent: Program) -> None:
    """Makes the background process be off, with work of both under way."""
    background.do(LONG)
    real_time(plane, urgent).do(LONG)
    eventually(lambda: not gpu.enabled(background.pid))


@pytest.mark.parametrize(
    "version", ["535.54.03", "535.161.07", "550.54.14", "570.211.01", "575.51.02", "590.48.01", "595.45.04"]
)
@pytest.mark.parametrize("method", ["disable", "schedule"])
def test_every_release(version: str, method: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """GPFIFO_SCHEDULE has 2 bytes before 575.51.02 and 3 since, and the driver refuses all other sizes."""
    if method == "schedule":
        without_firmware(gpu)
    background = start(version=version)
    urgent = real_time(plane, start(version=version))
    background.do(LONG)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    gpu.finish(background.pid)
    background.do("all")
    assert {"disable": "disable 1", "schedule": "schedule 0"}[method] in calls(gpu, background)
    assert (plane.status()[0].faults, plane.status()[0].late) == (0, 0)


def test_calls_that_another_call_carries(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(FAKE_TRANSFER="1"), start(FAKE_TRANSFER="1")
    assert plane.status()[0].tsgs == len(gpu.groups(background.pid) + gpu.groups(urgent.pid)) == 2
    wants_the_gpu(plane, gpu, background, urgent)
    gpu.finish(urgent.pid)
    urgent.do("all")
    eventually(lambda: gpu.enabled(background.pid))


def test_a_second_handle_of_a_group(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """Channels below it are switched, too."""
    background, urgent = start(), start()
    background.do("own-duplicate 0")
    wants_the_gpu(plane, gpu, background, urgent)
    assert "not seen" not in background.said()
    gpu.finish(urgent.pid)
    urgent.do("all")
    eventually(lambda: gpu.enabled(background.pid))


def test_without_gsp_firmware(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The driver then does not support the default way, and groups are taken off the schedule."""
    without_firmware(gpu)
    background, urgent = start(), real_time(plane, start())
    background.do(LONG)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    assert {"schedule 0", "preempt"} <= set(calls(gpu, background))
    assert "the driver refused" not in background.said()


def test_a_second_step_that_fails(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The group has left the schedule, and the preemption failed: it must come back all the same."""
    without_firmware(gpu)
    background, urgent = start(), start()
    background.do(LONG)
    gpu.refuse("preempt", 2, TIMEOUT)
    real_time(plane, urgent).do(SHORT, "all")
    gpu.finish(background.pid)
    background.do("all")
    assert gpu.order() == [urgent.pid, background.pid]
    assert "TIMEOUT (0x65)" in background.said()


def test_a_second_step_that_always_fails(start: Start, hasty: Served, gpu: FakeGpu) -> None:
    """The urgent process goes away before the group was ever known to be off."""
    without_firmware(gpu)
    background, urgent = (start(at=hasty.path) for _ in range(2))
    never_known_to_be_off(hasty, gpu, background, urgent, TIMEOUT)


def test_a_second_step_that_fails_and_the_host_dies(start: Start, served: Served, plane: Control, gpu: FakeGpu) -> None:
    """Then nobody repeats an order, and the driver refuses to enable the group for a while, too."""
    without_firmware(gpu)
    background, urgent = start(), start()
    background.do(LONG)
    gpu.refuse("preempt", ALWAYS, TIMEOUT)
    real_time(plane, urgent).send(LONG)
    eventually(lambda: not gpu.enabled(background.pid))
    gpu.refuse("schedule", 5, TIMEOUT)
    served.process.kill()
    served.process.wait()
    eventually(lambda: gpu.enabled(background.pid))
    assert gpu.ask()["refuse"]["schedule"] == 0


def test_more_channels_than_a_call_takes(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(FAKE_CHANNELS="150"), real_time(plane, start())
    background.do(LONG)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    gpu.finish(background.pid)
    background.do("all")

    def each(way: str) -> list[str]:
        return [call for call in calls(gpu, background) if call.startswith(f"{way} ")]

    assert each("disable") == ["disable 64", "disable 64", "disable 22"]
    eventually(lambda: each("enable") == ["enable 64", "enable 64", "enable 22"])  # the work may end before the last


def test_a_channel_without_a_group(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(FAKE_BARE="1"), real_time(plane, start())
    background.do(LONG)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    gpu.finish(background.pid)
    background.do("all")


def test_a_channel_without_a_group_that_cannot_be_switched(start: Start, hasty: Served, gpu: FakeGpu) -> None:
    """Its process is late: isolation is not lost without a word."""
    gpu.refuse("disable", ALWAYS, NOT_SUPPORTED)
    is_late(start(at=hasty.path, FAKE_BARE="1"), start(at=hasty.path), hasty)


def is_late(background: Program, urgent: Program, host: Served) -> None:
    """The background process cannot be taken off the GPU, so the host takes it for late."""
    background.do(LONG)
    with connect(str(host.path)) as plane:
        real_time(plane, urgent).send(SHORT)
        eventually(lambda: plane.status()[0].late == 1)
    eventually(lambda: "a channel without a group cannot be taken off the GPU" in background.said())


def test_a_channel_whose_subdevice_comes_later(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """Nothing can switch it before."""
    background, urgent = start(FAKE_BARE="late"), start()
    background.do(LONG)
    real_time(plane, urgent).send(LONG)
    eventually(lambda: "without a group or a subdevice cannot be taken off" in background.said())
    assert gpu.enabled(background.pid)
    background.do("own-subdevice 0")
    eventually(lambda: not gpu.enabled(background.pid))


def test_what_the_program_makes_while_it_is_off(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """A context of its own, and its own call that would put it back."""
    background, urgent = start(), start()
    wants_the_gpu(plane, gpu, background, urgent)
    background.do("context 1 0", "own-schedule 1", "own-enable 0")
    assert not any(group["enabled"] for group in gpu.groups(background.pid))


@pytest.mark.parametrize(
    ("own", "version"),
    [("volta", "550.163.01"), ("start", "560.35.03")]
    + [(own, "595.45.04") for own in ("reset", "preemption-mode", "preempt")],
)
def test_calls_of_which_the_driver_enables_channels(
    own: str, version: str, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    """Older releases have GPFIFO_SCHEDULE once more for each class of channels, and START_SELECTED_CHANNELS."""
    background, urgent = start(version=version), start(version=version)
    wants_the_gpu(plane, gpu, background, urgent)
    background.do(f"own-{own} 0")
    assert not gpu.enabled(background.pid)


def test_a_channel_that_is_freed_brings_none_of_its_group_back(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(FAKE_CHANNELS="2"), start()
    wants_the_gpu(plane, gpu, background, urgent)
    background.do("own-free 1")
    assert not gpu.enabled(background.pid)


def test_what_the_program_has_started_comes_back(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """By START_SELECTED_CHANNELS, after it had taken its group off the schedule itself."""
    without_firmware(gpu)
    background = start(version="560.35.03")
    urgent = real_time(plane, start(version="560.35.03"))
    background.do("own-schedule 0", "own-start 0", LONG)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    eventually(lambda: gpu.enabled(background.pid))


def test_a_channel_without_a_group_that_the_method_cannot_switch(start: Start, hasty: Served) -> None:
    """Its process is late, for nothing has been done to it."""
    is_late(start(at=hasty.path, FAKE_BARE="1", GPURT_NVIDIA_METHOD="schedule"), start(at=hasty.path), hasty)


@pytest.mark.parametrize("call", [25, 26, 0])
def test_what_the_uvm_driver_enables(call: int, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """It enables all channels of an address space that is registered or ends."""
    background, urgent = start(), start()
    background.do("own-uvm 25")
    wants_the_gpu(plane, gpu, background, urgent)
    background.do(f"own-uvm {call}")
    assert not gpu.enabled(background.pid)


def test_a_group_that_the_driver_does_not_switch_at_first(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(), start()
    wants_the_gpu(plane, gpu, background, urgent)
    gpu.refuse("disable", 7, TIMEOUT)
    background.do("own-schedule 1")
    assert not gpu.enabled(background.pid)


def test_a_driver_that_never_switches_it(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The program goes on, the library says so, and the way back is open."""
    background, urgent = start(), start()
    wants_the_gpu(plane, gpu, background, urgent)
    gpu.refuse("disable", ALWAYS, TIMEOUT)
    background.do("own-schedule 1")
    assert "it may run beside the GPU's owner" in background.said()
    gpu.refuse("disable", 0, TIMEOUT)
    background.do("own-schedule 1")
    assert not gpu.enabled(background.pid)


@pytest.mark.parametrize(("method", "own"), [("disable", "own-disable 0"), ("schedule", "own-schedule 0")])
def test_what_the_program_has_disabled_stays(method: str, own: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    if method == "schedule":
        without_firmware(gpu)
    background, urgent = start(), start()
    background.do(own)
    real_time(plane, urgent).do(SHORT, "all", SHORT, "all")
    turned = calls(gpu, background)[-2:]
    assert not gpu.enabled(background.pid)
    assert not {"enable 1", "schedule 1"} & set(turned)


def test_to_schedule_stops_nothing_under_firmware(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """As an H200 with release 580.159.04 does (docs/hardware).  So the method is a hint, and the host is told so."""
    background, urgent = (start(GPURT_NVIDIA_METHOD="schedule") for _ in range(2))
    background.do(LONG)
    real_time(plane, urgent).do(SHORT)
    eventually(lambda: "schedule 0" in calls(gpu, background))
    assert gpu.enabled(background.pid)
    assert plane.status()[0].tier is Tier.HINTS
    assert "stops nothing" in background.said()


def test_all_groups_are_switched_by_one_call(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """CUDA makes a group for kernels and three for copies; each call to the firmware takes a tenth of a millisecond."""
    background, urgent = start(FAKE_GROUPS="4"), real_time(plane, start())
    background.do(LONG)
    urgent.do(SHORT, "all")
    gpu.finish(background.pid)
    background.do("all")
    eventually(lambda: "enable 4" in calls(gpu, background))
    assert [call for call in calls(gpu, background) if "able " in call] == ["disable 4", "enable 4"]


def test_a_group_that_is_refused_keeps_no_other_on(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The call for all fails, and then the first one by itself, once; the host orders again."""
    background, urgent = start(FAKE_GROUPS="4"), start()
    background.do(LONG)
    gpu.refuse("disable", 2, TIMEOUT)
    real_time(plane, urgent).do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    assert [call for call in calls(gpu, background) if "able " in call][:4] == ["disable 1"] * 4


def descriptor_table_of(pid: int) -> int:
    """So many descriptors have room in the process's table.  A child inherits the size, open descriptors or none."""
    (room,) = re.findall(r"FDSize:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(room)


#: One call is to switch several processes.
MANY = {"GPURT_NVIDIA_MANY": "1"}


@pytest.mark.parametrize(("asked", "stale"), [(MANY, False), (MANY, True), ({}, True)])
def test_the_owners_agent_takes_all_others_off_by_one_call(
    asked: dict[str, str], stale: bool, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    """If a handle is stale each of them takes itself off.  So it does where nobody has asked for that, and comes on."""
    others = [start(version="580.159.04", FAKE_GROUPS="2", **asked) for _ in range(4)]
    urgent = real_time(plane, start(version="580.159.04", **asked))
    for one in others:
        one.do(LONG)
    many = bool(asked)
    room, inherited = (descriptor_table_of(process) for process in (urgent.pid, os.getpid()))
    assert room > 512 if many else room <= inherited, "no call for others waits until this table has grown"
    if stale and many:
        gpu.refuse("disable", 1, INVALID_CHANNEL)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    assert "disable 8" in calls(gpu, urgent) or stale
    assert [calls(gpu, one).count("disable 2") for one in others] == [int(stale)] * 4
    for one in others:
        gpu.finish(one.pid)
        one.do("all")
    assert [calls(gpu, one).count("enable 2") for one in others] == [1] * 4
    assert plane.status()[0].late == 0


@pytest.mark.parametrize("asked", [MANY, {}], ids=["one call", "each"])
def test_orders_leave_no_descriptor_open(asked: dict[str, str], start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(**asked), real_time(plane, start(**asked))

    def most() -> int:
        return max(int(fd) for one in (background, urgent) for fd in os.listdir(f"/proc/{one.pid}/fd"))

    for _ in range(8):
        urgent.do(SHORT, "all")
    eventually(lambda: most() < 8)
    assert len([call for call in calls(gpu, background) + calls(gpu, urgent) if "disable" in call]) >= 4


def test_one_call_switches_no_channel_that_its_program_has_disabled(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """Otherwise the call that puts the others back, if the host is lost, would enable it."""
    others = [start(FAKE_CHANNELS="2", **MANY) for _ in range(2)]
    urgent = real_time(plane, start(**MANY))
    others[0].do("own-disable 1")
    for one in others:
        one.do(LONG)
    urgent.do(SHORT, "all")
    assert "disable 3" in calls(gpu, urgent)


def test_who_has_destroyed_its_channels_leaves_nobody_off(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """By them its agent has taken the others off, in a segment that is still open."""
    others = [start(**MANY) for _ in range(2)]
    urgent = real_time(plane, start(GPURT_AUTO="0", **MANY))
    urgent.do("begin 50")
    assert "disable 2" in calls(gpu, urgent)
    urgent.do("destroy 0")
    eventually(lambda: all(gpu.enabled(one.pid) for one in others))

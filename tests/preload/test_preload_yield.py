# SPDX-License-Identifier: GPL-2.0
"""`gpurt serve --begin yield`: the most urgent process begins beside others, which have short slices."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from links import eventually
from machines import ALWAYS, LONG, FakeGpu, Program, Served, Start, real_time, stop

from gpurt.enums import Begin, Policy
from pycontrol.link.control import Control, connect

KERNEL = "launch 0 20000"
OWN, SHORT, LONGEST = 1024, 500, 20_000  # us


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A host whose most urgent process begins beside others."""
    return serve("--gpus=2", "--bound=answer=60s", "--begin=yield")


def slices(gpu: FakeGpu, *programs: Program) -> list[int]:
    return [group["slice_us"] for one in programs for group in gpu.groups(one.pid)]


def ready(plane: Control, others: int | None) -> None:
    """Waits until a process begins beside so many others, or until none does."""
    eventually(lambda: plane.status()[0].ready == others)


def off(gpu: FakeGpu, program: Program) -> int:
    """How often the program was taken off."""
    return int(gpu.groups(program.pid)[0]["turns"])


def low_files(program: Program) -> list[str]:
    """What is open as those descriptors that a program might choose by number, or get next."""
    folder = Path(f"/proc/{program.pid}/fd")
    return [os.readlink(fd) for fd in folder.iterdir() if int(fd.name) < 512]


def begins_beside(served: Served, plane: Control, urgent: Program, *work: str) -> bool:
    """Whether the work executes although the host cannot answer.  Others are taken off first if it does not."""
    if plane.status()[0].ready is None:
        return False
    os.kill(served.process.pid, signal.SIGSTOP)
    try:
        urgent.do(*work)
    finally:
        os.kill(served.process.pid, signal.SIGCONT)
    return True


def test_the_most_urgent_process_does_not_wait_for_anybody(
    served: Served, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    others = [start() for _ in range(2)]
    for one in others:
        one.do(LONG)
    urgent = real_time(plane, start())
    ready(plane, 2)
    assert slices(gpu, urgent, *others) == [LONGEST, SHORT, SHORT]
    assert begins_beside(served, plane, urgent, KERNEL, "all", KERNEL, KERNEL, "sync 0")


def test_others_are_taken_off_while_a_segment_lasts(start: Start, plane: Control, gpu: FakeGpu) -> None:
    other, urgent = start(), real_time(plane, start())
    ready(plane, 1)
    other.do(LONG)
    urgent.do(LONG)
    eventually(lambda: not gpu.enabled(other.pid))
    assert gpu.enabled(urgent.pid)
    gpu.finish(urgent.pid)
    urgent.do("all")
    eventually(lambda: gpu.enabled(other.pid))


def test_slices_return_with_the_last_real_time_process(
    served: Served, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    other, urgent = start(), real_time(plane, start())
    ready(plane, 1)
    for take_back in (lambda: plane.set_priority(urgent.pid, 0), lambda: plane.set_policy(Policy.BOOSTED)):
        take_back()
        eventually(lambda: slices(gpu, urgent, other) == [OWN, OWN])
        ready(plane, None)
        plane.set_policy(Policy.SEGMENT)
        plane.set_priority(urgent.pid, 50)
        ready(plane, 1)
    fresh = start()
    ready(plane, 2)
    assert slices(gpu, fresh) == [SHORT]
    urgent.kill()
    eventually(lambda: slices(gpu, other, fresh) == [OWN, OWN])


def test_they_return_when_the_host_is_lost(served: Served, start: Start, plane: Control, gpu: FakeGpu) -> None:
    other, urgent = start(), real_time(plane, start())
    ready(plane, 1)
    served.process.kill()
    eventually(lambda: slices(gpu, urgent, other) == [OWN, OWN])


def test_a_slice_that_the_program_sets_is_its_own_afterwards(start: Start, plane: Control, gpu: FakeGpu) -> None:
    other, urgent = start(), real_time(plane, start())
    ready(plane, 1)
    other.do("own-slice 4000")
    assert slices(gpu, other) == [SHORT]
    urgent.kill()
    eventually(lambda: slices(gpu, other) == [4000])


def test_no_launch_waits_for_the_call_that_takes_others_off(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The urgent process's agent makes it, and the driver does not return.  What it opens has usual numbers."""
    many = {"GPURT_NVIDIA_MANY": "1"}
    others = [start(**many) for _ in range(2)]
    urgent = real_time(plane, start(**many))
    ready(plane, 2)
    gpu.ask("delay", name="disable", ns=3600 * 10**9)
    urgent.do(KERNEL)
    eventually(lambda: not any(gpu.enabled(one.pid) for one in others))
    assert len(set(low_files(urgent))) == len(low_files(urgent))  # no duplicate of the driver's is there
    urgent.do(KERNEL, "all", KERNEL)
    urgent.kill()


#: Work of which it is not known how often it becomes ready on the GPU.
UNKNOWN = {
    "copy": ("upload 0 20000", "all"), "copies back": ("download 0 20000",),
    "host function": ("cuLaunchHostFunc 0 20", "all"),
    "graph": ("stream 1", "capture 1", "launch 1 20000", "captured 1 1", "graph 1", "all"),
    "memory": ("cuMemsetD2D8 0 20", "all"),
    "two streams": ("stream 1", "stream 2", "launch 1 20000", "launch 2 20000", "all"),
    "then a copy": (KERNEL, "upload 0 20000", "all"), "marked": ("begin", KERNEL, "end", "all"),
}  # fmt: skip


@pytest.mark.parametrize("work", UNKNOWN.values(), ids=UNKNOWN)
def test_segments_of_more_than_one_streams_kernels_have_others_taken_off_first(
    work: tuple[str, ...], start: Start, plane: Control, gpu: FakeGpu
) -> None:
    other, urgent = start(), real_time(plane, start())
    other.do(LONG)
    ready(plane, 1)
    urgent.do(*work)
    urgent.heard()
    assert off(gpu, other) >= 1


def test_who_has_several_groups_keeps_its_slices_and_nobody_yields_beside_it(
    start: Start, plane: Control, gpu: FakeGpu
) -> None:
    other, urgent = start(), real_time(plane, start())
    ready(plane, 1)
    other.do("context 1 0")
    assert plane.status()[0].ready is None  # told before the second group can be used
    eventually(lambda: slices(gpu, other) == [OWN, OWN])
    other.do(LONG)
    urgent.do(KERNEL, "all")
    urgent.heard()
    assert off(gpu, other) >= 1
    gpu.finish(other.pid)
    other.do("all", "destroy 1")
    ready(plane, 1)
    copies = start(FAKE_GROUPS="4")  # those of copies are on other runlists
    ready(plane, 2)
    assert slices(gpu, copies) == [SHORT, OWN, OWN, OWN]


@pytest.mark.parametrize(
    "extra", [{"FAKE_BARE": "1"}, {"GPURT_NVIDIA_METHOD": "schedule"}, {"GPURT_AUTO": "0"}, {"FAKE_MIG": "0.7.0"}],
    ids=["bare", "method", "no automatic segments", "MIG"],
)
def test_some_cannot_yield(extra: dict[str, str], start: Start, plane: Control, gpu: FakeGpu) -> None:
    if "FAKE_MIG" in extra:
        gpu.ask("divide", gpu=0, instance=7, computes=1)
    urgent = real_time(plane, start(**extra))
    start(**{name: extra[name] for name in extra if name == "FAKE_MIG"})
    eventually(lambda: len({one.pid for one in plane.clients()}) == 2)
    assert plane.status()[0].ready is None
    assert urgent.pid


def united(plane: Control, *programs: Program) -> None:
    for one in programs:
        plane.set_group(one.pid, "one")


#: What meets begin by yield: whether the most urgent process yields, and who is on all the same while others are off.
#: ``make`` gets the most urgent process and two of no priority.
MEETS: dict[str, tuple[Callable[..., object], bool, bool]] = {
    "its equal": (lambda plane, _, one, __: plane.set_priority(one.pid, 50), False, False),
    "equals below it": (lambda plane, _, *both: [plane.set_priority(one.pid, 40) for one in both], True, False),
    "its budget": (lambda plane, urgent, *_: plane.set_budget(urgent.pid, 10**7, 10**8), False, False),
    "another's budget": (lambda plane, _, one, __: plane.set_budget(one.pid, 10**7, 10**8), True, False),
    "its exemption": (lambda plane, urgent, *_: plane.set_exempt(True, pid=urgent.pid), False, False),
    "another's exemption": (lambda plane, _, one, __: plane.set_exempt(True, pid=one.pid), True, True),
    "its group": (lambda plane, urgent, one, _: united(plane, urgent, one), False, True),
    "others' group": (lambda plane, _, *both: united(plane, *both), True, False),
    "others' group above it": (
        lambda plane, _, one, other: (united(plane, one, other), plane.set_priority(other.pid, 60)), False, False
    ),
    "its other GPU": (lambda _, urgent, *__: urgent.do("context 1 1", "use 0"), True, False),
    "another's other GPU": (lambda _, __, one, ___: one.do("context 1 1", "use 0"), True, False),
    "another policy": (lambda plane, *_: plane.set_policy(Policy.LOCK_PRIORITY), False, False),
}  # fmt: skip


@pytest.mark.parametrize(("make", "yields", "stays"), MEETS.values(), ids=MEETS)
def test_each_meets_it_in_one_way(
    make: Callable[..., object], yields: bool, stays: bool, served: Served, start: Start, plane: Control, gpu: FakeGpu
) -> None:  # fmt: skip
    """If the most urgent process does not yield the others are off before its work executes, as without."""
    one, other = start(), start()
    urgent = real_time(plane, start())
    ready(plane, 2)
    make(plane, urgent, one, other)
    ready(plane, 2 if yields else None)
    assert begins_beside(served, plane, urgent, KERNEL, "all") == yields
    urgent.do(LONG)
    eventually(lambda: not gpu.enabled(other.pid))
    eventually(lambda: gpu.enabled(one.pid) == stays)
    assert gpu.enabled(urgent.pid)


def test_each_gpu_has_a_most_urgent_process_of_its_own(start: Start, plane: Control, gpu: FakeGpu) -> None:
    here, there = (start() for _ in range(2))
    there.do("context 1 1")
    here.do("context 1 1")
    eventually(lambda: len(plane.clients()) == 4)
    plane.set_priority(here.pid, 50, gpu=0)
    plane.set_priority(there.pid, 50, gpu=1)
    eventually(lambda: [one.ready for one in plane.status()] == [1, 1])
    assert slices(gpu, here, there) == [LONGEST, SHORT, SHORT, LONGEST]


def test_a_driver_that_refuses_a_slice_is_no_late_agent(start: Start, plane: Control, gpu: FakeGpu) -> None:
    other, urgent = start(), start()
    gpu.refuse("timeslice", ALWAYS, 0x56)
    real_time(plane, urgent)
    other.do(LONG)
    urgent.do(KERNEL, "all")
    urgent.heard()
    assert off(gpu, other) >= 1
    assert (plane.status()[0].ready, plane.status()[0].late) == (None, 0)


def test_nobody_yields_beside_a_process_that_does_not_answer(start: Start, plane: Control) -> None:
    other, urgent = start(), start()
    stop(other)
    real_time(plane, urgent)
    urgent.heard()
    assert plane.status()[0].ready is None
    os.kill(other.pid, signal.SIGCONT)
    ready(plane, 1)


def test_a_newcomer_has_a_short_slice_before_it_can_be_used(start: Start, plane: Control, gpu: FakeGpu) -> None:
    urgent = real_time(plane, start())
    ready(plane, 0)
    assert slices(gpu, start(), urgent) == [SHORT, LONGEST]


def test_the_most_urgent_process_stays_on_beside_a_less_urgent_one(
    served: Served, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    other, urgent, less = start(), real_time(plane, start(), 60), real_time(plane, start(), 40)
    ready(plane, 2)
    other.do(LONG)
    less.do(LONG)
    eventually(lambda: not gpu.enabled(other.pid))
    assert begins_beside(served, plane, urgent, KERNEL, "all")
    urgent.heard()
    assert (off(gpu, urgent), gpu.enabled(other.pid)) == (0, False)
    gpu.finish(less.pid)
    less.do("all", "begin")  # a program that marks its segments is alone
    eventually(lambda: not gpu.enabled(urgent.pid))


def test_isolated_is_the_default(serve: Callable[..., Served], start: Start, gpu: FakeGpu) -> None:
    at = serve("--bound=answer=60s").path
    with connect(str(at)) as plane:
        other, urgent = start(at=at), real_time(plane, start(at=at))
        other.do(LONG)
        urgent.do(KERNEL, "all")
        urgent.heard()
        assert slices(gpu, other, urgent) == [OWN, OWN]
        assert off(gpu, other) >= 1
        assert plane.status()[0].begin is Begin.ISOLATED

# SPDX-License-Identifier: GPL-2.0
"""Automatic segments: from the first work after idle until the program has waited for everything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from links import eventually
from machines import FakeGpu, Program, Start

from gpurt.enums import Form
from pycontrol.link.control import Control

Depth = Callable[..., int]


@pytest.mark.parametrize("how", ["link", "dlsym", "proc", "ptsz"])
def test_however_the_driver_api_is_found(how: str, start: Start, depth: Depth) -> None:
    program = start(how)
    assert depth(program) == 0
    program.do("launch 0 200000")
    assert depth(program) == 1
    program.do("launch 0 1000", "sync 0")
    assert depth(program) == 0
    program.do("next")  # other users of dlsym are not disturbed


@pytest.mark.parametrize("how", ["proc", "ptsz"])
def test_each_version_of_a_function_has_its_own_form(how: str, start: Start, depth: Depth) -> None:
    """A wrapper with another form's parameters would pass on what happens to be in a register."""
    for version in ("10000", "10010", "12000", "13000", "13050"):
        program = start(how, FAKE_CUDA=version)
        program.do("stream 1 1", "capture 1", "launch 1 1000", "captured 1 1")
        assert depth(program) == 0, version
        program.do("graph 1 1")
        assert depth(program) == 1, version
        program.do("all")
        assert depth(program) == 0, version


def test_a_stream_is_the_same_whatever_context_is_current(start: Start, depth: Depth) -> None:
    program = start()
    program.do("stream 1 1", "launch 1 1000", "context 1 1", "launch 1 1000")
    assert (depth(program, 0), depth(program, 1)) == (1, 0)
    program.do("sync 1")
    assert (depth(program, 0), depth(program, 1)) == (0, 0)


def test_a_handle_that_another_stream_had(start: Start, depth: Depth) -> None:
    """The work of the destroyed stream is not done when the new one's is, and it is on another GPU."""
    program = start()
    program.do("stream 1 1", "launch 1 1000", "unstream 1", "context 1 1", "stream 1 1", "launch 1 1000")
    assert (depth(program, 0), depth(program, 1)) == (1, 1)
    program.do("sync 1")
    assert (depth(program, 0), depth(program, 1)) == (1, 0)
    program.do("use 0", "all")
    assert (depth(program, 0), depth(program, 1)) == (0, 0)


def test_a_handle_that_another_stream_of_the_context_had(start: Start, depth: Depth, gpu: FakeGpu) -> None:
    program = start()
    program.do("stream 1 1", "launch 1 600000000", "unstream 1", "stream 1 1", "sync 1")
    assert depth(program) == 1  # the work of the destroyed stream is still under way
    gpu.finish(program.pid)
    program.do("all")
    assert depth(program) == 0


def test_waiting_for_another_context_than_the_current_one(start: Start, depth: Depth) -> None:
    program = start("proc", FAKE_CUDA="13000")
    program.do("launch 0 1000", "context 1 1", "launch 0 1000", "all-of 0")
    assert (depth(program, 0), depth(program, 1)) == (0, 1)
    program.do("all-of 1")
    assert (depth(program, 0), depth(program, 1)) == (0, 0)


def test_a_version_that_is_not_known_yet(start: Start, depth: Depth) -> None:
    """Functions of that version are passed on as they are, and counted."""
    program = start("proc", FAKE_CUDA="14000")
    program.do("launch 0 1000", "all")
    assert depth(program) == 0
    assert "0 launches in 0 automatic segments; 2 calls of functions that are not known" in summary(program)


def test_hip(start: Start, depth: Depth) -> None:
    program = start(family="hip")
    program.do("launch 0 100000")
    assert depth(program) == 1
    program.do("all")
    assert depth(program) == 0


@pytest.mark.parametrize(
    "wait", [["sync 1"], ["all"], ["event 1", "record 1 1", "await 1"], ["destroy 0"]], ids=lambda wait: wait[-1]
)
def test_what_ends_a_segment(wait: list[str], start: Start, depth: Depth) -> None:
    program = start()
    program.do("stream 1 1", "launch 1 30000")
    assert depth(program) == 1
    program.do(*wait)
    assert depth(program) == 0


@pytest.mark.parametrize("wait", [["all"], ["sync 1"], ["event 1", "record 1 1", "await 1"]], ids=lambda wait: wait[-1])
def test_a_wait_while_another_thread_launches(wait: list[str], start: Start, depth: Depth) -> None:
    """The wait is over before the other thread's call gives the driver the work.  A later wait ends the segment."""
    program = start()
    program.do("stream 1 1", "aside-launch 1 1000", *wait)
    assert depth(program) == 1
    program.do("join")
    assert depth(program) == 1
    program.do(*wait)
    assert depth(program) == 0


def test_a_wait_while_another_thread_copies(start: Start, depth: Depth) -> None:
    """The copy waits for its own work, and ends the segment."""
    program = start()
    program.do("aside-download 0 10", "all")
    assert depth(program) == 1
    program.do("join")
    assert depth(program) == 0


@pytest.mark.parametrize("launch", ["launch 1 1000", "download 0 10"])
def test_a_thread_that_is_cancelled_in_a_launch(launch: str, start: Start, depth: Depth) -> None:
    """It may have given the driver its work.  A later wait ends the segment all the same."""
    program = start()
    program.do("stream 1 1", f"aside-{launch}", "cancel")
    assert depth(program) == 1
    program.do("all")
    assert depth(program) == 0


def test_asking_whether_it_is_done(start: Start, depth: Depth, gpu: FakeGpu) -> None:
    program = start()
    program.do("stream 1 1", "launch 1 600000000")
    program.send("query 1")
    assert program.answer() == "busy 600"
    assert depth(program) == 1
    gpu.finish(program.pid)

    def done() -> bool:
        program.send("query 1")
        return program.answer() == "ok"

    eventually(done)
    assert depth(program) == 0


def test_a_download_waits_and_an_upload_does_not(start: Start, depth: Depth) -> None:
    program = start()
    program.do("upload 0 30000")
    assert depth(program) == 1
    program.do("download 0 10")
    assert depth(program) == 0


def test_everything_must_have_been_waited_for(start: Start, depth: Depth) -> None:
    program = start()
    program.do("stream 1 1", "stream 2 1", "launch 1 1000", "launch 2 1000", "sync 1")
    assert depth(program) == 1
    program.do("sync 2")
    assert depth(program) == 0


#: Functions that give work to a stream, and versions in which they have different forms.
WORK = [
    ("cuMemcpyBatchAsync", ("12080", "13000")), ("cuMemPrefetchAsync", ("12000", "12020")),
    ("cuLaunchHostFunc", ("13000", "13010")), ("cuLaunchKernelEx", ("12000",)), ("cuGraphUpload", ("12000",)),
    ("cuStreamWriteValue32", ("12000",)), ("cuSignalExternalSemaphoresAsync", ("12000",)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version"), [(name, one) for name, versions in WORK for one in versions])
def test_work_in_a_stream(name: str, version: str, start: Start, depth: Depth) -> None:
    program = start("proc", FAKE_CUDA=version)
    program.do("stream 1 1", "capture 1", "launch 1 1000", "captured 1 1", "all")
    assert depth(program) == 0
    program.do(f"{name} 1 1000")
    assert depth(program) == 1
    program.do("sync 1")
    assert depth(program) == 0


@pytest.mark.parametrize("name", ["cuMemsetD2D8", "cuMemcpyPeer"])
def test_work_in_the_default_stream(name: str, start: Start, depth: Depth) -> None:
    program = start("proc")
    program.do(f"{name} 0 1000")
    assert depth(program) == 1
    program.do("sync 0")
    assert depth(program) == 0


def test_allocation_in_a_stream_prolongs_a_segment_but_begins_none(start: Start, depth: Depth) -> None:
    program = start("proc")
    program.do("stream 1 1", "event 1", "cuMemAllocAsync 1 4096")
    assert depth(program) == 0
    program.do("launch 1 1000", "record 1 1", "cuMemFreeAsync 1", "await 1")
    assert depth(program) == 1  # the memory is not free yet
    program.do("sync 1", "cuMemFreeAsync 1")
    assert depth(program) == 0


def test_an_event_that_a_launch_records_proves_nothing_of_what_it_covered_before(
    start: Start, depth: Depth, gpu: FakeGpu
) -> None:
    program = start("proc")
    program.do("stream 1 1", "stream 2 1", "event 1", "launch 1 600000000", "record 1 1")
    program.do("marked", "cuLaunchKernelEx 2 1000", "await 1")
    gpu.finish(program.pid)
    program.do("sync 2")
    assert depth(program) == 1
    program.do("sync 1")
    assert depth(program) == 0


@pytest.mark.parametrize("name", ["cuGraphAddEventRecordNode", "cuGraphAddNode"])
def test_an_event_that_a_graph_records_proves_nothing(name: str, start: Start, depth: Depth, gpu: FakeGpu) -> None:
    """The graph is launched on the other GPU, and the event says that it is done there."""
    program = start("proc", FAKE_CUDA="12030")
    program.do("stream 1 1", "event 1", "capture 1", "launch 1 1000", "captured 1 1", "marked", f"{name} 1 0")
    program.do("launch 1 600000000", "record 1 1", "context 1 1", "stream 2 1", "graph 1 2", "await 1")
    assert depth(program) == 1
    gpu.finish(program.pid)
    program.do("sync 1")
    assert depth(program) == 0


def test_the_end_of_a_primary_context(start: Start, depth: Depth) -> None:
    program = start("proc")
    program.do("primary 1", "stream 1 1", "launch 1 1000")
    assert depth(program) == 1
    program.do("reset")
    assert depth(program) == 0


def test_a_capture_into_a_graph_that_is_there(start: Start, depth: Depth) -> None:
    program = start("proc", FAKE_CUDA="12030")
    program.do("stream 1 1", "capture 1", "captured 1 1", "cuStreamBeginCaptureToGraph 1 0", "launch 1 1000")
    assert depth(program) == 0
    program.do("captured 1 1", "graph 1 1")
    assert depth(program) == 1
    program.do("sync 1")
    assert depth(program) == 0


@pytest.mark.parametrize(("flags", "left"), [(0, 0), (1, 1)])
def test_the_default_stream_comes_after_blocking_streams(flags: int, left: int, start: Start, depth: Depth) -> None:
    program = start()
    program.do(f"stream 1 {flags}", "launch 1 1000", "launch 0 1000", "sync 0")
    assert depth(program) == left
    program.do("launch 0 1000", f"stream 2 {flags}", "launch 2 1000", "sync 2", "sync 1")
    assert depth(program) == left


def test_an_event_proves_what_its_stream_waited_for(start: Start, depth: Depth) -> None:
    program = start()
    program.do("stream 1 1", "stream 2 1", "event 1", "event 2")
    program.do("launch 1 1000", "record 1 1", "after 2 1", "launch 2 1000", "record 2 2", "await 2")
    assert depth(program) == 0


def test_an_event_proves_nothing_of_what_came_after_it(start: Start, depth: Depth) -> None:
    program = start()
    program.do("stream 1 1", "event 1", "launch 1 1000", "record 1 1", "launch 1 1000", "await 1")
    assert depth(program) == 1
    program.do("sync 1")
    assert depth(program) == 0


def test_a_graph_runs_when_it_is_launched(start: Start, depth: Depth) -> None:
    program = start()
    program.do("stream 1 1", "capture 1", "launch 1 1000", "captured 1 1")
    assert depth(program) == 0
    program.do("graph 1 1")
    assert depth(program) == 1
    program.do("sync 1")
    assert depth(program) == 0


def test_each_gpu_has_its_own(start: Start, depth: Depth) -> None:
    program = start()
    program.do("launch 0 1000", "context 1 1", "launch 0 1000")
    assert (depth(program, 0), depth(program, 1)) == (1, 1)
    program.do("sync 0")
    assert (depth(program, 0), depth(program, 1)) == (1, 0)
    program.do("use 0", "all")
    assert (depth(program, 0), depth(program, 1)) == (0, 0)


@pytest.mark.parametrize("how", ["proc", "ptsz"])
def test_threads(how: str, start: Start, depth: Depth, plane: Control) -> None:
    program, urgent = start(how), start()
    plane.set_priority(urgent.pid, 50)
    program.send("threads 16 20")
    for _ in range(10):
        urgent.do("launch 0 1000", "all")
    assert program.answer() == "ok"
    assert depth(program) == 0
    assert plane.status()[0].late == 0


def summary(program: Program) -> str:
    return program.quit().splitlines()[-1]


def test_explicit_segments_win(start: Start, depth: Depth, plane: Control) -> None:
    program = start()
    program.do("launch 0 200000", "begin 7")
    assert depth(program) == 1  # the automatic segment has ended
    assert {one.priority for one in plane.clients()} == {7}
    program.do("launch 0 1000", "end 0")
    assert depth(program) == 0
    program.do("all", "launch 0 1000")
    assert depth(program) == 0
    program.do("all")
    assert "3 launches in 1 automatic segments" in summary(program)


def test_they_can_be_switched_off(start: Start, depth: Depth) -> None:
    program = start(GPURT_AUTO="0")
    program.do("launch 0 50000")
    assert depth(program) == 0
    program.do("all")
    assert "1 launches in 0 automatic segments" in summary(program)


@pytest.mark.parametrize("how", ["dlsym", "proc"])
def test_calls_of_what_is_not_known_are_counted(how: str, start: Start) -> None:
    """The calls, not the look-ups.  Such a function gets its parameters, more than fit into registers."""
    program = start(how)
    assert "0 calls of functions that are not known" in summary(program)
    program = start(how)
    program.do("strange 0 10", "strange 0 10", "all")
    assert "2 calls of functions that are not known, such as cuStrange" in summary(program)


def test_the_form_of_an_automatic_segment(start: Start, plane: Control) -> None:
    """The library cannot know whether a program spins: `owner` is right either way."""
    for extra, form in (({}, Form.OWNER), ({"GPURT_FORM": "self"}, Form.SELF)):
        program = start(**extra)
        program.do("launch 0 200000")
        (segment,) = (one for one in plane.clients() if one.pid == program.pid and one.depth)
        assert segment.form is form
        program.do("sync 0")

# SPDX-License-Identifier: GPL-2.0
"""Processes of a group own the GPU together where agents, or a patched driver, switch them."""

from __future__ import annotations

from pathlib import Path

import pytest
from links import eventually
from machines import LONG, FakeGpu, Start, real_time

from gpurt.errors import RefusedError
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control

SHORT = "launch 0 20000"
FAMILIES = ["nvidia", "nvgpu", "hip"]


@pytest.mark.parametrize("family", FAMILIES)
def test_members_execute_while_one_of_them_is_in_a_segment_and_others_do_not(
    family: str, start: Start, plane: Control, gpu: FakeGpu
) -> None:
    engine, worker = (start(family=family, GPURT_GROUP="llm") for _ in range(2))
    stranger = start(family=family)
    for one in (worker, stranger):
        one.do(SHORT, "all")  # so that the host knows its agent
    real_time(plane, engine).do(LONG)
    worker.do(SHORT)
    stranger.do(SHORT)
    eventually(lambda: not gpu.enabled(stranger.pid))
    assert gpu.enabled(engine.pid)
    assert gpu.enabled(worker.pid)
    gpu.finish(worker.pid)
    worker.do("all")  # the engine is in its segment
    assert gpu.order() == [worker.pid, stranger.pid, worker.pid]
    gpu.finish(engine.pid)
    engine.do("all")
    stranger.do("all")
    assert gpu.order()[3:] == [engine.pid, stranger.pid]


def test_an_engine_and_its_worker_wait_for_one_another_until_the_administrator_unites_them(
    start: Start, plane: Control, gpu: FakeGpu
) -> None:
    engine, worker = real_time(plane, start()), start()
    engine.do(LONG)
    worker.do(SHORT)
    eventually(lambda: not gpu.enabled(worker.pid))
    plane.set_group(engine.pid, "llm")
    assert not gpu.enabled(worker.pid)
    plane.set_group(worker.pid, "llm")
    eventually(lambda: gpu.enabled(worker.pid))
    worker.do("all")
    assert gpu.order() == [worker.pid]
    assert {one.pid: one.group for one in plane.clients()} == {engine.pid: "llm", worker.pid: "llm"}
    gpu.finish(engine.pid)
    engine.do("all")


def test_a_member_that_is_killed_leaves_the_gpu_to_the_others(start: Start, plane: Control, gpu: FakeGpu) -> None:
    engine, worker = (start(GPURT_GROUP="llm") for _ in range(2))
    stranger = start()
    real_time(plane, engine).do(LONG)
    worker.do(LONG)
    stranger.do(SHORT)
    engine.kill()
    eventually(lambda: {one.pid for one in plane.clients()} == {worker.pid, stranger.pid})
    assert not gpu.enabled(stranger.pid)
    assert gpu.enabled(worker.pid)
    worker.kill()
    stranger.do("all")
    assert gpu.order() == [stranger.pid]


def test_a_process_that_is_switched_as_a_whole_is_in_one_group(start: Start, plane: Control) -> None:
    worker = start(GPURT_GROUP="llm")
    worker.do(SHORT, "all")
    plane.set_group(worker.pid, "llm")
    with pytest.raises(RefusedError, match="in group llm"):
        plane.set_group(worker.pid, "other")


def test_where_the_driver_is_patched_members_have_the_gpu_together(start: Start, patched: Path, gpu: FakeGpu) -> None:
    with control(str(patched)) as plane:
        engine, worker = (start(at=patched, GPURT_GROUP="llm") for _ in range(2))
        real_time(plane, engine).do(LONG)
        worker.do(SHORT)
        gpu.finish(worker.pid)
        worker.do("all")
        assert gpu.order() == [worker.pid]
        gpu.finish(engine.pid)
        engine.do("all")

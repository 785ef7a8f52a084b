# SPDX-License-Identifier: GPL-2.0
"""Unmodified programs where the host's driver switches the GPU itself (tier T2): they have automatic segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from links import eventually
from machines import LONG, FakeGpu, Program, Start, real_time

from gpurt.enums import Tier
from pycontrol import cli
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control
from pycontrol.observe.doctor import examine

SHORT = "launch 0 20000"
#: The names of the driver's calls that would switch its work, in the fake's log.
SWITCHES = {"nvidia": {"disable", "preempt", "enable"}, "nvgpu": {"disable", "preempt", "enable"}, "hip": {"update"}}


@pytest.fixture(params=sorted(SWITCHES))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def plane(patched: Path) -> Iterator[Control]:
    with control(str(patched)) as made:
        yield made


@pytest.fixture
def run(start: Start, patched: Path) -> Callable[..., Program]:
    """Starts programs of that host."""

    def one(family: str = "nvidia", **extra: str) -> Program:
        return start(family=family, at=patched, **extra)

    return one


def test_segments_begin_and_end(
    family: str, run: Callable[..., Program], plane: Control, depth: Callable[..., int]
) -> None:
    program = run(family)
    assert [one.pid for one in plane.clients()] == [program.pid]  # known before its first segment
    program.do(SHORT)
    assert depth(program) == 1
    program.do("all")
    assert depth(program) == 0
    said = program.quit()
    assert "tier T2: its driver switches this process" in said
    assert "1 launches in 1 automatic segments" in said
    assert "0 orders carried out" in said


def test_real_time_work_comes_first_and_the_program_switches_nothing(
    family: str, run: Callable[..., Program], plane: Control, gpu: FakeGpu
) -> None:
    background, urgent = run(family), real_time(plane, run(family))
    before = {program.pid: len(calls(gpu, program)) for program in (background, urgent)}
    background.do(LONG, LONG)
    urgent.do(SHORT, "all", SHORT, "all")
    assert background.pid not in gpu.order()
    gpu.finish(background.pid)
    background.do("all")
    assert gpu.order() == [urgent.pid] * 2 + [background.pid] * 2
    for program in (background, urgent):
        assert not SWITCHES[family] & {name.split()[0] for name in calls(gpu, program)[before[program.pid] :]}
        assert [group["turns"] for group in gpu.groups(program.pid)] == [0] * len(gpu.groups(program.pid))
    assert plane.status()[0].tier is Tier.PATCHED


def calls(gpu: FakeGpu, program: Program) -> list[str]:
    """The calls through the program's descriptors, as far as the fake remembers."""
    made: list[str] = gpu.ask()["calls"].get(str(program.pid), [])
    return made


def test_an_owner_that_dies_hands_the_gpu_on(
    family: str, run: Callable[..., Program], plane: Control, gpu: FakeGpu
) -> None:
    urgent, background = real_time(plane, run(family)), run(family)
    urgent.do(LONG)
    background.do(SHORT)
    urgent.kill()
    background.do("all")
    assert gpu.order() == [background.pid]
    eventually(lambda: [one.pid for one in plane.clients()] == [background.pid])


def test_the_release_does_not_matter_where_the_library_switches_nothing(
    run: Callable[..., Program], depth: Callable[..., int]
) -> None:
    program = run(version="390.157")
    program.do(SHORT)
    assert depth(program) == 1
    assert "unmanaged" not in program.said()


def test_a_child_has_segments_of_its_own(run: Callable[..., Program], plane: Control, gpu: FakeGpu) -> None:
    background, urgent = run(), real_time(plane, run())
    background.do(LONG, "child 0", "child 1")
    urgent.do(SHORT, "all")
    assert background.pid not in gpu.order()
    gpu.finish(background.pid)
    background.do("all")


def test_doctor_and_status_ask_the_host(patched: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Device nodes say only which drivers there are."""
    (tmp_path / "dev").mkdir()
    for node in ("kfd", "nvidiactl"):
        (tmp_path / "dev" / node).write_text("")
    by_host, by_node = (one.text for one in examine(str(patched), tmp_path) if one.name == "GPU driver")
    assert "tier T2" in by_host
    assert "GPU 0 is amdgpu 0000:04:00.0, GPU 1 is amdgpu 0000:05:00.0" in by_host
    assert by_node.startswith("NVIDIA: only through agents")
    assert cli.run(["--device", str(patched), "status", "--json"]) == 0
    assert [one["device"] for one in json.loads(capfd.readouterr().out)["gpus"]] == ["0000:04:00.0", "0000:05:00.0"]

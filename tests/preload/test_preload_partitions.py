# SPDX-License-Identifier: GPL-2.0
"""`gpurt run` and `gpurt apply` with the partitions of a file, on the fake drivers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from links import eventually
from machines import GPURT, FakeGpu, Start

from pycontrol.link.control import Control
from pycontrol.machine.placement import fifo_permitted

Gpurt = Callable[..., "subprocess.Popen[str]"]
HEAD = '[platform]\ncpus = 4\nepsilon = "1ms"\npolicy = "segment"\ncompute_units = 60\nchip = "radeon-vii"\n'
PART = '[[partition]]\nname = "{}"\ncompute_units = {}\n{}\n'
TASK = """[[task]]
name = "{0}"
cpu = {1}
priority = {2}
period = "10s"
partition = "{0}"
segments = [{{ misc = "0ns", gpu = "1ms" }}]
command = ["sh", "-c", "(echo launch 0 1000; sleep 60) | exec {3} hip"]
"""


@pytest.fixture
def gpurt(built: Path, gpu: FakeGpu, host: Path) -> Gpurt:
    """Starts the command line on the fake driver."""
    environment = {
        **os.environ, "GPURT_PRELOAD": str(built / "libgpurt-preload.so"), "LD_LIBRARY_PATH": str(built),
        "FAKE_GPU": str(gpu.path), "FAKE_FAMILY": "hip", "LD_PRELOAD": str(built / "libdriver.so"),
        "GPURT_DEVICE": str(host),
    }  # fmt: skip

    def start(*arguments: object, **extra: str) -> subprocess.Popen[str]:
        command = [*GPURT, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(list(map(str, command)), text=True, env=environment | extra, **pipes)  # type: ignore[call-overload, no-any-return]

    return start


def test_each_program_has_its_compute_units(gpurt: Gpurt, gpu: FakeGpu, built: Path, tmp_path: Path) -> None:
    """No queue is active before it has its mask."""
    path = tmp_path / "set.toml"
    masks = {"a": 0xFFFFFFFFFF, "b": 0xFFFFF0000000000}
    parts = [PART.format(name, mask.bit_count(), f'cu_mask = "{mask:#x}"') for name, mask in masks.items()]
    tasks = [TASK.format(name, cpu, 9 - cpu, built / "program") for cpu, name in enumerate(masks)]
    path.write_text(HEAD + "".join(parts + tasks))
    run = gpurt("run", path, "--duration", "60s", ROCR_VISIBLE_DEVICES="0")

    groups: list[dict[str, object]] = []

    def used() -> list[int]:
        groups[:] = gpu.ask()["groups"]
        return sorted(int.from_bytes(bytes.fromhex(str(one["mask"])), "little") for one in groups)

    try:
        # A queue has the mask 0 until the library has set its own: wait for the masks themselves, not for their number.
        eventually(lambda: used() == sorted(masks.values()) or run.poll() is not None)
        status = gpurt("status", "--json").communicate()[0]
        told = {pid: one["name"] for one in json.loads(status)["partitions"] for pid in one["pids"]}
    finally:
        run.send_signal(signal.SIGINT)
        said = run.communicate()
    assert len(groups) == 2, said
    assert not any(one["bare"] for one in groups)
    assert sorted(told[one["pid"]] for one in groups) == ["a", "b"]


def test_apply_sets_slices_on_a_tegra(gpurt: Gpurt, start: Start, plane: Control, tmp_path: Path) -> None:
    """And sets nothing at all if nvgpu takes no such slice."""
    program = start(family="nvgpu")
    path = tmp_path / "set.toml"
    part = PART.format("program", 60, 'slice = "5ms"\ninterleave = "high"')
    text = HEAD.replace('chip = "radeon-vii"\n', "") + part + TASK.format("program", 0, 9, "x").partition("command")[0]
    path.write_text(text.replace("5ms", "60ms"))
    refused = gpurt("apply", path, "--force")
    _, said = refused.communicate()
    assert (refused.returncode, "not a whole number of microseconds from 1000 to 50000" in said) == (3, True), said
    assert [one.set_priority for one in plane.clients() if one.pid == program.pid] == [None]
    path.write_text(text)
    done = gpurt("apply", path, "--force")
    out, said = done.communicate()
    assert done.returncode == 0, (out, said)
    (hints,) = json.loads(gpurt("set", "slice", program.pid, "--json").communicate()[0])["hints"]
    assert (hints["slice_ns"], hints["interleave"]) == (5_000_000, "high")
    assert [one.set_priority for one in plane.clients() if one.pid == program.pid] == [9]


@pytest.mark.skipif(not fifo_permitted(9), reason="SCHED_FIFO is not permitted")
def test_slices_of_a_file_are_given_to_what_runs_on_a_tegra(
    gpurt: Gpurt, start: Start, plane: Control, tmp_path: Path
) -> None:
    """Not while the host takes TSGs off the runlist."""
    program = start(family="nvgpu")
    os.sched_setscheduler(program.pid, os.SCHED_FIFO, os.sched_param(9))
    os.sched_setaffinity(program.pid, {0})
    path = tmp_path / "set.toml"
    text = HEAD.replace('chip = "radeon-vii"\n', 'theta = "100us"\n') + TASK.format("program", 0, 9, "x")
    text = text.partition("command")[0] + '[[partition]]\nname = "program"\nslice = "1ms"\ninterleave = "low"\n'
    path.write_text(text.replace("segment", "timesliced", 1))
    refused = gpurt("apply", path)
    out, said = refused.communicate()
    assert (refused.returncode, "the host runs segment" in out) == (1, True), (out, said)
    plane.set_policy("timesliced")
    done = gpurt("apply", path)
    out, said = done.communicate()
    assert done.returncode == 0, (out, said)
    (hints,) = json.loads(gpurt("set", "slice", program.pid, "--json").communicate()[0])["hints"]
    assert hints["slice_ns"] == 1_000_000

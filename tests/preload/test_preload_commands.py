# SPDX-License-Identifier: GPL-2.0
"""`gpurt run --auto`, and the commands that use the measurements of a host with agents."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import machines
import pytest
from links import PATIENCE, eventually
from machines import GPURT, ROOT, FakeGpu, Served, Start, stop

from pycontrol.act.run.loadable import PT_INTERP, objection
from pycontrol.link.control import Control, connect

Gpurt = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def gpurt(built: Path, gpu: FakeGpu, host: Path, tmp_path: Path) -> Gpurt:
    """Runs the command line on the fake driver."""
    version = tmp_path / "version"
    version.write_text("570.86.15\n")
    environment = {
        **os.environ, "GPURT_PRELOAD": str(built / "libgpurt-preload.so"), "LD_LIBRARY_PATH": str(built),
        "FAKE_GPU": str(gpu.path), "FAKE_NVIDIA_VERSION": str(version), "LD_PRELOAD": str(built / "libdriver.so"),
    }  # fmt: skip

    def run(*arguments: str, text: str = "", device: Path = host, **extra: str) -> subprocess.CompletedProcess[str]:
        env = environment | {"GPURT_DEVICE": str(device)} | extra
        command = [*GPURT, *arguments]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, env=env, timeout=PATIENCE
        )

    return run


def test_a_program_runs_under_the_library(gpurt: Gpurt, built: Path) -> None:
    done = gpurt("run", "--auto", "--", str(built / "program"), "proc", text="context 0 0\nlaunch 0 1000\nall\n",
                 GPURT_VERBOSE="1")  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["ok"] * 3), done.stderr
    assert "tier T1" in done.stderr
    assert "1 launches in 1 automatic segments" in done.stderr


def test_a_program_that_does_not_answer_is_named_with_its_command(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a limit printed nothing for as long as anybody waited."""
    program = start()
    os.kill(program.pid, signal.SIGSTOP)
    monkeypatch.setattr(machines, "PATIENCE", 0.0)
    program.send("all")
    with pytest.raises(AssertionError, match="no answer to 'all'"):
        program.answer()


def test_it_leaves_programs_without_a_gpu_alone(gpurt: Gpurt) -> None:
    done = gpurt("run", "--auto", "--", sys.executable, "-c", "import ctypes, subprocess, sys\n"
                 "subprocess.run(['true'], check=True)\nprint('x'); sys.exit(7)")  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (7, "x\n", "")


def test_a_program_that_will_be_unmanaged_is_said_to_be(refused: Gpurt, tmp_path: Path) -> None:
    true = shutil.which("true") or ""
    (tmp_path / "static").write_bytes(without_linker(Path(true).read_bytes()))
    (tmp_path / "start.sh").write_text(f"#!/bin/sh\nexport X=1\nexec {tmp_path}/static\n")
    for one in ("static", "start.sh"):
        (tmp_path / one).chmod(0o755)
    done = refused("run", "--auto", "--", true)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "unmanaged: no host (tried /nonexistent); start 'gpurt " in done.stderr
    done = refused("run", "--auto", "--", str(tmp_path / "start.sh"))
    assert f"script {tmp_path}/start.sh starts {tmp_path}/static, which is statically linked" in done.stderr


def without_linker(elf: bytes) -> bytes:
    """The program as it is if nothing links it dynamically: without its first header of type PT_INTERP."""
    first, (size, count) = struct.unpack_from("=Q", elf, 32)[0], struct.unpack_from("=HH", elf, 54)
    headers = range(first, first + size * count, size)
    at = next(at for at in headers if struct.unpack_from("=I", elf, at)[0] == PT_INTERP)
    return elf[:at] + bytes(4) + elf[at + 4 :]


def test_which_programs_can_load_the_library(built: Path, tmp_path: Path) -> None:
    library, true = built / "libgpurt-preload.so", Path(shutil.which("true") or "")
    elf, program = true.read_bytes(), tmp_path / "program"

    def why(content: bytes, mode: int = 0o755) -> str:
        program.write_bytes(content)
        program.chmod(mode)
        return objection(str(program), library)

    for fine in (elf, b"#!/bin/sh\nif true; then 'exit\n", b"#!/usr/bin/env -S sh -e\ntrue\n", b"text"):
        assert not why(fine)
    assert not objection("no-such-program", library)
    assert why(without_linker(elf)).endswith("is statically linked")
    assert why(elf.replace(b"/ld-linux", b"/ld-musl-")).endswith("is for another C library")
    assert why(elf[:18] + b"\xff" + elf[19:]).endswith("is for another processor than the library")
    if os.geteuid() == 0 and not os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        program.write_bytes(elf)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        assert "setuid" in objection(str(program), library)


def test_the_library_of_a_sanitizer_stays_first(gpurt: Gpurt, built: Path, tmp_path: Path) -> None:
    """AddressSanitizer ends a program in which anything comes before it."""
    others = [built / "libdriver.so", tmp_path / "libasan.so.8"]
    others[1].symlink_to(others[0])
    done = gpurt("run", "--auto", "--", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=" ".join(map(str, others)))
    assert done.stdout.strip() == f"{others[1]}:{built}/libgpurt-preload.so:{others[0]}", done.stderr
    assert done.stderr == f"gpurt: {others[1]} stays first in LD_PRELOAD, before libgpurt-preload.so\n"


@pytest.fixture
def refused(built: Path) -> Gpurt:
    """Runs the command line where neither a driver nor a host is needed."""

    def run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        found = {"GPURT_PRELOAD": str(built / "libgpurt-preload.so"), "GPURT_DEVICE": "/nonexistent"}
        return subprocess.run([sys.executable, "-m", "pycontrol", *arguments], capture_output=True, text=True,
                              check=False, env={**os.environ, **found, **extra}, timeout=PATIENCE)  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--auto", "--", "no-such-program"], 127, "no-such-program: no such program"),
        (["--auto", "--", "/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (["--auto", "--", "/etc"], 126, "/etc: Permission denied"),
        (["one.toml", "two.toml"], 2, "name one taskset file"),
        (["one.toml", "--priority", "7"], 2, "--priority goes with --auto"),
        (["--auto"], 2, "Missing argument"),
        (["--auto", "--priority", "100", "--", "true"], 2, "--priority"),
        (["--auto", "--duration", "10s", "--", "true"], 2, "--duration goes with a taskset file"),
        (["--auto", "-o", "run.json", "--", "true"], 2, "-o goes with a taskset file"),
    ],
)
def test_mistakes(arguments: list[str], code: int, why: str, refused: Gpurt) -> None:
    done = refused("run", *arguments)
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr


def test_a_program_that_is_not_there_is_missed_before_anything_is_compiled_for_it(refused: Gpurt) -> None:
    done = refused("run", "--auto", "--", "./no-such", GPURT_PRELOAD="/nowhere.so")
    assert (done.returncode, done.stderr) == (127, "gpurt: ./no-such: no such program\n")


@pytest.mark.parametrize("library", ["/nowhere.so", "/proc/1/root/nowhere.so", "/etc/passwd/nowhere.so", "/"])
def test_a_library_that_is_not_there(refused: Gpurt, library: str) -> None:
    """The second lies in a folder that most users may not read."""
    done = refused("run", "--auto", "--", "true", GPURT_PRELOAD=library)
    assert (done.returncode, f"GPURT_PRELOAD={library} is no readable file" in done.stderr) == (6, True)


def test_the_hosts_epsilon_feeds_the_analysis(gpurt: Gpurt, start: Start, plane: Control) -> None:
    example = str(ROOT / "examples/case-study.toml")
    nothing = gpurt("analyze", example, "--measured", "--test", "gcaps-suspend")
    assert (nothing.returncode, "no runlist update yet" in nothing.stderr) == (4, True), nothing.stderr
    background, urgent = start(), start()
    plane.set_priority(urgent.pid, 50)
    background.do("launch 0 100000")
    for _ in range(3):
        urgent.do("launch 0 1000", "all")
    before = max(one.maximum for one in plane.latency())
    done = gpurt("analyze", example, "--measured", "--margin", "0%", "--test", "gcaps-suspend", "--json")
    after = max(one.maximum for one in plane.latency())  # the last update ends when all groups are on again
    alpha = re.search(r"alpha is ([0-9.]+) ms", " ".join(json.loads(done.stdout)["notes"]))
    assert alpha
    assert before <= round(float(alpha[1]) * 1e6) < after + 1000  # it is printed in ms to the microsecond, rounded up


def test_status_says_when_isolation_is_lost(gpurt: Gpurt, start: Start, serve: Callable[..., Served]) -> None:
    host = serve("--bound=answer=1s", "--begin=strict")
    background, urgent = start(at=host.path), start(at=host.path)
    with connect(str(host.path)) as plane:
        eventually(lambda: plane.status()[0].late == 0)  # one of them may have been slow to start
    out = gpurt("status", device=host.path).stdout
    assert "nvidia-rm" in out
    assert "isolation" not in out
    assert str(background.pid) in gpurt("status", "clients", device=host.path).stdout
    with connect(str(host.path)) as plane:
        plane.set_priority(urgent.pid, 50)
        background.do("launch 0 600000000")
        stop(background)  # its agent cannot answer
        urgent.send("launch 0 1000")
        eventually(lambda: plane.status()[0].late == 1 and plane.status()[0].faults > 0)
        out = gpurt("status", device=host.path).stdout
        os.kill(background.pid, signal.SIGCONT)
        assert urgent.answer() == "ok"
    assert "GPU 0: 1 late: processes that have not left the GPU; isolation is lost" in out
    assert "updates failed and were tried again" in out


def test_status_says_that_nothing_is_preempted(gpurt: Gpurt, start: Start, gpu: FakeGpu) -> None:
    assert "not preempted" not in gpurt("status").stdout
    gpu.machine({"id": 4711}, {"id": 4712}, cwsr=0)
    start(family="hip")
    assert "GPU 0: tier T0: a process's work is not preempted" in gpurt("status").stdout


def test_the_benchmark_runs(built: Path, gpu: FakeGpu, tmp_path: Path) -> None:
    """Its figures mean nothing here; that there are all of them does."""
    version = tmp_path / "version"
    version.write_text("570.86.15\n")
    environment = {
        **os.environ, "GPURT_PRELOAD": str(built / "libgpurt-preload.so"), "LD_LIBRARY_PATH": str(built),
        "FAKE_GPU": str(gpu.path), "FAKE_NVIDIA_VERSION": str(version), "LD_PRELOAD": str(built / "libdriver.so"),
    }  # fmt: skip
    command = [sys.executable, ROOT / "scripts/bench", "gpu", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE)
    figures = {line["name"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}
    wanted = {"gpu.none.0.k1.p99_us", "gpu.isolated.1.k2.max_us", "gpu.preempt_us.p50", "gpu.resume_us.p99",
              "gpu.none.best_effort_percent_without_urgent"}  # fmt: skip
    assert all(figures[name] > 0 for name in wanted)
    assert {"gpu.isolated.1.k2.best_effort_percent", "gpu.isolated_percent"} <= set(figures)
    assert ("gpu.yield.0.k1.p50_us" in figures) != ("no row 'yield'" in done.stderr)


def test_the_benchmark_without_a_gpu() -> None:
    command = [sys.executable, ROOT / "scripts/bench", "gpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    if not done.stdout:
        assert "nothing is measured" in done.stderr


def test_hints_to_nvgpu(gpurt: Gpurt, start: Start) -> None:
    program, other = start(family="nvgpu"), start(family="nvgpu")
    (before,) = json.loads(gpurt("set", "slice", str(program.pid), "--json").stdout)["hints"]
    assert (before["pid"], before["slice_ns"], before["interleave"]) == (program.pid, 1_024_000, "low")
    done = gpurt("set", "slice", str(program.pid), "--slice", "10ms", "--interleave", "high", "--json")
    (after,) = json.loads(done.stdout)["hints"]
    assert (after["tsg"], after["slice_ns"], after["interleave"]) == (before["tsg"], 10_000_000, "high")
    assert "1024" in gpurt("set", "slice", str(other.pid)).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["1", "--slice", "2"], 2, "--slice"),
        (["1", "--slice", "999us"], 2, "1000 to 50000"),
        (["1", "--slice", "1500500ns"], 2, "whole number of microseconds"),
        (["1", "--interleave", "highest"], 2, "--interleave"),
        (["1"], 5, "process 1 has no time-slice groups"),
    ],
)
def test_hints_that_are_wrong(arguments: list[str], code: int, why: str, gpurt: Gpurt) -> None:
    done = gpurt("set", "slice", *arguments)
    assert (done.returncode, why in done.stderr, len(done.stderr.splitlines()) <= 4) == (code, True, True), done.stderr


def test_hints_without_the_node(gpurt: Gpurt) -> None:
    done = gpurt("set", "slice", "1", FAKE_GPU="/nowhere", LD_PRELOAD="")
    assert (done.returncode, "is this a Tegra?" in done.stderr) == (4, True), done.stderr

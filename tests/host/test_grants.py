# SPDX-License-Identifier: GPL-2.0
"""The CUDA samples that take a grant of sBEET, with real hosts: on a fake driver, and on SMs of a made-up machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from links import PATIENCE
from once import once
from processes import StartHost
from sm_build import HERE, INCLUDE, WARNINGS, compiler, fake_driver, run

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "examples/energy"
SERVE = (sys.executable, "-m", "pycontrol", "serve")
#: Kernels that 24 and 60 SMs saturate, on the groups of an H200's split.
FILE = """
[[gpu]]
name = "gpu"
compute_units = {units}
{limit}
granularity = {step}
static_power = "46W"
idle_power = "450mW"
[[profile]]
name = "small"
  [[profile.on]]
  gpu = "gpu"
  kernel = {{ work = "24ms", saturates = {small} }}
  power = "1W"
[[profile]]
name = "large"
  [[profile.on]]
  gpu = "gpu"
  kernel = {{ work = "24ms", saturates = {large} }}
  power = "1W"
[[task]]
name = "small"
period = "3s"
segments = [{{ profile = "small" }}]
[[task]]
name = "large"
period = "3s"
segments = [{{ profile = "large" }}]
"""


def _library() -> list[Path]:
    return sorted((ROOT / "userlib").glob("*.c"))


def built(folder: Path, name: str, *options: str) -> Path:
    """A sample without nvcc, with the library's sources."""
    for source in _library():
        done = run(compiler("cc"), "-std=gnu11", "-c", f"-I{INCLUDE}", source, "-o", folder / f"{source.stem}.o")
        assert not done.returncode, done.stderr
    objects = [folder / f"{source.stem}.o" for source in _library()]
    done = run(compiler("g++"), "-std=c++11", *WARNINGS, f"-I{INCLUDE}", f"-I{HERE}", "-x", "c++",
               SAMPLES / f"{name}.cu", "-x", "none", *objects, *options, "-pthread", "-o", folder / name)  # fmt: skip
    assert not done.returncode, done.stderr
    return folder / name


@pytest.fixture
def green(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "green", lambda folder: built(folder, "green", *fake_driver(folder))) / "green"


@pytest.fixture
def on_sms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "on-sms", lambda folder: built(folder, "sm")) / "sm"


def said(
    program: Path, host: Path, task: str, jobs: int = 1, **settings: str
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """The program's run with so many jobs, a period apart, and its output."""
    environment = {**os.environ, "GPURT_DEVICE": str(host), **settings}
    return subprocess.run([program, task, "3000000", str(jobs)], capture_output=True, text=True, env=environment,
                          timeout=PATIENCE, check=False)  # fmt: skip


def served(start_host: StartHost, folder: Path, step: int = 8, limit: int = 120) -> Path:
    file = folder / "h200.toml"
    file.write_text(FILE.format(units=132, limit=f"limit = {limit}", step=step, small=24, large=132))
    return start_host("--policy=sbeet", f"--energy-file={file}", "--mechanism=green-contexts", program=SERVE[1:])


def test_a_grant_becomes_a_green_context_of_that_size(start_host: StartHost, green: Path, tmp_path: Path) -> None:
    host, log = served(start_host, tmp_path), tmp_path / "log"
    for task, jobs, units in (("small", 2, 24), ("large", 1, 120)):
        log.unlink(missing_ok=True)
        done = said(green, host, task, jobs, FAKE_LOG=str(log))
        assert (done.returncode, done.stderr) == (0, "")
        granted = [line.partition(": ")[2] for line in done.stdout.splitlines()]
        assert granted == [f"GPU 0, units 0 to {units - 1}, partition {units // 8 - 1}"] * jobs
        assert log.read_text() == f"0 {units}\n"  # one context, of these SMs, for all its jobs


def test_a_file_that_is_not_of_this_gpu_ends_the_program(start_host: StartHost, green: Path, tmp_path: Path) -> None:
    done = said(green, served(start_host, tmp_path, step=4), "small", FAKE_STEP="16")
    assert done.returncode == 5
    assert "granularity in the host's file is not that of the GPU" in done.stderr
    done = said(green, served(start_host, tmp_path), "large", FAKE_GROUPS="14")
    assert done.returncode == 5
    assert "limit in the host's file is above the SMs" in done.stderr
    done = said(green, served(start_host, tmp_path), "small", FAKE_NO_GPU="1")
    assert (done.returncode, done.stderr) == (5, "green: cuInit: CUDA_ERROR_NO_DEVICE\n")


def test_a_grant_is_a_range_of_sms(start_host: StartHost, on_sms: Path, tmp_path: Path) -> None:
    file = tmp_path / "eight.toml"
    file.write_text(FILE.format(units=8, limit="", step=1, small=3, large=8))
    host = start_host("--policy=sbeet", f"--energy-file={file}", "--mechanism=sm-centric", program=SERVE[1:])
    for task, units in (("small", 3), ("large", 8)):
        done = said(on_sms, host, task)
        assert (done.returncode, done.stderr) == (0, "")
        granted, executed = done.stdout.splitlines()
        assert granted.endswith(f"units 0 to {units - 1}, partition {units - 1}")
        assert executed.startswith(f"executed once on SMs 0 to {units - 1}, in launch ")


@pytest.mark.parametrize("name", ["green", "sm"])
def test_nvcc_builds_the_samples(tmp_path: Path, name: str) -> None:
    done = run(compiler("nvcc"), "-Werror", "all-warnings", "-arch=sm_90", f"-I{INCLUDE}", "-c", SAMPLES / f"{name}.cu",
               "-o", tmp_path / "o")  # fmt: skip
    assert not done.returncode, done.stderr

# SPDX-License-Identifier: GPL-2.0
"""The manual's tutorial, on a fake driver: its program is compiled, run unmodified, and its system analysed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from machines import FAKES, ROOT, FakeGpu
from manual_pages import MANUAL, carry_out

from gpurt.units import parse_time

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

@pytest.mark.slow
def test_the_tutorial(built: Path, gpu: FakeGpu, host: Path, tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.write_text("570.86.15\n")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    # The programs need the fake driver, and not the compiler or the shell; they are children of `gpurt run`.
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GPURT_DEVICE": str(host),
        "GPURT_PRELOAD": str(built / "libgpurt-preload.so"), "LD_LIBRARY_PATH": str(built), "FAKE_GPU": str(gpu.path),
        "LIBRARY_PATH": str(built), "CPATH": str(FAKES / "include"), "FAKE_NVIDIA_VERSION": str(version),
        "FAKE_FAMILY": "nvidia", "LD_PRELOAD": str(built / "libdriver.so"),
    }  # fmt: skip
    executed = carry_out(MANUAL / "tutorial.md", tmp_path, environment)
    assert sum("gpurt run --auto" in one for one in executed) == 2
    assert sum(group["pid"] > 0 for group in gpu.ask()["groups"]) == 0  # all programs are gone
    assert len(gpu.order()) == 40 + 80  # frames of two runs, and of the four that are measured
    (measured,) = tomllib.loads((tmp_path / "detector.toml").read_text())["task"]
    assert [set(one) for one in measured["segments"]] == [{"cpu"}, {"misc", "gpu"}]
    assert (measured["priority"], measured["segments"][1]["misc"]) == (20, "?")
    assert parse_time(measured["segments"][1]["gpu"]["worst"]) > parse_time(measured["segments"][1]["gpu"]["best"])


@pytest.mark.slow
def test_a_reader_without_cuda_has_a_fake_driver(built: Path, host: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/tutorial", tmp_path / "tutorial")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                   "GPURT_DEVICE": str(host), "GPURT_PRELOAD": str(built / "libgpurt-preload.so")}  # fmt: skip
    steps = "cc detector.c -lcuda -o detector && gpurt run --auto -- ./detector"
    done = subprocess.run([ROOT / "scripts/fake-cuda", "bash", "-c", steps], cwd=tmp_path / "tutorial",
                          env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "GPU 0, nvidia-rm: tier T1" in done.stderr

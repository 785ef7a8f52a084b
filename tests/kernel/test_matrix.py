# SPDX-License-Identifier: GPL-2.0
"""Every kernel that is supported: the module builds without a warning, loads, and passes its tests inside."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    "amd64-5.10", "amd64-5.10-rt", "amd64-6.1", "amd64-6.1-rt", "amd64-6.12", "arm64-5.10", "arm64-6.1", "arm64-6.1-rt",
]  # fmt: skip
#: What runs on which kernel: all of it on one, elsewhere what could differ between kernels.
EVERYWHERE = ["tests/interface", "tests/kernel/guest"]
FULL = "amd64-6.1"
ONCE = [f"--ignore=tests/kernel/guest/{name}.py" for name in ("test_preload", "test_job_thread")]
SUITES = {name: [*EVERYWHERE, *([] if name == FULL else ONCE)] for name in NAMES if name.startswith("amd64")}
MISSING, HUNG, COMPLAINED, NOT_BOOTED = 3, 124, 125, 126
MEANING = {HUNG: "the machine hung", COMPLAINED: "the kernel complained", NOT_BOOTED: "it did not build or boot"}

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels are fetched for x86-64 machines only")


def vm_test(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs scripts/vm-test; skips where the machine lacks what it needs."""
    command = [str(ROOT / "scripts/vm-test"), *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    if run.returncode == MISSING:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    return run


def explain(run: subprocess.CompletedProcess[str]) -> str:
    """What went wrong in the machine, the end of its output last."""
    return f"{MEANING.get(run.returncode, '')}\n{run.stderr[-6000:]}\n{run.stdout[-6000:]}"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The smoke test, linked statically for each machine."""
    folder = tmp_path_factory.mktemp("smoke")
    built = {}
    for machine, compiler in {"amd64": "gcc", "arm64": "aarch64-linux-gnu-gcc"}.items():
        if shutil.which(compiler):
            flags = ["-static", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include"]
            built[machine] = folder / machine
            subprocess.run([compiler, *flags, ROOT / "tests/kernel/smoke.c", "-o", built[machine]], check=True)
    return built


@pytest.mark.parametrize("name", NAMES)
def test_the_module_builds_loads_and_works(smoke: dict[str, Path], name: str) -> None:
    """With its self-tests; a debug build differs in nothing else."""
    machine = name.split("-", maxsplit=1)[0]
    if machine not in smoke:
        pytest.skip(f"needs a compiler for {machine}")
    run = vm_test("--kernel", name, "--debug", "--timeout", "240", "--program", smoke[machine])
    assert run.returncode == 0, explain(run)
    assert "smoke ok" in run.stdout


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("name", SUITES)
def test_what_runs_inside_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    cpus, sequences = ("4", "60") if name == FULL else ("2", "10")
    monkeypatch.setenv("GPURT_TEST_SEQUENCES", os.environ.get("GPURT_TEST_SEQUENCES", sequences))
    run = vm_test("--kernel", name, "--cpus", cpus, "--timeout", "1100", "--out", tmp_path, *SUITES[name], "-q")
    report = tmp_path / "junit.xml"
    failed = []
    if report.exists():
        cases = ET.parse(report).getroot().iter("testcase")
        failed = [case.get("name") for case in cases if {"failure", "error"} & {child.tag for child in case}]
    assert failed == [], explain(run)
    assert run.returncode == 0, explain(run)


def test_results_are_brought_back(smoke: dict[str, Path]) -> None:
    """So that silence means something: exit codes, and what the kernel complains of."""
    assert vm_test("--command", "exit 7").returncode == 7
    complains = vm_test("--command", "echo 'BUG: planted' >/dev/kmsg")
    assert complains.returncode == COMPLAINED
    assert "BUG: planted" in complains.stdout + complains.stderr
    assert vm_test("--timeout", "30", "--command", "sleep 1000").returncode == HUNG
    assert vm_test("--options", "policy=77", "--command", "true").returncode == NOT_BOOTED
    assert smoke

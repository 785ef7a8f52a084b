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
from kernels import HERE, ROOT, explain, fake_driver, kfd_driver, run_script, static_program
from machines import build

LONG = bool(os.environ.get("GPURT_LONG"))
#: All of it runs in one kernel; in others, what could differ there.
FULL = "amd64-6.1"
EVERYTHING = ["tests/kernel/guest", "tests/interface"]
#: Priorities, wake-ups and locks; and calls of the kernel: threads, ends of processes, cgroups, credentials, loading.
PRIORITIES = ["smoke", "boosted", "ends", "gpu_thread", "raised", "patched_driver", "stops", "frozen"]
CALLS = ["smoke", "cgroups", "lifetimes", "device", "identity", "permissions", "stops", "frozen"]
#: The oldest kernel, where a spin lock sleeps; and the newest.
PARTS = {"amd64-5.10-rt": PRIORITIES, "amd64-6.12": CALLS}
#: Debian's newest, and that of its experimental suite, with a library of C and a compiler that this machine does not
#: have; they move.
NEWEST = ["amd64-newest", "amd64-next"]
#: Others of the same releases; tests/unit/test_bench.py boots the first all the same.
BETWEEN = ["amd64-6.1-rt", "amd64-5.10", *NEWEST]
FOREIGN = ["arm64-5.10", *(["arm64-6.1", "arm64-6.1-rt"] if LONG else [])]

pytestmark = [
    pytest.mark.slow(5),
    pytest.mark.timeout(14_400),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels are fetched for x86-64 machines only"),
]


@pytest.fixture
def programs(tmp_path: Path, name: str) -> Path:
    """A folder with what the tests inside execute, compiled here: it takes ten times as long inside."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for source in (HERE / "smoke.c", *(HERE / "guest").glob("*.c")):
        shutil.copy(static_program(source), folder / source.stem)
    shutil.copy(fake_driver(name), folder / "fake_driver.ko")
    if name == FULL and (driver := kfd_driver(name)):
        shutil.copy(driver, folder / "kfd_driver.ko")
    if name == FULL or LONG:
        (folder / "preload").mkdir()
        build(folder / "preload")
    return folder


def suites(name: str) -> list[str]:
    """The folders or files of tests that run in that kernel."""
    parts = PARTS.get(name, CALLS)
    if name == FULL or (LONG and name not in NEWEST):
        return EVERYTHING
    files = [folder / f"test_{part}.py" for part in parts for folder in map(Path, EVERYTHING)]
    found = [str(file) for file in files if (ROOT / file).exists()]
    assert len(found) == len(parts)
    return found


def failures(report: Path) -> dict[str | None, str]:
    """The tests that failed inside, and how."""
    found = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        for problem in (*case.findall("failure"), *case.findall("error")):
            found[case.get("name")] = (problem.text or "")[-1500:]
    return found


def run_inside(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs suites in that kernel."""
    cpus = max(2, min(4, os.cpu_count() or 2)) if name == FULL else 2
    command = ["--kernel", name, "--cpus", str(cpus), "--debug", *arguments]
    return run_script("vm-test", *command, "-v", "--durations=15")


@pytest.mark.parametrize("name", [pytest.param(FULL, marks=pytest.mark.slow(14)), *PARTS, *(BETWEEN if LONG else [])])
def test_the_module_works_and_what_runs_inside_passes(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """One boot, of the module with its self-tests; a debug build differs in nothing else."""
    monkeypatch.setenv("GPURT_TEST_SEQUENCES", os.environ.get("GPURT_TEST_SEQUENCES", "200" if LONG else "2"))
    out = tmp_path / "out"
    run = run_inside(name, "--with", programs, "--out", out, *suites(name))
    report = out / "junit.xml"
    assert report.exists(), explain(run)
    failed = failures(report)
    assert not failed, "\n".join(f"{test}:\n{how}" for test, how in failed.items())
    assert run.returncode == 0, explain(run)
    passed = [case.get("name") for case in ET.parse(report).getroot().iter("testcase") if not len(case)]
    assert "test_the_data_plane_and_clients_that_die" in passed


@pytest.mark.slow(2)
@pytest.mark.parametrize("name", FOREIGN)
def test_the_module_builds_loads_and_works(name: str) -> None:
    """With its self-tests, and one program: kernels of another architecture cannot run this machine's programs."""
    program = static_program(HERE / "smoke.c", "aarch64-linux-gnu-gcc")
    run = run_script("vm-test", "--kernel", name, "--debug", "--program", program)
    assert run.returncode == 0, explain(run)
    assert "smoke ok" in run.stdout

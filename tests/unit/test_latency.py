# SPDX-License-Identifier: GPL-2.0
"""`gpurt measure latency`, and `cpu_latency` of a file in analyze, simulate and report."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from calls import Gpurt, caller

from gpurt.errors import RefusedError
from pycontrol.machine.wakeups import measure_wakeups, observe

FILE = """[platform]
cpus = 1
epsilon = "0.2ms"
cpu_latency = "0.1ms"
[[task]]
name = "a"
cpu = 0
priority = 5
period = "20ms"
segments = [{ cpu = "1ms" }, { misc = "1ms", gpu = "2ms" }]
"""


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "late.toml"
    path.write_text(FILE)
    return str(path)


def test_wake_ups_are_counted_and_late() -> None:
    seen = observe(0, 100_000, 3_000_000)
    assert 0 < seen.least <= seen.mean <= seen.most
    assert seen.wakeups >= 1


def test_the_command_says_what_a_file_takes(gpurt: Gpurt) -> None:
    """Exit code 5 where SCHED_FIFO is not permitted."""
    cpu = str(min(os.sched_getaffinity(0)))
    code, out, err = gpurt("measure", "latency", "--cpu", cpu, "--interval", "100us", "--duration", "2ms", "--json")
    if code == 5:
        assert "become root or raise RLIMIT_RTPRIO" in json.loads(out or err)["error"]
        return
    data = json.loads(out)
    (row,) = data["wakeups"]
    assert (code, row["cpu"], row["count"] > 0) == (0, int(cpu), True)
    assert data["cpu_latency"].endswith(("us", "ms"))


def test_a_cpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(RefusedError, match="CPU 4095 is not one of this machine's"):
        measure_wakeups([4095], 1, 100_000, 1_000_000)


@pytest.mark.parametrize(
    "wrong", [("--duration", "0s"), ("--interval", "0ms"), ("--priority", "100"), ("--margin", "x")]
)
def test_wrong_usage(gpurt: Gpurt, wrong: tuple[str, str]) -> None:
    code, out, err = gpurt("measure", "latency", *wrong)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_wake_ups_are_explained(gpurt: Gpurt, file: str) -> None:
    """1 + 1 + 2, two updates of 0.2 ms, and four wake-ups."""
    code, out, _ = gpurt("analyze", file, "--explain", "a")
    assert code == 0
    assert any(line.split()[:2] == ["wake-ups", "0.400"] for line in out.splitlines()), out
    assert any(line.split()[:2] == ["total", "4.800"] for line in out.splitlines()), out


def test_a_test_without_wake_ups_is_refused(gpurt: Gpurt, file: str) -> None:
    code, out, _ = gpurt("analyze", file, "--test", "tsg-rr-suspend")
    assert code == 1
    assert "tsg-rr-suspend has no bound for cpu_latency" in out


def test_the_simulator_has_wake_ups(gpurt: Gpurt, file: str) -> None:
    seen = json.loads(gpurt("simulate", file, "--runs", "1", "--json")[1])["tasks"]["a"]["mort_ns"]
    Path(file).write_text(FILE.replace('cpu_latency = "0.1ms"\n', ""))
    assert json.loads(gpurt("simulate", file, "--runs", "1", "--json")[1])["tasks"]["a"]["mort_ns"] == seen - 200_000


def test_the_report_says_whether_a_file_has_it(gpurt: Gpurt, file: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert gpurt("report", file, "--elsewhere", "-o", str(page))[0] == 0
    assert "A wake-up of a thread takes up to 0.1 ms of its CPU." in page.read_text()
    Path(file).write_text(FILE.replace('cpu_latency = "0.1ms"\n', ""))
    assert gpurt("report", file, "--elsewhere", "-o", str(page))[0] == 0
    assert "the file has no cpu_latency" in page.read_text()

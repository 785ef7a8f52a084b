# SPDX-License-Identifier: GPL-2.0
"""`cpu_latency` of a file in analyze, simulate and report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Gpurt, caller

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

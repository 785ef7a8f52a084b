# SPDX-License-Identifier: GPL-2.0
"""`region` in [platform]: analyze, report, sensitivity, choose and simulate know it, as `analyze --region` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller

TWO = Path(__file__).resolve().parents[2] / "examples/two-programs.toml"


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capfd)


def bounds(document: dict[str, Any]) -> dict[str, int]:
    (test,) = document["tests"]
    return {name: one["wcrt_ns"] for name, one in test["tasks"].items()}


@pytest.mark.parametrize("policy", ["boosted", "segment"])
def test_every_command_knows_the_region_of_the_file(gpurt: Gpurt, tmp_path: Path, policy: str) -> None:
    plain, file, page = tmp_path / "plain.toml", tmp_path / "set.toml", tmp_path / "page.html"
    plain.write_text(TWO.read_text().replace("cpus = 2", f'cpus = 2\npolicy = "{policy}"'))
    file.write_text(plain.read_text().replace("cpus = 2", 'cpus = 2\nregion = "400us"'))
    without = bounds(json.loads(gpurt("analyze", plain, "--json")[1]))
    known = bounds(json.loads(gpurt("analyze", file, "--json")[1]))
    assert all(known[name] > bound for name, bound in without.items())
    assert bounds(json.loads(gpurt("analyze", plain, "--region", "400us", "--json")[1])) == known
    report = json.loads(gpurt("report", file, "--elsewhere", "-o", page, "--json")[1])
    assert bounds(report["analysis"]) == known
    code, out, _ = gpurt("simulate", file, "--runs", "50", "-o", tmp_path / "run.json", "--json")
    seen = json.loads(out)["tasks"]
    assert (code, {name: one["wcrt_ns"] for name, one in seen.items()}) == (0, known)
    before = json.loads(gpurt("simulate", plain, "--runs", "50", "--json")[1])["tasks"]
    assert sum(one["mort_ns"] for one in seen.values()) > sum(one["mort_ns"] for one in before.values())
    assert gpurt("trace", "check", tmp_path / "run.json", file)[0] == 0
    for command in ("margins", "plan modes"):
        one, other = (json.loads(gpurt(command, each, "--json")[1]) for each in (plain, file))
        assert one != other | {"file": one["file"]}, command

# SPDX-License-Identifier: GPL-2.0
"""`gpurt plan modes --host`: nothing is proposed that such a host cannot do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Gpurt, caller

TWO = Path(__file__).resolve().parents[2] / "examples/two-programs.toml"


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capfd)


def test_only_what_the_host_can_do_is_proposed(gpurt: Gpurt, tmp_path: Path) -> None:
    file = tmp_path / "set.toml"
    file.write_text(TWO.read_text().replace("cpus = 2", "cpus = 2\nthread_cpu = 0"))
    found = {}
    for host in ("module", "virtual", "agents"):
        told = json.loads(gpurt("plan", "modes", file, "--host", host, "--json")[1])
        found[host] = {(one["policy"], task["waiting"]) for one in told["ways"] for task in one["tasks"].values()}
    assert {("job", "busy"), ("boosted", "busy")} <= found["module"]
    assert found["virtual"] == found["module"] - {("job", "busy")}
    assert found["agents"] == found["virtual"] - {("boosted", "busy")}
    assert gpurt("plan", "modes", file, "--host", "agents", "--write")[0] == 0
    assert 'waiting = "busy"' not in file.read_text()
    assert gpurt("plan", "modes", file, "--host", "toaster")[0] == 2

# SPDX-License-Identifier: GPL-2.0
"""`gpurt report` with a host: what it has measured is on the page, and what it contradicts is the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from links import SocketClient

from pycontrol import cli

TWO = Path(__file__).resolve().parents[2] / "examples/two-programs.toml"


def test_updates_and_policy_are_those_of_the_host(
    host: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPURT_DEVICE", str(host))
    page = tmp_path / "page.html"

    def asked(*arguments: object) -> tuple[int, Any]:
        code = cli.run([*map(str, arguments), "--json"])
        return code, json.loads(capfd.readouterr().out)

    def states(document: Any) -> dict[str, str]:
        return {one["assumption"].partition(",")[0]: one["support"] for one in document["assumptions"]}

    with SocketClient(host) as client:
        client.begin(priority=5)
        client.end()
        asked("set", "policy", "segment")
        code, document = asked("report", TWO, "-o", page)
        _, status = asked("status")
        assert document["host"]["latency"] == asked("status", "latency")[1]["latency"]
        assert document["host"]["gpus"][0]["updates"] == status["gpus"][0]["updates"] >= 2
        assert code == 1
        assert states(document)["The GPU is scheduled by policy boosted"] == "refuted"
        assert "the host runs segment" in page.read_text()
        same = tmp_path / "same.toml"
        same.write_text(TWO.read_text().replace("[platform]", '[platform]\npolicy = "segment"'))
        _, document = asked("report", same, "-o", page)
        assert states(document)["The GPU is scheduled by policy segment"] == "checked"
        same.write_text(same.read_text().replace('epsilon = "1ms"', 'epsilon = "1ns"').replace('theta = "200us"', ""))
        code, document = asked("report", same, "-o", page)
        assert code == 1
        assert states(document)["No runlist update takes longer than alpha"] == "refuted"

# SPDX-License-Identifier: GPL-2.0
"""An owner that slept while others waited: status, metrics and the report tell of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from calls import caller, everywhere
from fit_cases import CLIENT, FILES, HOSTS, Fake

from gpurt.enums import State
from pycontrol.link import stuck
from pycontrol.link.control import connect
from pycontrol.observe.fit import fit
from pycontrol.observe.watch.metrics import HostCollector


def test_status_metrics_and_the_report_tell_of_owners_that_slept(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = HOSTS["emulator segment"]
    host = replace(known, gpus=[replace(known.gpus[0], stuck_count=3, stuck_ns=2 * 10**9)])
    everywhere(monkeypatch, fit.ask, lambda *_: host)
    everywhere(monkeypatch, connect, lambda *_: Fake(host))
    gpurt, file = caller(capfd), tmp_path / "set.toml"
    file.write_text(FILES["segment suspend"].text, encoding="utf-8")
    (gpu,) = json.loads(gpurt("status", "--json")[1])["gpus"]
    assert (gpu["stuck_ns"], gpu["stuck_count"]) == (2 * 10**9, 3)
    assert "sleeps inside its segment" in gpurt("status")[1]
    code, out, _ = gpurt("report", file, "-o", tmp_path / "page.html", "--json")
    assert (code, "slept while others waited" in json.loads(out)["why"]) == (1, True)
    families = {one.name: one.samples for one in HostCollector(lambda: Fake(host)).collect()}
    assert [one.value for one in families["gpurt_stuck_owners"]] == [3]
    assert [one.value for one in families["gpurt_stuck_seconds"]] == [2]


@pytest.mark.parametrize("others", [stuck.MAX_NAMED, stuck.MAX_NAMED + 1])
def test_so_many_who_wait_are_named_and_the_others_counted(others: int) -> None:
    one = replace(CLIENT, comm="w", state=State.PENDING)
    waiting = [replace(one, client=9 + number, pid=2**22 + number) for number in range(others)]
    of = stuck.Owner(1, ("", 0), {2**22 - 1: "owner"})
    told = stuck.stuck_text(CLIENT.gpu, of, 10**9, waiting)
    named = ", ".join(f"w-{2**22 + number}" for number in range(stuck.MAX_NAMED))
    more = ", 1 more" * (others > stuck.MAX_NAMED)
    assert f"keeps the GPU from {named}{more}; if" in told

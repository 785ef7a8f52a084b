# SPDX-License-Identifier: GPL-2.0
"""Does this host match this file?  `gpurt serve` with each fake board, and the records of such hosts in fit_cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fit_cases import ASKED, FILES, HOSTS, SERVED, with_commands
from machines import FakeGpu, Served, Start

from analysis.taskset import parse
from pycontrol import cli
from pycontrol.link.control import connect
from pycontrol.observe.fit import fit


@pytest.mark.parametrize("board", SERVED)
def test_hosts_with_agents_are_objected_to_as_their_records_are(
    board: str, serve: Callable[..., Served], start: Start, gpu: FakeGpu, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """All commands list the same, and none says yes beside one that defeats bounds."""
    family, _, preempts = SERVED[board].family, SERVED[board].driver, SERVED[board].preempts
    if not preempts:
        gpu.machine({"id": 4711}, {"id": 4712}, cwsr=0)
    host = serve("--policy=boosted", "--bound=answer=60s").path
    start(family=family, at=host)
    record, file = HOSTS[f"serve {board} boosted"], tmp_path / "set.toml"
    with connect(str(host)) as plane:
        (real,) = plane.status()
        assert {key: getattr(real, key) for key in ASKED} == {key: getattr(record.gpus[0], key) for key in ASKED}
        for name, one in FILES.items():
            parsed = parse(file, one.text)
            known = fit.ask(plane, parsed)
            here = replace(known, cpus=record.cpus, fifo=record.fifo, raises=record.raises, latency=record.latency)
            # the records have no client; a stranger is objected to where best effort has turns or the lock
            assert fit.objections(parsed, here) == fit.objections(parsed, replace(record, clients=known.clients)), name

    def asked(*words: object) -> tuple[int, list[dict[str, Any]]]:
        device = [] if words[0] == "trace" else ["--device", str(host)]
        code, out = cli.run([*device, *map(str, words), "--json"]), capfd.readouterr().out
        return code, json.loads(out.splitlines()[0] if words[0] == "watch" else out)["objections"]

    file.write_text(with_commands(FILES["boosted busy"].text), encoding="utf-8")
    code, found = asked("apply", file, "--ignore-missing")
    assert code == 1
    assert "asleep" in {one["code"] for one in found if "bounds" in one["defeats"]}
    assert asked("watch", file, "--until", "1ms") == (1, found)
    assert asked("report", file, "-o", tmp_path / "page.html") == (1, found)
    ran = asked("run", file, "--duration", "0.1s", "-o", tmp_path / "run.json")
    assert ran[0] == 1
    assert [one for one in ran[1] if one not in found and one["code"] not in ("cpus", "fifo", "raises")] == []
    assert asked("trace", "check", tmp_path / "run.json", file) == ran

# SPDX-License-Identifier: GPL-2.0
"""The dashboard's file; queries in Debian's Prometheus, which scrapes `gpurt watch --metrics` in each format."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dashboard import board, expressions
from links import PATIENCE, eventually
from served import serving
from watched import BOOT, BRIEF

from gpurt import Client, copy, job, segment
from pycontrol.link.control import connect

#: As Grafana fills them in, with "All" chosen.
FILLED = {"$__rate_interval": "60s", "$instance": ".*", "$task": ".*"}


def test_panels_have_places_and_numbers_of_their_own() -> None:
    panels = board()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        mine = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert max(x for x, _ in mine) < 24
        assert not mine & cells, panel["title"]
        cells |= mine
        assert panel["type"] == "row" or panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert {one["name"] for one in board()["templating"]["list"]} == {"datasource", "instance", "task"}


class Prometheus:
    """A running Prometheus that scrapes one target."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **values: str) -> Any:
        """The data that an endpoint of its API answers with."""
        query = urllib.parse.urlencode({name.replace("match", "match[]"): value for name, value in values.items()})
        with urllib.request.urlopen(f"http://{self._address}/api/v1/{path}?{query}", timeout=PATIENCE) as answer:
            return json.loads(answer.read())["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The present result of a query."""
        for variable, value in FILLED.items():
            expression = expression.replace(variable, value)
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            return bool(self.get("status/buildinfo"))
        except OSError:
            return False


@contextmanager
def prometheus(place: Path, target: str) -> Iterator[Prometheus]:
    """Debian's Prometheus."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = place / "prometheus.yml"
    scrape = {"job_name": "gpurt", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
    config.write_text(json.dumps({"scrape_configs": [scrape]}))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={place}/data",
               f"--web.listen-address={address}"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        try:
            found = Prometheus(address)
            eventually(found.ready)
            yield found
        finally:
            running.terminate()


def work(client: Client, first: int) -> None:
    """Two jobs with a segment and a copy each, and one that was released at boot."""
    for number in (first, first + 1):
        with job("camera", number, client=client), segment(7, client=client), copy(client=client):
            pass
    with job("camera", first + 2, BOOT, client=client):
        pass


@pytest.mark.skipif(os.environ.get("GPURT_LONG") != "1", reason="GPURT_LONG=1 has Prometheus scrape it")
def test_prometheus_answers_every_query_of_the_dashboard(host: Path, tmp_path: Path) -> None:
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        pytest.skip("needs Debian's prometheus: apt-get install prometheus")
    (tmp_path / "tasks.toml").write_text(BRIEF)
    with serving(host, str(tmp_path / "tasks.toml")) as served:
        checked = subprocess.run(["promtool", "check", "metrics"], input=served.text(), capture_output=True, text=True,
                                 timeout=PATIENCE, check=False)  # fmt: skip
        assert (checked.returncode, checked.stderr) == (0, "")
        target = served.url.removeprefix("http://").removesuffix("/metrics")
        with prometheus(tmp_path, target) as asked, Client(str(host)) as client:
            for first in (1, 4, 7):  # each seen before the next begins
                work(client, first)
                eventually(
                    lambda first=first: [one["value"][1] for one in asked.query("gpurt_jobs_total")] == [f"{first + 2}"]
                )
            for _, expression, _ in expressions():
                eventually(lambda expression=expression: asked.query(expression))
            assert asked.get("label/task/values", match="gpurt_deadline_seconds") == ["camera"]
            with connect(str(host)) as plane:
                begins = next(str(one.count) for one in plane.latency() if one.cause.word == "begin")
            count = 'gpurt_runlist_update_seconds_count{cause="begin"}'
            eventually(lambda: [one["value"][1] for one in asked.query(count)] == [begins])

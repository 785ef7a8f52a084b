# SPDX-License-Identifier: GPL-2.0
"""How `gpurt watch --metrics` answers scrapers: what it counts, and scrapers that misbehave."""

from __future__ import annotations

import gzip
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from links import PATIENCE, eventually
from processes import host_at
from served import Served, serving
from watched import FILE

from gpurt import Client, job, segment
from pycontrol.link.control import connect

pytest.importorskip("prometheus_client", reason="needs prometheus-client: scripts/setup --with-tests")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """A host and its metrics."""
    place = tmp_path_factory.mktemp("shared") / "host.sock"
    with host_at(place), serving(place) as served:
        yield place, served


def test_histograms_have_the_hosts_counts(host: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(FILE)
    with serving(host, str(tmp_path / "tasks.toml")) as served:
        with Client(str(host)) as client:
            for number in range(5):
                with job("camera", number, client=client), segment(5, client=client):
                    pass
        eventually(lambda: served.value("gpurt_jobs_total", task="camera") == 5)
        with connect(str(host)) as plane:
            times = {one.cause.word: one for one in plane.latency()}
        found = served.samples()
    assert sum(one.count for one in times.values()) > 0
    for cause, one in times.items():
        labels = {("gpu", "0"), ("cause", cause)}
        name = "gpurt_runlist_update_seconds"
        assert found[f"{name}_count", frozenset(labels)] == one.count
        assert found[f"{name}_sum", frozenset(labels)] == pytest.approx(one.total / 1e9)
        counts = [value for (which, key), value in found.items() if which == f"{name}_bucket" and labels < key]
        assert counts == sorted(counts)
        assert counts[-1] == one.count
    assert found["gpurt_response_seconds_count", frozenset({("task", "camera")})] == 5


@pytest.mark.parametrize(
    "accept",
    [None, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text;version=9",
     "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"],
)  # fmt: skip
def test_every_scraper_gets_text(shared: tuple[Path, Served], accept: str | None) -> None:
    _, served = shared
    headers = {"Accept": accept} if accept else {}
    kind, data = served.get(headers)
    assert kind.startswith("text/plain; version=")
    assert "gpurt_host_up 1.0" in data.decode().splitlines()
    assert gzip.decompress(served.get({**headers, "Accept-Encoding": "gzip"})[1])
    only = served.get(headers, "?name[]=gpurt_host_up")[1].decode()
    assert [line for line in only.splitlines() if not line.startswith("#")] == ["gpurt_host_up 1.0"]


def test_two_scrapes_at_once_have_the_same(shared: tuple[Path, Served]) -> None:
    host, served = shared
    found: list[str] = []
    with Client(str(host)) as client:
        with segment(5, client=client):
            pass
        threads = [threading.Thread(target=lambda: found.append(served.text())) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_addresses_that_others_reach_are_said(host: Path) -> None:
    with serving(host, address="0.0.0.0") as served:
        assert served.said == "note: 0.0.0.0 is no loopback address: everyone who reaches it can read\n"
        with urllib.request.urlopen(served.url.replace("0.0.0.0", "127.0.0.1"), timeout=PATIENCE) as answer:
            assert answer.status == 200


def test_an_address_of_ipv6(host: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"needs IPv6: {error.strerror}")
    with serving(host, address="[::1]") as served:
        assert served.said == ""
        assert served.url.startswith("http://[::1]:")
        assert served.value("gpurt_host_up") == 1

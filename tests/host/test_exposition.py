# SPDX-License-Identifier: GPL-2.0
"""How `gpurt watch --metrics` answers scrapers: formats, native histograms, and scrapers that misbehave."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from links import PATIENCE, eventually
from processes import host_at
from served import Served, serving
from watched import FILE

from gpurt import Client, job, segment
from gpurt.text import visible
from pycontrol.live.control import UpdateLatency, connect

openmetrics = pytest.importorskip(
    "prometheus_client.openmetrics.parser", reason="needs prometheus-client: scripts/setup --with-tests"
)
#: The header that Prometheus 2.42 sends with --enable-feature=native-histograms.
NATIVE = {"Accept": "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
                    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
                    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"}  # fmt: skip
#: The first 14 bytes of a request that never ends.
DRIP = b"GET /metrics H"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """A host and its metrics, with the names of all processes."""
    place = tmp_path_factory.mktemp("shared") / "host.sock"
    with host_at(place), serving(place, "--names", "all") as served:
        yield place, served


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of protocol buffers, and where it ends."""
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return number, at


def fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message, by number."""
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: Any
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        else:
            assert key & 7 == 2
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        found[key >> 3].append(value)
    assert at == len(data)
    return found


def signed(number: int) -> int:
    return -(number + 1) // 2 if number & 1 else number // 2


def families(data: bytes) -> dict[str, dict[frozenset[tuple[str, str]], dict[int, list[Any]]]]:
    """The values of delimited messages MetricFamily (client_model's metrics.proto), by the family's name and labels."""
    found: dict[str, dict[frozenset[tuple[str, str]], dict[int, list[Any]]]] = {}
    at = 0
    while at < len(data):
        size, at = varint(data, at)
        family, at = fields(data[at : at + size]), at + size
        name = family[1][0].decode()
        assert name not in found
        found[name] = {}
        for metric in map(fields, family[4]):
            pairs = [fields(one) for one in metric.pop(1, [])]
            labels = frozenset((one[1][0].decode(), one[2][0].decode()) for one in pairs)
            assert labels not in found[name]
            (value,) = metric.values()  # gauge, counter or histogram
            found[name][labels] = fields(value[0])
    return found


def native(value: dict[int, list[Any]]) -> dict[int, int]:
    """The counts of a native histogram by the index of their bucket; the zero bucket has none."""
    counts: dict[int, int] = {}
    index = count = 0
    deltas = iter(value.get(13, []))
    for span in map(fields, value.get(12, [])):
        index += signed(span[1][0])
        for _ in range(span[2][0]):
            count += signed(next(deltas))
            counts[index] = count
            index += 1
    assert not list(deltas)
    return counts


def check_native(value: dict[int, list[Any]], times: UpdateLatency) -> None:
    """Bucket by bucket against the host's own, by the definition of the schema in floating point."""
    from gpurt._gpurt import lib

    assert signed(value[5][0]) == 3
    expected: dict[int, int] = defaultdict(int)
    for bucket, count in enumerate(times.buckets[1:-1], 1):
        longest = (lib.gpurt_hist_floor(bucket + 1) - 1) / 1e9
        index = next(i for i in range(-300, 300) if longest <= 2 ** (i / 8))
        if count:
            expected[index] += count
    assert times.buckets[-1] == 0
    assert native(value) == expected
    assert value[7] == [times.buckets[0]]
    assert value[1] == [times.count]
    assert value[2][0] == pytest.approx(times.total / 1e9)
    assert times.buckets[0] + sum(expected.values()) == times.count


def test_native_histograms_have_the_hosts_counts(host: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(FILE)
    with serving(host, str(tmp_path / "tasks.toml")) as served:
        with Client(str(host)) as client:
            for number in range(5):
                with job("camera", number, client=client), segment(5, client=client):
                    pass
        eventually(lambda: served.value("gpurt_jobs_total", task="camera") == 5)
        with connect(str(host)) as plane:
            times = {one.cause.word: one for one in plane.latency()}
        kind, data = served.get({**NATIVE, "Accept-Encoding": "gzip"})
        assert kind.startswith("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily;")
        found = families(gzip.decompress(data))
        text = served.samples()
    assert sum(one.count for one in times.values()) > 0
    for cause, one in times.items():
        check_native(found["gpurt_runlist_update_seconds"][frozenset({("gpu", "0"), ("cause", cause)})], one)
    response = found["gpurt_response_seconds"][frozenset({("task", "camera")})]
    assert sum(native(response).values()) + response[7][0] == response[1][0] == 5
    # The classic ones are there as well, and everything else, with the values of the text.
    for name, values in found.items():
        for labels, value in values.items():
            if not name.endswith("_seconds") or (name, labels) in text:  # no histogram
                assert value[1] == [text[name, labels]]
                continue
            assert value[1] == [text[f"{name}_count", labels]]
            for bucket in map(fields, value[3]):
                le = {float(dict(key)["le"]): count for (which, key), count in text.items()
                      if which == f"{name}_bucket" and labels < key}  # fmt: skip
                assert bucket[1][0] == le[bucket[2][0]]
    assert {
        name.removesuffix("_count") for name, _ in text if not name.endswith(("_bucket", "_sum", "_created"))
    } == set(found)


def test_each_scraper_gets_a_format_that_it_asked_for(shared: tuple[Path, Served]) -> None:
    plain = "text/plain; version=0.0.4; charset=utf-8"
    settled = tuple(f"application/openmetrics-text; version={version};" for version in ("1.0.0", "0.0.1"))
    _, served = shared
    assert served.get()[0] == plain
    kind, data = served.get({"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert kind.startswith(settled)
    names = {one.name for one in openmetrics.text_string_to_metric_families(data.decode())}
    assert {"gpurt_host_up", "gpurt_runlist_update_seconds", "gpurt_runlist_updates"} <= names
    # Version 2.0.0 in prometheus-client is not what its specification says, and other versions are its error 500.
    for version in ("2.0.0", "9", "abc"):
        kind, data = served.get({"Accept": f"application/openmetrics-text;version={version},text/plain;q=0.1"})
        assert (kind, b"# EOF" in data) == (plain, False)
    assert served.get({"Accept": "text/plain;version=x"})[0] == plain
    # Preferred less, or of another encoding: not what is answered.
    for other in ("delimited;q=0.1", "delimited;q=0", "delimited;q=x", "text"):
        kind, _ = served.get({"Accept": NATIVE["Accept"].replace("delimited", other)})
        assert kind.startswith(settled)
    only = served.get(query="?name[]=gpurt_host_up")[1].decode()
    assert [line for line in only.splitlines() if not line.startswith("#")] == ["gpurt_host_up 1.0"]
    assert set(families(served.get(NATIVE, "?name[]=gpurt_host_up")[1])) == {"gpurt_host_up"}


def test_scrapers_that_never_end_keep_nobody_out(host: Path) -> None:
    """More than there are places for: the oldest has to go.  SIGTERM ends it all the same."""
    from pycontrol.live.exposition import MOST

    with serving(host) as served:
        address = "127.0.0.1", int(served.url.split(":")[2].split("/")[0])
        stuck = [socket.create_connection(address, PATIENCE) for _ in range(MOST + 8)]
        for one in stuck:
            one.sendall(DRIP)
        assert served.value("gpurt_host_up") == 1
        for one in stuck[:8]:
            assert one.recv(1) == b""
        assert served.value("gpurt_host_up") == 1
    for one in stuck:
        one.close()


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


@pytest.fixture
def comm() -> Iterator[Path]:
    """Where this process's name is; it has its own again afterwards."""
    path = Path("/proc/self/comm")
    name = path.read_bytes()
    yield path
    path.write_bytes(name.rstrip(b"\n"))


def test_hostile_names_of_processes_are_labels(shared: tuple[Path, Served], comm: Path) -> None:
    host, served = shared
    for name in (b'a"b\\c\nd', b"\xff\xfe{x}", "\u202ee\u2028".encode(), b"} 1\n# EOF\r"):
        comm.write_bytes(name)
        label = visible(name.decode(errors="replace"))
        with Client(str(host)) as client, segment(5, client=client):
            assert served.value("gpurt_client_segments_total", gpu="0", client=label) == 1
            found = families(served.get(NATIVE)[1])["gpurt_client_segments_total"]
            assert frozenset({("gpu", "0"), ("client", label)}) in found


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

# SPDX-License-Identifier: GPL-2.0
"""`gpurt watch --metrics`: a scrape, read by prometheus_client's parser, and by Prometheus if there is one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from dashboard import check_names
from links import PATIENCE, eventually
from processes import host_at, started
from served import Served, serving
from watched import BOOT, BRIEF, FILE

from gpurt import Client, job, segment
from pycontrol.link.control import ClientInfo, Control, GpuStatus, connect
from pycontrol.machine import procs
from pycontrol.observe.watch.listening import address_of

pytest.importorskip("prometheus_client.parser", reason="needs prometheus-client: scripts/setup --with-tests")
from pycontrol.observe.watch.metrics import HostCollector


@pytest.fixture
def serve(host: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(*options: str) -> Served:
        running.append(Served(host, *options))
        return running[-1]

    yield start
    for one in running:
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(PATIENCE) == 0


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE)
    return str(path)


def test_a_scrape_says_what_the_host_says(host: Path, serve: Callable[..., Served]) -> None:
    served = serve()
    with Client(str(host)) as client:
        for _ in range(3):
            with segment(5, client=client):
                pass
        found = served.samples()
        assert found["gpurt_host_up", frozenset()] == 1
        assert served.value("gpurt_clients", gpu="0", state="idle") == 1
        assert procs.name(os.getpid()) not in served.text()
    with connect(str(host)) as plane:
        times = {one.cause.word: one for one in plane.latency()}
    found = served.samples()
    for cause, one in times.items():
        labels = {("gpu", "0"), ("cause", cause)}
        assert found["gpurt_runlist_update_seconds_count", frozenset(labels)] == one.count
        assert found["gpurt_runlist_update_seconds_sum", frozenset(labels)] == pytest.approx(one.total / 1e9)
        mine = [(float(dict(key)["le"]), value) for (name, key), value in found.items()
                if name == "gpurt_runlist_update_seconds_bucket" and labels < key]  # fmt: skip
        counts = [count for _, count in sorted(mine)]
        assert counts == sorted(counts)
        assert counts[-1] == one.count
        assert all(count == (one.count if edge > one.maximum / 1e9 * 1.5 else count) for edge, count in mine)


class Hosts:
    """Hosts, one after the other, as a connection to the present one: ``found`` has its clients."""

    def __init__(self, *found: ClientInfo) -> None:
        self.found = list(found)
        self.gpus: list[GpuStatus] = []

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None: ...

    def status(self) -> list[Any]:
        return self.gpus

    def clients(self) -> list[ClientInfo]:
        return self.found

    def latency(self) -> list[Any]:
        return []

    buses = latency


def test_jobs_that_own_units_are_counted_once_however_many_gpus_there_are(host: Path) -> None:
    with connect(str(host)) as plane:
        (gpu,) = plane.status()
    hosts = Hosts()
    gpu = replace(gpu, unit_policy="sbeet", jobs_done=7, jobs_late=2, jobs_skipped=3, jobs_lost=1, jobs_overdue=1)
    hosts.gpus = [gpu, replace(gpu, gpu=1, jobs_overdue=0)]
    collector = HostCollector(lambda: cast("Control", hosts))
    found = {one.name: one.samples for one in collector.collect()}
    jobs = {one.labels["outcome"]: one.value for one in found["gpurt_unit_jobs"]}
    assert jobs == {"in-time": 5, "late": 2, "skipped": 3, "lost": 1}
    assert {one.labels["gpu"]: one.value for one in found["gpurt_overdue_unit_jobs"]} == {"0": 1, "1": 0}


def test_jobs_are_counted_by_task_and_the_dashboard_names_what_there_is(
    host: Path, serve: Callable[..., Served], file: str
) -> None:
    late = BRIEF.partition("[[task]]")[2].replace("camera", "lidar").replace("priority = 7", "priority = 8")
    Path(file).write_text(FILE.replace('"100s"', '"100ms"') + f"[[task]]{late}")
    served = serve(file)
    with Client(str(host)) as client, Client(str(host)) as other:
        with job("camera", 1, client=client), segment(7, client=client):
            pass
        with job("lidar", 2, BOOT, client=other):
            pass
        deadline = {"kind": "deadline", "sort": "promise", "task": "lidar"}
        eventually(lambda: served.value("gpurt_findings_total", **deadline) == 1)
        found = served.samples()
    camera, lidar = (frozenset({("task", name)}) for name in ("camera", "lidar"))
    assert found["gpurt_response_seconds_count", camera] == found["gpurt_response_seconds_count", lidar] == 1
    assert (found["gpurt_deadline_misses_total", camera], found["gpurt_deadline_misses_total", lidar]) == (0, 1)
    assert found["gpurt_deadline_seconds", camera] == 1000
    assert found["gpurt_owned_seconds_total", camera] > 0
    assert found["gpurt_longest_response_seconds", lidar] > found["gpurt_deadline_seconds", lidar] == 0.9
    lost = frozenset({("kind", "lost"), ("sort", "blind"), ("task", "")})
    assert found["gpurt_findings_total", lost] == 0  # there before the first one, which is no increase otherwise
    check_names(found)


def test_a_host_that_goes_is_said_until_it_comes_back(tmp_path: Path, file: str) -> None:
    """So is the watch, which goes on: what happened in between is a finding."""
    place = tmp_path / "own.sock"
    lost = {"kind": "lost", "sort": "blind", "task": ""}
    with host_at(place):
        served = Served(place, file)
        assert served.value("gpurt_host_up") == 1
        assert served.value("gpurt_watching") == 1
        assert served.value("gpurt_findings_total", **lost) == 0
    assert served.value("gpurt_host_up") == 0
    eventually(lambda: served.value("gpurt_watching") == 0)
    eventually(lambda: served.value("gpurt_findings_total", **lost) != 0)
    with host_at(place):
        assert served.value("gpurt_host_up") == 1
        eventually(lambda: served.value("gpurt_watching") == 1)
        with Client(str(place)) as client:
            with job("camera", 1, client=client), segment(7, client=client):
                pass
            eventually(lambda: served.value("gpurt_jobs_total", task="camera") == 1)
        said = served.end().splitlines()
    assert said[0].startswith("gpurt: the watch has ended: ")
    assert said[-1] == "gpurt: the watch goes on"


def test_a_host_that_hangs_is_down_before_a_scraper_gives_up(tmp_path: Path) -> None:
    """Also to the second of two scrapers at once.  Other commands wait for a host for 30 s."""
    place = tmp_path / "own.sock"
    process = started(place)
    try:
        with serving(place) as served:
            os.kill(process.pid, signal.SIGSTOP)
            found: list[float | None] = []
            asked = [threading.Thread(target=lambda: found.append(served.value("gpurt_host_up", patience=25)))
                     for _ in range(2)]  # fmt: skip
            for one in asked:
                one.start()
            for one in asked:
                one.join()
            assert found == [0, 0]
            os.kill(process.pid, signal.SIGCONT)
            assert served.value("gpurt_host_up") == 1
    finally:
        process.kill()
        process.wait()


def test_a_taken_port_and_wrong_addresses_are_one_line(host: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        cases = [(["--listen", listen], 6, f"--listen {listen}: Address already in use"),
                 (["--listen", "localhost:x"], 2, "--listen: "), (["--test", "gcaps-busy"], 2, "--test goes with"),
                 (["/nonexistent"], 3, "/nonexistent: ")]  # fmt: skip
        for options, code, text in cases:
            command = [sys.executable, "-m", "pycontrol", "--device", host, "watch", "--metrics", *options]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert (done.returncode, done.stdout) == (code, "")
            assert done.stderr.startswith(f"gpurt: {text}")
            assert done.stderr.count("\n") == 1


def test_a_release_of_the_library_that_is_too_old_is_one_line(tmp_path: Path) -> None:
    """Ubuntu 20.04's, say.  Ubuntu 22.04's and Debian 12's are not."""
    made = tmp_path / "prometheus_client-0.7.1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: prometheus_client\nVersion: 0.7.1\n")
    command = [sys.executable, "-m", "pycontrol", "--device", tmp_path, "watch", "--metrics"]
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=path)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("gpurt: prometheus-client 0.7.1 is too old: pip install")
    assert done.stderr.count("\n") == 1


def test_addresses() -> None:
    assert address_of("9000") == ("127.0.0.1", 9000)
    assert address_of(":9000") == ("127.0.0.1", 9000)
    assert address_of("0.0.0.0:1") == ("0.0.0.0", 1)
    assert address_of("[::1]:9000") == ("::1", 9000)

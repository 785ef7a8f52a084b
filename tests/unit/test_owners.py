# SPDX-License-Identifier: GPL-2.0
"""Owners of processes that pass for a file's tasks, from a made-up /proc."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.taskset import Launch
from gpurt.enums import EventKind
from pycontrol.link.control import EventRecord
from pycontrol.machine import procs
from pycontrol.observe.watch.watch import MAX_CLIENTS_KNOWN, Owners

BEGUN = EventRecord(EventKind.JOB_BEGIN, 1, 0, 3, 77, "camera", 20, None, 0, 0, "camera", 8)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procs, "PROC", tmp_path)
    for pid, user, cgroup in ((77, 1000, "camera"), (78, 1000, "camera/child"), (79, 1001, "cam\x1b")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\tx\nUid:\t0\t{user}\t0\t0\n")
        (folder / "cgroup").write_text(f"1:name=systemd:/x\n0::/robot/{cgroup}\n")


def doubts(owners: Owners, record: EventRecord, task: str = "camera") -> list[str]:
    return [text for _, text in owners.doubts(record, task)]


@pytest.mark.usefixtures("process")
def test_another_user_and_another_cgroup() -> None:
    owners = Owners({"camera": Launch(cgroup="/robot/camera"), "free": Launch()})
    assert doubts(owners, BEGUN) == doubts(owners, replace(BEGUN, pid=78)) == []
    assert doubts(owners, replace(BEGUN, pid=79, comm="x")) == [
        "x-79 of user 1001 passes for camera, and before it a process of user 1000 did",
        "x-79 passes for camera in cgroup /robot/cam\\x1b, and the file has it in /robot/camera",
    ]
    assert doubts(owners, replace(BEGUN, pid=79), "free") == []  # the first one there, and no cgroup is asked for
    assert len(doubts(owners, BEGUN, "free")) == 1
    assert doubts(owners, replace(BEGUN, pid=80)) == []  # it is gone


def test_a_client_is_looked_at_once_under_each_name() -> None:
    owners = Owners({})
    assert [owners.new(BEGUN, name) for name in ("camera-77", "camera-77", "camera", "camera")] == [True, False] * 2
    gone = replace(BEGUN, kind=EventKind.GONE)
    assert not owners.new(gone, "other")
    assert owners.new(BEGUN, "camera")
    assert not owners.new(replace(BEGUN, client=4, pid=0), "camera")
    for client in range(MAX_CLIENTS_KNOWN + 5):
        owners.new(replace(BEGUN, client=client), "camera")
    assert len(owners._seen) <= MAX_CLIENTS_KNOWN

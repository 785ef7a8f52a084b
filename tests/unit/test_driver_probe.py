# SPDX-License-Identifier: GPL-2.0
"""What `gpurt measure board --driver` makes of checks that hang, die or fail; tests/kernel/guest has a driver."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpurt.errors import DeviceError
from pycontrol.doctor import Finding, Status
from pycontrol.machine import probe

NOBODY = probe.Target("/none", 0, "amdgpu", None)


def found(function: Callable[[probe.Target], Finding], limit: float = 30) -> Finding:
    (one,) = probe.run([probe.Check("it", limit, function)], NOBODY)
    return one


def test_what_a_check_finds_is_passed_on() -> None:
    one = Finding("ä name", Status.WARN, "text\nof two lines", "do this")
    assert found(lambda _: one) == one


def test_a_check_that_fails_says_why() -> None:
    def fails(_: probe.Target) -> Finding:
        raise DeviceError("no such thing")

    assert found(fails) == Finding("it", Status.FAIL, "no such thing")


def test_a_check_that_dies_has_failed() -> None:
    def dies(_: probe.Target) -> Finding:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    one = found(dies)
    assert (one.status, one.text) == (Status.FAIL, "ended without an answer")


def test_a_check_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    def hangs(_: probe.Target) -> Finding:
        child = os.fork()
        if not child:
            signal.pause()
        (tmp_path / "pids").write_text(f"{os.getpid()} {child}")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
        raise AssertionError

    one = found(hangs, limit=3)
    assert (one.status, one.text) == (Status.FAIL, "no answer within 3 s")
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert ends(pid)


def ends(pid: int) -> bool:
    """Whether it is gone, or a zombie that its new parent has yet to reap, soon."""
    for _ in range(1000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(("value", "status"), [("1\n", Status.OK), ("0\n", Status.FAIL), (None, Status.WARN)])
def test_whether_amdgpu_saves_waves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, status: Status
) -> None:
    monkeypatch.setattr(probe, "MODULES", tmp_path)
    (preemption,) = [check for check in probe.BASIC if check.name == "preemption"]
    if value:
        (tmp_path / "amdgpu/parameters").mkdir(parents=True)
        (tmp_path / "amdgpu/parameters/cwsr_enable").write_text(value)
    assert preemption.find(NOBODY).status is status

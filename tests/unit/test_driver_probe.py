# SPDX-License-Identifier: GPL-2.0
"""Answers of `gpurt measure board` to checks that hang, die or fail; tests/kernel/guest has a driver."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from calls import interrupted_starts
from links import PATIENCE, eventually

from gpurt.errors import DeviceError
from pycontrol import ending
from pycontrol.measure import probe
from pycontrol.observe.doctor import Diagnosis, Status

#: Checks are forked, for the command has one thread; this process, which calls it, may have another one of execnet's.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
NOBODY = probe.Target("/none", 0, "amdgpu", None)


def found(function: Callable[[probe.Target], Diagnosis], limit: float = 30) -> Diagnosis:
    (one,) = probe.run_probe([probe.Check("it", limit, function)], NOBODY)
    return one


def test_what_a_check_finds_is_passed_on() -> None:
    one = Diagnosis("ä name", Status.WARN, "text\nof two lines", "do this")
    assert found(lambda _: one) == one


def test_a_check_that_fails_says_why() -> None:
    def fails(_: probe.Target) -> Diagnosis:
        raise DeviceError("no such thing")

    assert found(fails) == Diagnosis("it", Status.FAIL, "no such thing")


def test_a_check_that_dies_has_failed() -> None:
    def dies(_: probe.Target) -> Diagnosis:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    one = found(dies)
    assert (one.status, one.text) == (Status.FAIL, "ended without an answer")


def test_a_check_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    def hangs(_: probe.Target) -> Diagnosis:
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


def test_what_nvidias_firmware_preempts_is_not_tried_without_a_program() -> None:
    """It says nothing of itself, as amdgpu does; a program with long kernels shows it."""
    (preemption,) = [check for check in probe.BASIC if check.name == "preemption"]
    found = preemption.find(probe.Target("/none", 0, "nvidia", None))
    assert (found.status, found.text[:9], "--load" in (found.cure or "")) == (Status.WARN, "not tried", True)


#: A program that works for ever, and is off while the file is there: first come what it does then and afterwards.
LOAD = """
import os, sys, time
file, seen, then, afterwards = sys.argv[1:]
while True:
    if os.path.exists(file):
        open(seen, "w").close()
        exec(then)
        while os.path.exists(file):
            time.sleep(0.001)
        exec(afterwards)
    os.write(1, b".")
    time.sleep(0.001)
"""
SOME_MORE = "for _ in range(6): time.sleep(0.05); os.write(1, b'.')"


def found_with(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, then: str, afterwards: str, acts: bool
) -> Diagnosis:
    """The diagnosis of the program by that check; the driver takes it off by making a file.

    It is off until it has seen that, however slow it is.  If it ``acts`` then, that is waited for.
    """
    off, seen = folder / "off", folder / "seen"

    @contextmanager
    def owning(_: probe.Target) -> Iterator[None]:
        seen.unlink(missing_ok=True)
        off.touch()
        try:
            yield
        finally:
            eventually(seen.exists)
            off.unlink()

    (folder / "load.py").write_text(LOAD)
    monkeypatch.setattr(probe, "_owning", owning)
    monkeypatch.setattr(probe, "SWITCH_ROUNDS", 2)
    monkeypatch.setattr(probe, "BESIDE", PATIENCE if acts else 1.0)
    (check,) = [one for one in probe.WITH_LOAD if one.name == name]
    load = f"{sys.executable} -S {folder}/load.py {off} {seen} {then!r} {afterwards!r}"
    return check.find(probe.Target("/none", 0, "nvidia", load))


@pytest.mark.parametrize(
    ("then", "afterwards", "status", "text"),
    [
        ("pass", "pass", Status.OK, "waits, and goes on"),
        (SOME_MORE, "pass", Status.FAIL, "it executed work: what schedules it also switches it on"),
        ("sys.exit(3)", "pass", Status.FAIL, "it ended with 3 instead of waiting"),
        ("pass", "sys.exit(3)", Status.FAIL, "it did not go on when the GPU was everybody's"),
    ],
)
def test_a_program_that_begins_beside_the_owner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: str, afterwards: str, status: Status, text: str
) -> None:
    found = found_with(monkeypatch, tmp_path, "a program that begins while another has the GPU", then, afterwards,
                       then != "pass")  # fmt: skip
    assert (found.status, found.text) == (status, text)


@pytest.mark.parametrize(
    ("then", "at_once", "status"), [("pass", 10**12, Status.OK), (SOME_MORE, 5_000_000, Status.WARN)]
)
def test_how_long_a_program_prints_that_is_taken_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: str, at_once: int, status: Status
) -> None:
    """One that goes on for 0.3 s does not stop at once; what is at once on this machine, nobody knows."""
    monkeypatch.setattr(probe, "AT_ONCE_NS", at_once)
    found = found_with(monkeypatch, tmp_path, "the last print of a program that is taken off", then, "pass",
                       then != "pass")  # fmt: skip
    assert (found.status, found.text.startswith("came ")) == (status, True)


@pytest.mark.parametrize(
    ("name", "program", "text"),
    [
        ("a program that is taken off stops and goes on", "while 1: os.write(1, b'.'); time.sleep(3)",
         "was silent for 1 s though nothing kept it off the GPU"),
        ("the last print of a program that is taken off", "while 1: os.write(1, b'.'); time.sleep(3)",
         "was silent for 1 s though nothing kept it off the GPU"),
        ("a program that begins while another has the GPU", "time.sleep(1); os.write(1, b'.'); time.sleep(600)",
         "it executed work"),
    ],
)  # fmt: skip
def test_a_program_that_nothing_takes_off_is_not_taken_for_one_that_is_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, program: str, text: str
) -> None:
    """It prints rarely, or begins slowly: silence alone says nothing."""
    monkeypatch.setattr(probe, "_owning", lambda _: nullcontext())
    monkeypatch.setattr(probe, "SWITCH_ROUNDS", 2)
    monkeypatch.setattr(probe, "BESIDE", 0.2)
    monkeypatch.setattr(probe, "_start_time", lambda _: PATIENCE)
    (tmp_path / "load.py").write_text(f"import os, time\n{program}\n")
    (check,) = [one for one in probe.WITH_LOAD if one.name == name]
    target = probe.Target("/none", 0, "nvidia", f"{sys.executable} -S {tmp_path}/load.py")
    (found,) = probe.run_probe([check], target)
    assert (found.status, text in found.text) == (Status.FAIL, True), found.text


def test_a_person_is_told_how_to_try_a_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "BASIC", [])
    found = {one.name: one for one in probe.probe_all(NOBODY)}["suspend and resume"]
    assert (found.status, found.text) == (Status.WARN, "not tried")
    assert (found.cure or "").startswith("rtcwake")


def test_a_program_that_is_just_started_when_the_probe_ends_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when the program is there, and before anything has noted that."""
    started = interrupted_starts(monkeypatch)
    with (
        ending.raised_signals(),
        pytest.raises(KeyboardInterrupt),
        probe._started(probe.Target("/none", 0, "x", "sleep 600")),
    ):
        pytest.fail("the signal was lost")
    assert [one.poll() is not None for one in started] == [True]


def test_a_check_that_is_just_begun_when_the_probe_ends_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when the check's process is there, and before anything has noted that."""
    begun, fork = [], os.fork

    def interrupted() -> int:
        begun.append(fork())
        if begun[-1]:
            signal.raise_signal(signal.SIGTERM)
        return begun[-1]

    monkeypatch.setattr(probe.os, "fork", interrupted)
    check = probe.Check("waits", 600, lambda _: time.sleep(600))  # type: ignore[arg-type,return-value]
    with ending.raised_signals(), pytest.raises(KeyboardInterrupt):
        list(probe.run_probe([check], probe.Target("/none", 0, "x", None)))
    with pytest.raises(ChildProcessError):  # it was killed, and waited for
        os.waitpid(begun[0], os.WNOHANG)

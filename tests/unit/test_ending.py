# SPDX-License-Identifier: GPL-2.0
"""Ctrl-C and SIGTERM while a command computes: it ends soon, says so, and leaves nothing that is half written."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from calls import interrupted_starts, rest_of

from analysis import taskset
from pycontrol import cli, ending
from pycontrol.act.run import crew
from pycontrol.machine.placement import Placement

#: A run of a billion jobs: one call of C code, which takes minutes.
LONG = """
[platform]
cpus = 1
epsilon = "0ns"
[[task]]
name = "short"
cpu = 0
priority = 2
period = "1us"
segments = [{ cpu = "100ns" }]
[[task]]
name = "long"
cpu = 0
priority = 1
period = "1000s"
segments = [{ cpu = "1s" }]
"""
#: Writes a file, and waits where no signal interrupts it: for a thread, and for a process of a pool.
BUSY = """
import ctypes, os, signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from analysis.answers.pool import processes
from gpurt.files import written
from pycontrol import ending, start
signal.signal(signal.SIGINT, start.interrupt)
def tell(code):
    os.write(2, b"told %d" % code)
with ending.soon(tell), processes(1) as pool, ThreadPoolExecutor(1) as threads:
    worker = pool.submit(os.getpid).result()
    pool.submit(time.sleep, 3600)
    with written(sys.argv[1]) as file:
        file.write(b"half")
        file.flush()
        waits = threads.submit(ctypes.CDLL(None).sleep, 3600)
        os.write(1, b"%d\\n" % worker)
        waits.result()
"""


def eventually(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def cpu_ticks(pid: int) -> int:
    """The CPU time that a process has had."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def gpurt(*words: str) -> list[str]:
    return [sys.executable, "-c", "from pycontrol.start import main; main()", *words]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_simulation_ends_within_a_run(tmp_path: Path, number: int) -> None:
    """On a terminal, so that its progress bar tells when it has begun; the bar's hidden cursor is shown again."""
    (tmp_path / "set.toml").write_text(LONG)
    as_json = ["--json"] if number == signal.SIGTERM else []
    terminal, its = pty.openpty()
    command = gpurt("simulate", "set.toml", "--runs", "1", "-o", "run.json", *as_json)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=its) as process:
        os.close(its)
        shown = b""
        while b"simulating" not in shown:
            shown += os.read(terminal, 1000)
        before = cpu_ticks(process.pid)
        eventually(lambda: cpu_ticks(process.pid) >= before + 10)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert process.stdout
        assert process.stdout.read() == b""
    shown += rest_of(terminal)
    os.close(terminal)
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")
    last = shown.splitlines()[-1]
    if as_json:
        assert json.loads(last)["error"] == {"message": "ended by SIGTERM", "exit_code": 143}
    else:
        assert last == b"gpurt: interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["set.toml"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_what_was_begun(tmp_path: Path, number: int) -> None:
    """Neither a file, nor a process of a pool, whose end Python would wait for."""
    (tmp_path / "out").write_text("before")
    command = [sys.executable, "-c", BUSY, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        worker = int(process.stdout.readline())
        assert len(list(tmp_path.iterdir())) == 2
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert process.stderr
        assert process.stderr.read() == f"told {128 + number}".encode()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out": "before"}
    eventually(lambda: is_over(worker))


def test_signals_are_as_before_when_the_work_is_done() -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with ending.soon(print):
            assert signal.getsignal(signal.SIGTERM) is ending.interrupt
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.set_wakeup_fd(-1) == -1
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with ending.soon(print):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_commands_that_end_in_their_own_way_are_let_alone() -> None:
    computing = {name for name in cli.LEAVES if getattr(cli.find_command(name), "computes", False)}
    assert computing > {"analyze", "plan modes", "margins", "simulate", "report", "experiment run"}
    others = {"emulate", "serve", "run", "demo", "measure times", "watch", "trace record"}
    assert not computing & others


def interrupted(event: threading.Event, call: Callable[[], object], at: int) -> bool:
    """Whether ``call`` has so many lines of Python that the event could be set before the one with this number."""
    left = [at]

    def trace(_frame: FrameType, what: str, _: object) -> object:
        left[0] -= what == "line"
        if left[0] < 0:
            sys.settrace(None)
            event.set()
            return None
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return left[0] < 0


def test_a_handler_may_set_an_event_that_its_thread_waits_for() -> None:
    """At whatever line it interrupts that: threading.Event hangs at most of them."""
    event, at = ending.SignalEvent(), 0
    while interrupted(event, lambda: event.wait(0.001), at):
        assert event.is_set()
        assert event.wait(0)
        event.clear()
        at += 1
    assert at > 1
    seen = []
    while interrupted(event, event.clear, len(seen)):
        seen.append(event.wait(0.001))
    assert seen == sorted(seen)  # first it was set before it was cleared, and then after that
    assert seen[-1]


def test_an_event_of_signals_is_one_for_all_that_wait() -> None:
    event = ending.SignalEvent()
    assert not event.wait(0)
    waiting = [threading.Thread(target=event.wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    event.set()
    event.set()
    for thread in waiting:
        thread.join()
    assert event.is_set()
    assert event.wait()
    event.clear()
    assert not event.is_set()
    assert not event.wait(0.001)
    event.set()
    assert event.wait(3600)


def test_a_task_that_is_just_started_when_a_run_ends_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The signal comes when the program is there, and before anything has noted that."""
    (tmp_path / "task").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "task").chmod(0o700)
    started = interrupted_starts(monkeypatch)
    file = taskset.load(Path(__file__).parents[2] / "examples/minimal.toml")
    where = Placement(dict.fromkeys(range(file.taskset.platform.cpus), 0), 1, False)
    with ending.raised_signals(), pytest.raises(KeyboardInterrupt):  # noqa: SIM117 (the crew ends first)
        with crew.Crew(file, crew.CrewOptions(1), where, False, tmp_path, tmp_path / "task") as made:
            made.start()
    assert [one.poll() is not None for one in started] == [True]
    for one in started:
        one.kill()

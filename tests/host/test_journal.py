# SPDX-License-Identifier: GPL-2.0
"""The lines that a host leaves for an operator who comes later."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

from links import PATIENCE, SocketClient, eventually
from processes import EMULATE, StartHost

from gpurt.enums import EventKind, Overrun, Policy
from gpurt.text import visible
from pycontrol.host.journal import HOST, SHARE, Journal
from pycontrol.host.loop import RARE
from pycontrol.link.control import connect

#: The time of day at the machine, then what happened.
LINE = re.compile(r"gpurt: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (.*)")
#: Ends as after a crash: a segment is open.
CRASH = "import gpurt, os, signal; gpurt.segment().__enter__(); os.kill(os.getpid(), signal.SIGKILL)"


def lines(path: Path) -> list[str]:
    """What a host at that socket has written in that form."""
    return [found[1] for line in path.with_suffix(".log").read_text().splitlines() if (found := LINE.fullmatch(line))]


def test_what_happened_an_hour_ago_is_in_the_hosts_own_lines(start_host: StartHost) -> None:
    """No command and no watcher was connected when it happened."""
    path = start_host()
    with connect(str(path)) as control:
        control.set_policy(Policy.LOCK_FIFO)
        control.set_budget(os.getpid(), 10**6, 10**9, Overrun.DEMOTE)
        with SocketClient(path) as client:
            client.begin()
            control.set_priority(os.getpid(), 20)
            eventually(lambda: any("used up" in line for line in lines(path)))
            client.end()
    subprocess.run([sys.executable, "-c", CRASH], env={**os.environ, "GPURT_DEVICE": str(path)}, check=False)
    eventually(lambda: any("inside a segment" in line for line in lines(path)))
    told = lines(path)
    assert told[0].startswith("set policy: policy lock-fifo")
    assert f"process {os.getpid()} of user {os.geteuid()}" in told[0]
    assert told[1].startswith(f"set budget: pid {os.getpid()}, budget 1ms, period 1s, overrun demote")
    assert any(line.startswith(f"set priority: pid {os.getpid()}, priority 20 (by ") for line in told)
    mine = [line for line in told[2:] if f"process {os.getpid()})" in line]
    assert [line.partition(") ")[2] for line in mine] == [
        f"of user {os.geteuid()} has come", "has used up its budget, and is best effort for now", "has gone",
    ]  # fmt: skip
    assert told[-1].endswith("has gone, inside a segment")


def test_who_only_looks_leaves_no_line(start_host: StartHost) -> None:
    path = start_host()
    with connect(str(path)) as control:
        control.status()
        control.clients()
    with SocketClient(path):
        pass
    with connect(str(path)) as control:  # the first ones have gone before the host answers this
        control.set_policy(Policy.SEGMENT)
    eventually(lambda: lines(path))
    assert len(lines(path)) == 1


def test_a_quiet_host_says_only_what_went_wrong(start_host: StartHost) -> None:
    path = start_host("--quiet")
    with connect(str(path)) as control:
        control.set_policy(Policy.LOCK_FIFO)
    assert not lines(path)


def test_a_reader_that_has_stopped_costs_lines_and_nobody_anything_else(tmp_path: Path) -> None:
    """A host whose stderr is full serves as before, and says later how much is missing."""
    path = tmp_path / "host.sock"
    command = [sys.executable, *EMULATE, f"--socket={path}", "--policy=segment"]
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as said, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=writer
    ) as process:
        assert process.stdout
        assert b"serving" in process.stdout.readline()
        full = 0
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                full += os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)  # the host's, too
        for _ in range(5):
            with SocketClient(path) as client:
                client.begin()
                client.end()
        with connect(str(path)) as control:
            control.set_policy(Policy.LOCK_FIFO)  # answered, however little is read
        while full > 0:
            full -= said.read(4096).count(b"x")
        process.terminate()
        assert process.wait(PATIENCE) == 0
        os.close(writer)
        assert re.search(rb"[1-9]\d* (more events|others) were not told", said.read())


def test_a_terminal_that_is_not_read_costs_lines_and_nobody_anything_else() -> None:
    reader, writer = os.openpty()
    journal = Journal(writer)
    for number in range(1000):
        journal.note(f"{number} " + "x" * 300, number)
        journal.turn()
    assert os.get_blocking(writer)  # it is others', too
    with os.fdopen(reader, "rb", buffering=0) as said:
        assert b"0 xxx" in said.read(4096)
    os.close(writer)


def test_a_user_who_floods_hides_nothing_but_his_own() -> None:
    reader, writer = os.pipe()
    journal = Journal(writer)
    for number in range(10 * SHARE):
        journal.note(f"client {number} has come", 1000, wrong=False)
        journal.turn()
    for _ in range(100):
        journal.note("client 7 has used up its budget", 1001)
    journal.note("client 9 is late", 1000)
    journal.note("the runlist could not be updated", HOST)
    journal.end()
    os.close(writer)
    with os.fdopen(reader) as file:
        told = file.read().splitlines()
    texts = [found[1] for line in told if (found := LINE.fullmatch(line))]
    assert len(texts) == SHARE + 3
    assert texts[SHARE].startswith("client 7 has used up its budget (")  # and how many were not told before
    assert texts[SHARE + 1 :] == ["client 9 is late", "the runlist could not be updated"]
    assert told[-1] == "gpurt: 99 more events were not told"


def test_what_happened_is_told_of_who_has_a_long_name() -> None:
    reader, writer = os.pipe()
    journal = Journal(writer)
    text = f"GPU 0: client 4294967295 ({visible(chr(27) * 15)}, process 4194304) {RARE[EventKind.LATE]}"
    journal.note(text, 1000)
    journal.end()
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read().endswith(f"{text}\n")


def test_what_a_program_calls_itself_is_one_line() -> None:
    reader, writer = os.pipe()
    journal = Journal(writer)
    journal.note("x" * 5000, 0)
    journal.end()
    os.close(writer)
    with os.fdopen(reader) as file:
        assert len(file.read()) < 1024

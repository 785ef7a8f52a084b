# SPDX-License-Identifier: GPL-2.0
"""The host's behaviour when it cannot find out the facts that decide about a process."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from links import SocketClient, eventually
from test_data_plane import host_of
from worlds import go_on

from gpurt._gpurt import lib
from gpurt.enums import Command, Policy
from pycontrol.host.budgets import Budgets
from pycontrol.host.commands import Commands
from pycontrol.host.gpu import GpuClient
from pycontrol.host.peer import Named, Peer, Rules, scarce
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

MS = 1_000_000
ME = os.getpid()


@contextmanager
def no_descriptor() -> Iterator[None]:
    """This process can open nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        fd = os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 1, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        yield


def myself() -> Peer:
    """This process as a client."""
    stat = procs.stat(ME)
    assert stat
    return Peer(ME, 1000, stat.comm, stat.start)


def test_what_cannot_be_read_is_not_taken_for_gone() -> None:
    start = myself().start
    with no_descriptor():
        for ask in (procs.stat, procs.cgroup, procs.threads, lambda pid: list(procs.ancestry(pid))):
            with pytest.raises(procs.Unreadable) as unknown:
                ask(ME)
            assert unknown.value.errno == errno.EMFILE
        assert not procs.ended(ME, start)
        assert procs.has_thread(ME, ME)
    assert not procs.ended(ME, start)
    assert procs.ended(ME, start + 1)


def test_the_threads_of_a_process_come_a_few_at_a_time() -> None:
    """The kernel looks up each one that it tells of, so that a long list is a long system call."""
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(40)]
    for one in threads:
        one.start()
    try:
        pieces = list(procs.threads_in_pieces(ME, 8))
        assert {len(piece) for piece in pieces[:-1]} <= set(range(6, 11))
        listed = [int(one) for one in os.listdir(f"/proc/{ME}/task")]
        assert sorted(tid for piece in pieces for tid in piece) == sorted(listed)
        assert procs.threads(ME)[0] == ME
        assert {one.native_id for one in threads} < set(procs.threads(ME))
        assert len(procs.threads(ME, 5)) == 5
    finally:
        over.set()
    assert procs.threads(1 << 30) == []


def test_a_process_that_was_reaped_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    stat = procs.stat(child.pid)
    assert stat
    child.wait()
    assert procs.ended(child.pid, stat.start)


def test_ancestors_go_on_above_a_parent_that_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 30's parent 20 ends after its child's file was read; 30 is then a child of 10."""
    line = "{} (x) S {} " + " ".join(["0"] * 17) + " {} " + " ".join(["0"] * 30)
    parents = {30: 20, 10: 0}

    def read(pid: int, _name: str) -> bytes | None:
        if pid == 20:
            parents[30] = 10
        return line.format(pid, parents[pid], pid * 7).encode() if pid in parents else None

    monkeypatch.setattr(procs, "read_proc", read)
    assert list(procs.ancestry(30)) == [(30, 210), (10, 70)]


def test_rules_about_processes_that_cannot_be_looked_at_stay() -> None:
    named = Named()
    named.change("PID", ME, True)
    (rule,) = named.rules
    with no_descriptor():
        assert not rule.dead


class World:
    """A GPU with one client, this process, and commands about it; `gone` has the clients that were expelled."""

    def __init__(self) -> None:
        self.gone: list[GpuClient] = []
        self.gpu = VirtualGpu(0, Shape(), int(Policy.SEGMENT), lambda *_: None, lambda: 0)
        self.rules = Rules()
        self.budgets = Budgets()
        expel: Callable[[GpuClient, Exception], None] = lambda client, _error: self.gone.append(client)  # noqa: E731
        self.commands = Commands([self.gpu], self.rules, self.budgets, lambda: 0, lambda: 0, expel=expel)
        self.client = self.gpu.join(1, myself(), False)

    def command(self, command: Command, **request: int | str) -> None:
        said: list[object] = []
        self.commands.carry_out(Peer(1, 0, "admin", 1), command, request, said.append)
        go_on(self.commands)
        assert said


@pytest.fixture
def cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with cgroups of version 2."""
    monkeypatch.setattr(procs, "has_cgroups", lambda: True)


def test_a_client_whose_cgroup_cannot_be_read_is_barred_and_goes(cgroups: None) -> None:
    world = World()
    with no_descriptor():
        world.command(Command.SET_BARRED, BARRED=1, CGROUP="/some")
    assert world.client.boost.barred
    assert world.gone == [world.client]


def test_a_client_whose_ancestors_cannot_be_read_goes_when_a_budget_comes(cgroups: None) -> None:
    world = World()
    with no_descriptor():
        world.command(Command.SET_BUDGET, CGROUP="/some", BUDGET_NS=MS, PERIOD_NS=10 * MS)
    assert world.gone == [world.client]


def test_an_exemption_is_not_given_to_a_client_that_cannot_be_looked_at(cgroups: None) -> None:
    world = World()
    with no_descriptor():
        world.command(Command.SET_EXEMPT, EXEMPT=1, CGROUP="/some")
    assert not world.client.core.exempt
    assert world.gone == [world.client]


def test_the_reserve_is_a_quarter_where_there_is_little() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
        assert [scarce(fd) for fd in (29, 30)] == [False, True]
        assert scarce(29, more=1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
        assert [scarce(fd) for fd in (935, 936)] == [False, True]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_with_a_budget_does_not_escape_it_by_many_connections(host: Path) -> None:
    """The host that had no free descriptor took clients of the process for those of another one."""
    with control(str(host)) as plane, ExitStack() as stack:
        plane.set_budget(ME, 20 * MS, 100 * MS)
        first = stack.enter_context(SocketClient(host))
        first.begin()
        resource.prlimit(host_of(first), resource.RLIMIT_NOFILE, (64, 64))
        for _ in range(60):
            client = stack.enter_context(SocketClient(host))
            client.sock.settimeout(0)
            with suppress(OSError):
                client.start(lib.GPURT_IOC_BEGIN)
        eventually(lambda: len(plane.clients()) > 10)
        first.begin()
        assert {one.budget_ns for one in plane.clients()} == {20 * MS}
        assert len(os.listdir(f"/proc/{host_of(first)}/fd")) <= 64 - 16 + 5

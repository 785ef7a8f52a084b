# SPDX-License-Identifier: GPL-2.0
"""A client is a descriptor of the process that opened it.  No other process can use it.  It ends with that process."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from actors import Actor, fork_sleeper, in_child
from links import PENDING, RUNNING, Client, DeviceClient, SocketClient, client_of, eventually, structure

from gpurt._gpurt import lib
from pycontrol.link.control import Control

Connect = Callable[[], Client]
Spawn = Callable[..., Actor]
ME = os.getpid()


def engage(client: Client) -> int:
    """Makes a client own the GPU with endless work."""
    client.submit(client.tsg(), lib.GPURT_MAX_WORK_NS)
    client.begin(priority=60)
    return client.begin(priority=60)


def leave(_client: Client) -> None:
    """Exits without closing anything."""
    os._exit(0)


def execute(_client: Client) -> None:
    """Executes another program, which does not inherit Python's descriptors."""
    os.execv("/bin/sleep", ["sleep", "1000"])


def segfault(_client: Client) -> None:
    """Dies of a signal, as after a crash."""
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize("how", [leave, execute, segfault, None], ids=["exit", "exec", "crash", "kill"])
def test_a_client_that_ends_in_a_segment_frees_its_place(
    connect: Connect, spawn: Spawn, plane: Control, how: Callable[[Client], None] | None
) -> None:
    survivor = connect()
    survivor.begin(priority=30)
    for _ in range(3):
        victim = spawn()
        assert victim.run(engage) == RUNNING
        assert plane.status()[0].runner_pid == victim.pid
        assert survivor.begin(priority=30) == PENDING
        wait = survivor.granted()
        if how:
            victim.start(how)
        else:
            victim.kill()
        assert wait.result()[0] == 0
        eventually(lambda: (len(plane.clients()), plane.status()[0].tsgs) == (1, 0))
        victim.kill()


def test_a_client_that_dies_while_it_waits_leaves_the_queue(connect: Connect, spawn: Spawn, plane: Control) -> None:
    holder = connect()
    holder.begin(priority=50)
    waiter = spawn()
    waiter.start(begin_and_wait)
    eventually(lambda: any(one.pid == waiter.pid and one.depth for one in plane.clients()))
    waiter.kill()
    eventually(lambda: len(plane.clients()) == 1)
    holder.end()
    assert plane.status()[0].runner_pid == 0


def begin_and_wait(client: Client) -> int:
    return client.code(lib.GPURT_IOC_BEGIN, priority=40, flags=lib.GPURT_BEGIN_WAIT)


def test_a_client_that_dies_while_it_drains_is_gone(connect: Connect, spawn: Spawn, plane: Control) -> None:
    victim, other = spawn(), connect()
    victim.run(engage)
    other.begin(priority=1)
    victim.start(drain)
    assert other.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=20_000_000) == -errno.ETIMEDOUT
    victim.kill()
    assert other.granted().result()[0] == 0


def drain(client: Client) -> int:
    client.end()
    return client.code(lib.GPURT_IOC_END, flags=lib.GPURT_END_DRAIN)


def test_a_descriptor_that_a_child_keeps_does_not_keep_the_place(connect: Connect, spawn: Spawn) -> None:
    waiter, parent = connect(), spawn()
    child = parent.run(engage_and_fork)
    try:
        waiter.begin(priority=3)
        wait = waiter.granted()
        parent.kill()
        assert wait.result()[0] == 0
    finally:
        os.kill(child, signal.SIGKILL)


def engage_and_fork(client: Client) -> int:
    """Makes the client own the GPU, forks a child that inherits the descriptor, and returns its pid."""
    engage(client)
    return fork_sleeper(client)


def test_one_process_may_be_several_clients(connect: Connect, plane: Control) -> None:
    a, b = connect(), connect()
    assert (a.begin(priority=5), b.begin(priority=4)) == (RUNNING, PENDING)
    clients = plane.clients()
    assert [one.pid for one in clients] == [ME, ME]
    assert len({one.client for one in clients}) == 2
    plane.set_priority(ME, 9)
    assert [one.priority for one in plane.clients()] == [9, 9]


ACTS = {
    "begin": (lib.GPURT_IOC_BEGIN, {}),
    "end": (lib.GPURT_IOC_END, {}),
    "wait": (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_GRANT}),
    "open": (lib.GPURT_IOC_TSG_OPEN, {}),
    "close": (lib.GPURT_IOC_TSG_CLOSE, {}),
    "shape": (lib.GPURT_IOC_TSG_SHAPE, {}),
    "submit": (lib.GPURT_IOC_SUBMIT, {"duration_ns": lib.GPURT_MIN_WORK_NS}),
}


def results(client: Client) -> set[int]:
    """The results of all calls that act."""
    return {client.code(code, **fields) for code, fields in ACTS.values()}


def results_in_child(client: Client) -> str:
    return in_child(partial(results, client))


def test_an_inherited_descriptor_is_refused(spawn: Spawn, plane: Control) -> None:
    actor = spawn()
    assert actor.do("tsg") == 0
    actor.do("begin", priority=5)
    assert actor.run(results_in_child) == repr({-errno.EPERM})
    (one,) = plane.clients()
    assert (one.depth, one.tsgs) == (1, 1)
    actor.do("end")


def pass_on(client: Client) -> str:
    """What a child may do with the descriptor that it is sent."""
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [client.descriptor()])

    def receive_and_use() -> set[int]:
        _, (fd,), _, _ = socket.recv_fds(theirs, 1, 1)
        return results(adopt(client, fd))

    return in_child(receive_and_use)


def test_a_descriptor_that_was_passed_on_is_refused(spawn: Spawn, plane: Control) -> None:
    actor = spawn()
    actor.do("begin", priority=5)
    assert actor.run(pass_on) == repr({-errno.EPERM})
    (one,) = plane.clients()
    assert (one.depth, one.tsgs) == (1, 0)
    actor.do("end")


def adopt(client: Client, fd: int) -> Client:
    """The same client with another descriptor."""
    if isinstance(client, DeviceClient):
        client.fd = fd
    elif isinstance(client, SocketClient):
        patience = client.sock.gettimeout()  # which makes the descriptor, and hence its copy, non-blocking
        client.sock = socket.socket(fileno=fd)
        client.sock.settimeout(patience)
    return client


def test_a_forked_child_may_be_a_client_of_its_own(connect: Connect, spawn: Spawn) -> None:
    client = connect()
    client.begin(priority=5)
    assert spawn().do("begin", priority=6) == RUNNING
    assert client.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT) == -errno.ETIMEDOUT


# A host cannot see on a socket that the process executed another program and kept the connection.

AFTER_EXEC = """
import fcntl, sys
try:
    fcntl.ioctl({fd}, {code}, {payload!r})
    print(0, flush=True)
except OSError as error:
    print(error.errno, flush=True)
sys.stdin.read()
"""


def execute_with_descriptor(client: Client, report: int) -> None:
    """Executes another program that inherits the descriptor and tries to use it."""
    assert isinstance(client, DeviceClient)
    os.set_inheritable(client.fd, True)
    os.dup2(report, 1)
    program = AFTER_EXEC.format(
        fd=client.fd, code=lib.GPURT_IOC_BEGIN, payload=structure(lib.GPURT_IOC_BEGIN, priority=70)
    )
    os.execv(sys.executable, [sys.executable, "-c", program])


def test_another_program_does_not_inherit_the_client(device: Path, tmp_path: Path, plane: Control) -> None:
    """The same process still has the descriptor, but it executes another program, so the client has ended."""
    report = tmp_path / "report"
    os.mkfifo(report)
    with client_of(device) as waiter, Actor(device) as actor:
        actor.run(engage)
        waiter.begin(priority=1)
        wait = waiter.granted()
        actor.start(open_and_execute, str(report))
        answer = report.read_text().split()
        assert wait.result()[0] == 0
        assert answer == [str(errno.ESTALE)]
        eventually(lambda: len(plane.clients()) == 1)


def open_and_execute(client: Client, report: str) -> None:
    execute_with_descriptor(client, os.open(report, os.O_WRONLY))

"""The data plane of the user-space host: cases that only a socket has.  tests/interface has the rest."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from links import SocketClient, SocketPending, eventually
from processes import StartHost

from gpurt._gpurt import ffi, lib
from pycontrol.host.calls import KINDS
from pycontrol.host.connection import MOST_CALLS
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

Connect = Callable[[], SocketClient]


def test_a_structure_must_fill_its_packet(connect: Connect) -> None:
    client = connect()
    for code, kind in KINDS.items():
        size = ffi.sizeof(kind)
        declared = size.to_bytes(4, sys.byteorder)
        for payload in (b"", b"\1", declared[:3], declared + bytes(size - 8), declared + bytes(size)):
            assert client.exchange(code, payload)[0] == -errno.EINVAL
    assert client.begin() == lib.GPURT_STATE_RUNNING


def test_unknown_calls_and_packets_are_counted(host: Path, connect: Connect) -> None:
    client = connect()
    assert client.exchange(0x12345678, bytes(64))[0] == -errno.ENOTTY
    client.sock.send(b"x")
    assert SocketPending(client, 0).wait()[0] == -errno.EINVAL
    client.sock.send(bytes(16))
    assert SocketPending(client, 0).wait()[0] == -errno.EINVAL
    with control(str(host)) as plane:
        assert plane.status()[0].malformed == 3


@settings(max_examples=tries(60))
@given(packets=st.lists(st.binary(min_size=1, max_size=80), max_size=8))
def test_garbage_does_not_disturb_other_clients(host: Path, packets: list[bytes]) -> None:
    with SocketClient(host) as bad, SocketClient(host) as good:
        for packet in packets:
            bad.sock.send(packet)
        assert good.begin() == lib.GPURT_STATE_RUNNING
        good.end()


def test_an_answer_is_not_sent_where_none_is_wanted(connect: Connect) -> None:
    client = connect()
    client.begin()
    made = ffi.new("struct gpurt_end *", {"size": ffi.sizeof("struct gpurt_end")})
    client.cookies = iter([0, 77])  # type: ignore[assignment]
    client.send(lib.GPURT_IOC_END, bytes(ffi.buffer(made)))
    assert client.call(lib.GPURT_IOC_END)[0] == -errno.ENOENT  # the first one ended it, silently
    assert client.early == {}


def test_a_second_host_on_the_same_socket_is_refused_and_a_stale_socket_is_not_in_the_way(
    start_host: StartHost, tmp_path: Path
) -> None:
    path = start_host()
    command = [sys.executable, "-m", "pycontrol", "emulate", f"--socket={path}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 4
    assert "serves there already" in run.stderr
    stale = tmp_path / "host1.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(stale))
    assert start_host() == stale


#: Connects, says so, closes the connection when told, says so, and lives on.
VISITOR = """
import socket, sys
visit = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
visit.connect(sys.argv[1])
print("there", flush=True)
sys.stdin.readline()
visit.close()
print("gone", flush=True)
sys.stdin.readline()
"""


def host_of(client: SocketClient) -> int:
    """The host's process id."""
    credentials = client.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack_from("i", credentials)[0])


def stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal."""
    stat = procs.stat(pid)
    return stat is not None and stat.state == "T"


def test_a_new_connection_does_not_get_the_events_of_the_one_before(host: Path, connect: Connect) -> None:
    """The host finds three events at once: a connection's end, a new connection, and the end of the first process."""
    visitor = subprocess.Popen([sys.executable, "-c", VISITOR, str(host)], stdin=PIPE, stdout=PIPE, text=True)
    assert visitor.stdin
    assert visitor.stdout
    watcher = connect()
    assert visitor.stdout.readline() == "there\n"
    watcher.begin()  # the host has accepted both connections
    pid = host_of(watcher)
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: stopped(pid))
        visitor.stdin.write("\n")
        visitor.stdin.flush()
        assert visitor.stdout.readline() == "gone\n"
        fresh = connect()
        visitor.kill()
        visitor.wait()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert fresh.begin() == lib.GPURT_STATE_RUNNING
    fresh.end()


def test_a_client_with_too_many_calls_under_way_is_refused_the_next_one(connect: Connect) -> None:
    greedy, owner = connect(), connect()
    owner.begin(priority=90)
    greedy.begin()
    calls = [greedy.granted() for _ in range(MOST_CALLS + 3)]
    assert [one.result()[0] for one in calls[MOST_CALLS:]] == [-errno.EDQUOT] * 3
    assert not any(one.done() for one in calls[:MOST_CALLS])
    owner.end()
    assert {one.result()[0] for one in calls[:MOST_CALLS]} == {0}
    assert greedy.granted().result()[0] == 0


def test_many_waits_that_ran_out_of_time_do_not_count(connect: Connect) -> None:
    client, owner = connect(), connect()
    owner.begin(priority=90)
    client.begin()
    wait = {"what": lib.GPURT_WAIT_GRANT, "timeout_ns": 0}
    for _ in range(MOST_CALLS + 100):
        assert client.call(lib.GPURT_IOC_WAIT, **wait)[0] == -errno.ETIMEDOUT
    owner.end()
    assert client.call(lib.GPURT_IOC_WAIT, **wait)[0] == 0


def test_connections_without_a_descriptor_wait_for_one(host: Path, connect: Connect) -> None:
    client = connect()
    client.begin()
    resource.prlimit(host_of(client), resource.RLIMIT_NOFILE, (32, 32))
    waiting = [SocketClient(host) for _ in range(40)]
    for _ in range(20):
        client.begin()
    assert host.with_suffix(".log").read_text().count("too many connections") <= 1
    for one in waiting[:-1]:
        one.close()
    assert waiting[-1].begin() == lib.GPURT_STATE_RUNNING
    waiting[-1].close()

"""The data plane of the user-space host, call by call, right and wrong; times are the virtual GPU's, hence exact."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import MS, Raw, StartHost, eventually
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pycontrol._gpurt import ffi, lib

from pycontrol.client import connect as control
from pycontrol.host_calls import KINDS

Connect = Callable[[], Raw]
RUNNING, PENDING, IDLE = lib.GPURT_STATE_RUNNING, lib.GPURT_STATE_PENDING, lib.GPURT_STATE_IDLE


def test_query_says_what_the_host_is(connect: Connect) -> None:
    result, made = connect().call(lib.GPURT_IOC_QUERY)
    assert result == 0
    assert (made.version, made.gpus, made.tier) == (lib.GPURT_VERSION, 1, lib.GPURT_TIER_VIRTUAL)
    assert made.caps == lib.GPURT_CAP_VGPU | lib.GPURT_CAP_EMULATED
    assert made.policy == lib.GPURT_POLICY_SEGMENT


@pytest.mark.parametrize("code", sorted(KINDS))
def test_structures_that_shrink_or_grow(connect: Connect, code: int) -> None:
    client = connect()
    size = ffi.sizeof(KINDS[code])

    def status(payload: bytes) -> int:
        return client.answer(client.send(code, payload))[0]

    def sized(declared: int, length: int, tail: bytes = b"") -> bytes:
        return declared.to_bytes(4, sys.byteorder) + bytes(length - 4) + tail

    assert status(b"") == status(b"\1") == -errno.EINVAL
    assert status(sized(size - 4, size - 4)) == -errno.EINVAL
    assert status(sized(size, size - 4)) == -errno.EINVAL
    assert status(sized(size + 8, size, bytes(7) + b"\1")) == -errno.E2BIG
    assert status(sized(size + 8, size, bytes(8))) != -errno.E2BIG  # newer, but nothing unknown in it
    assert client.begin() == RUNNING  # it lives on


BAD = [
    (lib.GPURT_IOC_QUERY, {"pad": 1}, errno.EINVAL),
    (lib.GPURT_IOC_QUERY, {"gpu": 1}, errno.ENODEV),
    (lib.GPURT_IOC_BEGIN, {"gpu": 7}, errno.ENODEV),
    (lib.GPURT_IOC_BEGIN, {"flags": 2}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"pad": 1}, errno.EINVAL),
    (lib.GPURT_IOC_BEGIN, {"priority": 100}, errno.EINVAL),
    (lib.GPURT_IOC_END, {}, errno.ENOENT),
    (lib.GPURT_IOC_END, {"flags": 8}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"what": 3}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_GRANT}, errno.ENOENT),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_IDLE, "work": 1}, errno.EINVAL),
    (lib.GPURT_IOC_WAIT, {"what": lib.GPURT_WAIT_WORK, "tsg": 5, "work": 1}, errno.ENOENT),
    (lib.GPURT_IOC_TSG_OPEN, {"flags": 1}, errno.EINVAL),
    (lib.GPURT_IOC_TSG_CLOSE, {"tsg": 3}, errno.ENOENT),
    (lib.GPURT_IOC_SUBMIT, {"tsg": 9, "duration_ns": 1}, errno.ENOENT),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": 0}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": lib.GPURT_MAX_WORK_NS + 1}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": 1, "engine": 2}, errno.EINVAL),
    (lib.GPURT_IOC_SUBMIT, {"duration_ns": 1, "flags": 4}, errno.EINVAL),
]


@pytest.mark.parametrize(("code", "fields", "error"), BAD)
def test_bad_calls_are_refused(connect: Connect, code: int, fields: dict[str, int], error: int) -> None:
    client = connect()
    assert client.call(code, **fields)[0] == -error
    assert client.begin() == RUNNING


def test_unknown_calls_and_packets_are_counted(host: Path, connect: Connect) -> None:
    client = connect()
    assert client.answer(client.send(0x12345678, bytes(64)))[0] == -errno.ENOTTY
    client.sock.send(b"x")
    assert client.answer(0)[0] == -errno.EINVAL
    client.sock.send(bytes(16))
    assert client.answer(0)[0] == -errno.EINVAL
    with control(str(host)) as plane:
        assert plane.status()[0].malformed == 3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(packets=st.lists(st.binary(min_size=1, max_size=80), max_size=8))
def test_garbage_hurts_nobody_else(host: Path, packets: list[bytes]) -> None:
    with Raw(host) as bad, Raw(host) as good:
        for packet in packets:
            bad.sock.send(packet)
        assert good.begin() == RUNNING
        good.end()


def test_alone_work_takes_its_time_and_the_switch(start_host: StartHost) -> None:
    with Raw(start_host("--theta=2ms", "--alpha=0ns")) as client:
        tsg = client.tsg()
        client.begin()
        first = client.submit(tsg, 5 * MS)
        second = client.submit(tsg, 3 * MS)
        assert client.finished(tsg, second) - client.finished(tsg, first) == 3 * MS


def test_the_urgent_one_goes_first_and_the_other_resumes(connect: Connect) -> None:
    low, high = connect(), connect()
    low_tsg, high_tsg = low.tsg(), high.tsg()
    assert low.begin(priority=10) == RUNNING
    low_work = low.submit(low_tsg, 60 * MS)
    assert high.begin(priority=50) == RUNNING
    high_work = high.submit(high_tsg, 20 * MS)
    high_done = high.finished(high_tsg, high_work)
    high.end()
    low_done = low.finished(low_tsg, low_work)
    assert low_done - high_done >= 30 * MS  # most of the low one's work was still to be done
    assert low.begin(priority=10) == RUNNING


def test_an_outranked_begin_returns_at_once_or_waits_as_asked(connect: Connect) -> None:
    high, low = connect(), connect()
    assert high.begin(priority=50) == RUNNING
    assert low.begin(priority=10) == PENDING
    nested = low.start(lib.GPURT_IOC_BEGIN, priority=10, flags=lib.GPURT_BEGIN_WAIT)
    waiting = low.start(
        lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER
    )
    assert low.call(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=MS)[0] == -errno.ETIMEDOUT
    assert not low.answered(nested)
    high.end()
    result, made = low.result(lib.GPURT_IOC_BEGIN, nested)
    assert (result, made.state) == (0, RUNNING)
    assert low.answer(waiting)[0] == 0


def test_best_effort_clients_all_run_when_no_real_time_one_does(connect: Connect) -> None:
    a, b, real_time = connect(), connect(), connect()
    assert a.begin() == b.begin() == RUNNING
    assert real_time.begin(priority=1) == RUNNING
    waits = [x.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER) for x in (a, b)]
    real_time.end()
    assert [x.answer(wait)[0] for x, wait in zip((a, b), waits, strict=True)] == [0, 0]


def test_draining_hands_on_only_when_work_is_done(connect: Connect) -> None:
    first, second = connect(), connect()
    tsg = first.tsg()
    first.begin(priority=20)
    work = first.submit(tsg, 30 * MS)
    second.begin(priority=10)
    granted = second.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER)
    first.end(flags=lib.GPURT_END_DRAIN)
    done = first.finished(tsg, work)
    assert second.result(lib.GPURT_IOC_WAIT, granted)[1].completed_ns >= done


def test_updates_take_alpha_and_are_serialised_by_priority(start_host: StartHost) -> None:
    host = start_host("--alpha=50ms")
    with Raw(host) as a, Raw(host) as b, Raw(host) as c:
        order = [
            (a, a.start(lib.GPURT_IOC_BEGIN, priority=10)),
            (b, b.start(lib.GPURT_IOC_BEGIN, priority=20)),
            (c, c.start(lib.GPURT_IOC_BEGIN, priority=90)),
        ]
        states = [client.result(lib.GPURT_IOC_BEGIN, cookie)[1].state for client, cookie in order]
        # a updates first; of those who queued behind it the most urgent is next, and outranks the other
        assert states[2] == RUNNING
        assert states[1] == PENDING


def test_losing_the_last_tsg_ends_the_segment(connect: Connect) -> None:
    client, other = connect(), connect()
    tsg = client.tsg()
    client.begin(priority=9)
    assert other.begin(priority=5) == PENDING
    client.submit(tsg, 1000 * MS)
    assert client.call(lib.GPURT_IOC_TSG_CLOSE, tsg=tsg)[0] == 0
    assert client.call(lib.GPURT_IOC_END)[0] == -errno.ENOENT
    result, _ = other.call(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER)
    assert result == 0


def test_a_tsg_of_somebody_else_cannot_be_touched(connect: Connect) -> None:
    mine, theirs = connect(), connect()
    tsg = mine.tsg()
    assert theirs.call(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=1)[0] == -errno.ENOENT
    assert theirs.call(lib.GPURT_IOC_TSG_CLOSE, tsg=tsg)[0] == -errno.ENOENT


def test_queues_are_bounded(connect: Connect) -> None:
    client = connect()
    tsg = client.tsg()
    for _ in range(lib.GPURT_MAX_QUEUED):
        client.submit(tsg, 3_600_000 * MS)
    assert client.call(lib.GPURT_IOC_SUBMIT, tsg=tsg, duration_ns=1)[0] == -errno.ENOBUFS


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from conftest import Raw
client = Raw(Path({host!r}))
tsg = client.tsg()
print(client.begin(priority=60), flush=True)
client.submit(tsg, 10**12)
time.sleep(60)
"""


def test_a_client_killed_in_a_segment_frees_its_place(host: Path, connect: Connect) -> None:
    survivor = connect()
    survivor.begin(priority=30)
    for _ in range(5):
        code = CHILD.format(tests=str(Path(__file__).parent), host=str(host))
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
            assert child.stdout
            assert int(child.stdout.readline()) == RUNNING
            assert survivor.begin(priority=30) == PENDING
            wait = survivor.start(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER)
            os.kill(child.pid, signal.SIGKILL)
            assert survivor.answer(wait)[0] == 0
    with control(str(host)) as plane:
        eventually(lambda: len(plane.clients()) == 1)


def test_a_forked_child_that_keeps_the_socket_does_not_keep_the_place(host: Path, connect: Connect) -> None:
    """The client is the process that connected; an inherited descriptor is nobody's."""
    waiter = connect()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        mine = Raw(host)
        mine.begin(priority=70)
        grandchild = os.fork()
        if grandchild == 0:
            signal.alarm(60)
            signal.pause()
        os.write(writer, str(grandchild).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    try:
        waiter.begin(priority=3)
        result, _ = waiter.call(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER)
    finally:
        os.kill(int(os.read(reader, 16)), signal.SIGKILL)
    assert result == 0


def test_a_thousand_clients(host: Path) -> None:
    clients = [Raw(host) for _ in range(1000)]
    try:
        for index, client in enumerate(clients):
            client.begin(priority=1 + index % 99)
        owners = [index for index, client in enumerate(clients) if client.begin(priority=1) == RUNNING]
        assert owners == [98]
        with control(str(host)) as plane:
            assert plane.status()[0].clients == 1000
        for client in clients[98::99]:
            client.close()
        with control(str(host)) as plane:
            eventually(lambda: plane.status()[0].clients == 1000 - len(clients[98::99]))
    finally:
        for client in clients:
            client.close()


def test_an_answer_is_not_sent_where_none_is_wanted(connect: Connect) -> None:
    client = connect()
    client.begin()
    made = ffi.new("struct gpurt_end *", {"size": ffi.sizeof("struct gpurt_end")})
    client.cookies = iter([0, 77])  # type: ignore[assignment]
    client.send(lib.GPURT_IOC_END, bytes(ffi.buffer(made)))
    assert client.call(lib.GPURT_IOC_END)[0] == -errno.ENOENT  # the first one ended it, silently
    assert client.early == {}


def test_two_gpus_are_independent(start_host: StartHost) -> None:
    host = start_host("--gpus=2")
    with Raw(host) as a, Raw(host) as b:
        assert a.begin(gpu=0, priority=50) == RUNNING
        assert b.begin(gpu=1, priority=10) == RUNNING
        assert b.begin(gpu=0, priority=10) == PENDING
        assert a.call(lib.GPURT_IOC_QUERY, gpu=2)[0] == -errno.ENODEV


def test_a_second_host_on_the_same_socket_is_refused_and_a_stale_socket_is_not_in_the_way(
    start_host: StartHost, tmp_path: Path
) -> None:
    path = start_host()
    run = subprocess.run(
        [sys.executable, "-m", "pycontrol.host", f"--socket={path}"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 4
    assert "serves there already" in run.stderr
    stale = tmp_path / "host1.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(stale))
    assert start_host() == stale

"""The control plane of the user-space host: refusals as typed errors, and messages that only a socket can carry."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from links import SocketClient
from processes import StartHost

from gpurt._gpurt import lib
from gpurt.enums import Command, Packet
from gpurt.errors import DeviceError, RefusedError, UsageError
from pycontrol.host import wire
from pycontrol.host.wire import GENERIC
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control
from pycontrol.link.netlink import (
    HEADER,
    MAX_DUMPS,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    PACKET,
    SOCKET_FAMILY,
    error_verdict,
    split,
)

ME = os.getpid()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.set_priority(1, 5), "process 1"),
        (lambda p: p.set_priority(ME, 100), "priority 100"),
        (lambda p: p.set_policy("segment", gpu=3), "no GPU 3"),
        (lambda p: p.clients(gpu=9), "no GPU 9"),
        (lambda p: p.set_exempt(True), "exactly one"),
        (lambda p: p.set_exempt(True, comm="x" * 64), "COMM"),
    ],
)
def test_refusals_say_why(host: Path, call: Callable[[Control], None], words: str) -> None:
    with control(str(host)) as plane:
        with pytest.raises(RefusedError, match=words):
            call(plane)
        assert plane.status()


@pytest.mark.parametrize("fact", ["LATE", "TIER", "POLICY", "STUCK_COUNT"])
def test_a_status_without_a_fact_is_refused(host: Path, fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 0 it would be the good case."""
    with control(str(host)) as plane:
        (message,) = plane._link.request(Command.GET_STATUS, {})
        del message.attributes[fact]
        monkeypatch.setattr(plane._link, "request", lambda *_: [message])
        with pytest.raises(DeviceError, match=f"does not say {fact.lower()}"):
            plane.status()


def test_an_unknown_policy_is_a_usage_error(host: Path) -> None:
    with control(str(host)) as plane, pytest.raises(UsageError, match="not one of"):
        plane.set_policy("fair")


def test_no_host_is_said(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="gpurt emulate"):
        control(str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match="neither"):
        control(str(tmp_path / "file"))


def request(
    command: int, body: bytes, *, length: int | None = None, flags: int = NLM_F_REQUEST, kind: int = SOCKET_FAMILY
) -> bytes:
    payload = GENERIC.pack(command, 1, 0) + body
    size = HEADER.size + len(payload) if length is None else length
    return HEADER.pack(size, kind, flags, 1, 0) + payload


def refusal(host: Path, message: bytes) -> tuple[int, str]:
    """Error and extack text that a raw netlink message is answered with."""
    with SocketClient(host) as raw:
        raw.sock.send(PACKET.pack(Packet.NETLINK, 0, 0, 0) + message)
        answer = raw.sock.recv(1 << 16)
        (_, flags, _, data) = next(split(answer[PACKET.size :]))
        return error_verdict(flags, data)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (request(Command.GET_STATUS, b"", length=1000), "says 1000 bytes"),
        (request(Command.GET_STATUS, b"", kind=3), "not a generic netlink request"),
        (request(Command.GET_STATUS, b"", flags=0), "not a generic netlink request"),
        (b"\0" * 8, "shorter than its headers"),
    ],
)
def test_malformed_messages_are_refused_by_name(host: Path, message: bytes, words: str) -> None:
    error, text = refusal(host, message)
    assert error in (errno.EINVAL, errno.EOPNOTSUPP)
    assert words in text


Answer = Callable[[wire.Head], bytes]


@pytest.fixture
def other_host(tmp_path: Path) -> Iterator[Callable[[Answer], Path]]:
    """Makes a host that has the same answer to each request."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def serve(answer: Answer) -> None:
        connection, _ = listener.accept()
        with connection:
            while packet := connection.recv(1 << 16):
                connection.send(answer(wire.head_of(packet[PACKET.size :])))

    def start(answer: Answer) -> Path:
        path = tmp_path / "other.sock"
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=serve, args=(answer,), daemon=True).start()
        return path

    with listener:
        yield start



def test_an_answer_that_is_never_of_one_time_is_no_answer(other_host: Callable[[Answer], Path]) -> None:
    asked = []

    def changed(head: wire.Head) -> bytes:
        asked.append(head.sequence)
        return wire.packet(NLMSG_DONE, NLM_F_DUMP_INTR, head, bytes(4))

    with control(str(other_host(changed))) as plane, pytest.raises(DeviceError, match="changed each of the"):
        plane.rules()
    assert asked == list(range(1, MAX_DUMPS + 1))


def test_more_clients_are_listed_than_a_reader_may_leave_unread(start_host: StartHost) -> None:
    """3,200 clients: more than a mebibyte of answers, which is made as it is read."""
    gpus, connections = 16, 200
    path = start_host(f"--gpus={gpus}")
    with ExitStack() as stack:
        for _ in range(connections):
            client = stack.enter_context(SocketClient(path))
            for gpu in range(gpus):
                assert client.code(lib.GPURT_IOC_WAIT, gpu=gpu, what=lib.GPURT_WAIT_GRANT) == -errno.ENOENT
        with control(str(path)) as plane:
            found = plane.clients()
            assert len({(one.gpu, one.client) for one in found}) == len(found) == gpus * connections

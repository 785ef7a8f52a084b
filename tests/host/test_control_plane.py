"""The control plane: typed client against a host, and netlink messages that break the rules."""

from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path

import pytest
from conftest import MS, Raw, StartHost, eventually
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pycontrol._gpurt import lib

from pycontrol.client import Control
from pycontrol.client import connect as control
from pycontrol.enums import Cause, Command, EventKind, Image, Overrun, Packet, Policy, State
from pycontrol.errors import DeviceError, RefusedError, UsageError
from pycontrol.host_wire import ATTRIBUTE, GENERIC, attribute
from pycontrol.netlink import HEADER, NLM_F_REQUEST, NUMBERS, PACKET, SOCKET_FAMILY, split, verdict

ME = os.getpid()
NLM_F_ACK = 4


@pytest.fixture
def plane(host: Path) -> Control:
    return control(str(host))


def test_status_and_clients_say_what_is(host: Path, plane: Control) -> None:
    with Raw(host) as client:
        client.tsg()
        client.begin(priority=42)
        (gpu,), (one,) = plane.status(), plane.clients()
        assert (gpu.policy, gpu.image, gpu.runner_pid, gpu.clients, gpu.tsgs) == (Policy.SEGMENT, Image.ONE, ME, 1, 1)
        assert (one.pid, one.state, one.priority, one.depth, one.segments) == (ME, State.RUNNING, 42, 1, 1)
        assert one.set_priority is None
        client.end()
        assert plane.status()[0].image is Image.ALL
        assert plane.clients()[0].state is State.IDLE


def test_a_set_priority_decides_and_can_be_undone(host: Path, plane: Control) -> None:
    with Raw(host) as client:
        client.begin(priority=10)
        plane.set_priority(ME, 77)
        assert (plane.clients()[0].priority, plane.clients()[0].set_priority) == (77, 77)
        plane.set_priority(ME, 0)
        assert plane.status()[0].image is Image.ALL
        plane.set_priority(ME, None)
        assert plane.clients()[0].priority == 10


def test_policies_change_in_mid_flight(host: Path, plane: Control) -> None:
    with Raw(host) as a, Raw(host) as b:
        a.begin(priority=10)
        b.begin(priority=20)
        for policy, running in (
            (Policy.TIMESLICED, 2), (Policy.SEGMENT, 1), (Policy.LOCK_PRIORITY, 1), (Policy.LOCK_FIFO, 1)
        ):  # fmt: skip
            plane.set_policy(policy)
            assert sum(one.state is State.RUNNING for one in plane.clients()) == running
        plane.set_policy("segment")
        assert sorted(one.priority for one in plane.clients() if one.state is State.RUNNING) == [20]


def test_a_budget_overrun_is_reported_and_demotes(host: Path, plane: Control) -> None:
    with Raw(host) as greedy, Raw(host) as best_effort, control(str(host)) as listener:
        events = listener.events(timeout=20)
        greedy.begin(priority=50)
        plane.set_budget(ME, 5 * MS, Overrun.DEMOTE)
        assert best_effort.begin() == lib.GPURT_STATE_PENDING
        overrun = next(event for event in events if event.kind is EventKind.OVERRUN)
        assert overrun.pid == ME
        eventually(lambda: plane.status()[0].image is Image.ALL)
        demoted = [one for one in plane.clients() if one.demoted]
        assert [one.overruns for one in demoted] == [1]
        assert demoted[0].held_ns >= 5 * MS
        greedy.end()
        assert not any(one.demoted for one in plane.clients())


def test_exemptions_by_name_hold_for_clients_to_come(host: Path, plane: Control) -> None:
    name = Path(f"/proc/{ME}/comm").read_text().strip()
    plane.set_exempt(True, comm=name)
    with Raw(host) as urgent, Raw(host) as other:
        urgent.begin(priority=90)
        assert other.begin() == lib.GPURT_STATE_RUNNING
        assert all(one.exempt for one in plane.clients())
        plane.set_exempt(False, comm=name)
        assert not any(one.exempt for one in plane.clients())
        assert other.begin() == lib.GPURT_STATE_PENDING


def test_latency_is_kept_by_cause(start_host: StartHost) -> None:
    host = start_host("--alpha=3ms")
    with Raw(host) as client, control(str(host)) as plane:
        for _ in range(4):
            client.begin(priority=5)
            client.end()
        times = {one.cause: one for one in plane.latency()}
        assert (times[Cause.BEGIN].count, times[Cause.END].count) == (4, 4)
        begin = times[Cause.BEGIN]
        assert 3 * MS <= begin.minimum <= begin.mean <= begin.percentile(0.99) <= begin.maximum
        assert sum(begin.buckets) == 4


def test_events_tell_the_story_in_order(host: Path) -> None:
    with control(str(host)) as listener, Raw(host) as low, Raw(host) as high:
        events = listener.events(timeout=20)
        low.begin(priority=10)
        high.begin(priority=20)
        high.end()
        low.end()
        story = []
        for event in events:
            if event.kind is not EventKind.COMMIT:
                story.append((event.kind, event.priority))
            if len(story) >= 11:
                break
        kinds = [kind for kind, _ in story]
        assert kinds.index(EventKind.PREEMPT) < kinds.index(EventKind.RESUME)
        assert story.count((EventKind.END, 0)) == 2 or kinds.count(EventKind.END) == 2
        assert (EventKind.GRANT, 10) in story
        assert (EventKind.GRANT, 20) in story


def test_a_slow_reader_loses_events_and_is_told(host: Path) -> None:
    slow = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(str(host))
    slow.send(PACKET.pack(Packet.SUBSCRIBE, 0, 0, 0))
    with Raw(host) as busy, control(str(host)) as plane:
        for _ in range(4000):
            busy.begin(priority=3)
            busy.end()
        assert plane.status()[0].clients == 1
    slow.settimeout(5)
    kinds = []
    while not kinds or kinds[-1] is not EventKind.LOST:
        kinds.append(event_kind(slow.recv(1 << 16)))
    assert len(kinds) > 100
    slow.close()


def event_kind(packet: bytes) -> EventKind:
    (_, _, _, message) = next(split(packet[PACKET.size :]))
    at = HEADER.size + GENERIC.size
    while at < len(message):
        length, kind = ATTRIBUTE.unpack_from(message, at)
        if kind == NUMBERS["EVENT"]:
            return EventKind(struct.unpack_from("=I", message, at + 4)[0])
        at += (length + 3) & ~3
    raise AssertionError("not an event")


@pytest.mark.parametrize(
    ("call", "number", "words"),
    [
        (lambda p: p.set_priority(1, 5), errno.ESRCH, "process 1"),
        (lambda p: p.set_priority(ME, 100), errno.EINVAL, "priority 100"),
        (lambda p: p.set_budget(2**31, 5), errno.ESRCH, "process"),
        (lambda p: p.set_policy("job", poll_ns=1), errno.EINVAL, "polling period"),
        (lambda p: p.set_policy("segment", gpu=3), errno.ENODEV, "no GPU 3"),
        (lambda p: p.clients(gpu=9), errno.ENODEV, "no GPU 9"),
        (lambda p: p.set_exempt(True), errno.EINVAL, "exactly one"),
        (lambda p: p.set_exempt(True, pid=2**31), errno.ESRCH, "process"),
        (lambda p: p.set_exempt(True, cgroup="x"), errno.EINVAL, "CGROUP"),
        (lambda p: p.set_exempt(True, comm="x" * 64), errno.EINVAL, "COMM"),
    ],
)
def test_refusals_say_why(plane: Control, call: object, number: int, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        call(plane)  # type: ignore[operator]
    assert plane.status()


def test_an_unknown_policy_is_a_usage_error(plane: Control) -> None:
    with pytest.raises(UsageError, match="not one of"):
        plane.set_policy("fair")


def test_no_host_is_said(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="gpurt emulate"):
        control(str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match="neither"):
        control(str(tmp_path / "file"))


def request(command: int, body: bytes, *, version: int = 1, length: int | None = None, flags: int = 0) -> bytes:
    payload = GENERIC.pack(command, version, 0) + body
    size = HEADER.size + len(payload) if length is None else length
    return HEADER.pack(size, SOCKET_FAMILY, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0) + payload


def refusal(host: Path, message: bytes) -> tuple[int, str]:
    """Error and extack text that a raw netlink message is answered with."""
    with Raw(host) as raw:
        raw.sock.send(PACKET.pack(Packet.NETLINK, 0, 0, 0) + message)
        answer = raw.sock.recv(1 << 16)
        (_, flags, _, data) = next(split(answer[PACKET.size :]))
        return verdict(flags, data)


PID, PRIORITY = attribute("PID", ME), attribute("PRIORITY", 5)
SET = Command.SET_PRIORITY


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (request(SET, PID), "missing attribute GPURT_A_PRIORITY"),
        (request(SET, PID + PID + PRIORITY), "duplicate attribute GPURT_A_PID"),
        (request(SET, PID + PRIORITY[:-2], length=None), "truncated attribute GPURT_A_PRIORITY"),
        (request(SET, PID + PRIORITY + attribute("BUDGET_NS", 5)), "BUDGET_NS does not belong"),
        (request(SET, PID + PRIORITY + ATTRIBUTE.pack(8, 9999) + bytes(4)), "unknown attribute 9999"),
        (request(SET, PID + ATTRIBUTE.pack(12, NUMBERS["PRIORITY"]) + bytes(8)), "has 8 bytes, not 4"),
        (request(SET, PID + ATTRIBUTE.pack(8, NUMBERS["PRIORITY"] | 1 << 15) + bytes(4)), "nested"),
        (request(SET, PID + PRIORITY, version=9), "version 9"),
        (request(99, b""), "no such command: 99"),
        (request(SET, PID + PRIORITY, flags=0x300), "cannot be dumped"),
        (request(SET, PID + PRIORITY, length=1000), "says 1000 bytes"),
        (request(SET, PID + PRIORITY + b"\0\0"), "left over"),
        (b"\0" * 8, "shorter than its headers"),
    ],
)
def test_malformed_messages_are_refused_by_name(host: Path, message: bytes, words: str) -> None:
    error, text = refusal(host, message)
    assert error in (errno.EINVAL, errno.EOPNOTSUPP)
    assert words in text


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=60), command=st.integers(0, 12))
def test_random_attributes_never_break_the_host(host: Path, body: bytes, command: int) -> None:
    with Raw(host) as raw, control(str(host)) as plane:
        raw.sock.send(PACKET.pack(Packet.NETLINK, 0, 0, 0) + request(command, body))
        assert raw.sock.recv(1 << 16)
        assert plane.status()[0].policy in Policy

"""Lines of tracefs are parsed as events."""

from __future__ import annotations

import pytest

from gpurt.enums import Cause, EventKind
from pycontrol.link.tracefs import parse_event

CLIENT = b" task-12 [001] d..1. 9.500000: gpurt_grant: gpu=1 time_ns=95 client=7 pid=12 priority=60 comm=my task=1"
WORK = b" <idle>-0 [000] d.h.. 9.500000: gpurt_work: gpu=0 time_ns=5 client=7 pid=12 priority=60 comm=a b latency_ns=77"
COMMIT = b" task-12 [001] d..1. 9.500000: gpurt_commit: gpu=0 time_ns=95 client=0 pid=0 cause=end latency_ns=1234"


def test_events_of_a_client() -> None:
    event = parse_event(CLIENT)
    assert event is not None
    assert (event.kind, event.gpu, event.time_ns, event.client, event.pid) == (EventKind.GRANT, 1, 95, 7, 12)
    assert (event.priority, event.comm, event.cause, event.latency_ns) == (60, "my task=1", None, 0)


def test_work_has_a_latency_after_a_name_with_spaces() -> None:
    event = parse_event(WORK)
    assert event is not None
    assert (event.kind, event.comm, event.latency_ns) == (EventKind.WORK, "a b", 77)


def test_commits_have_a_cause() -> None:
    event = parse_event(COMMIT)
    assert event is not None
    assert (event.kind, event.cause, event.latency_ns, event.client) == (EventKind.COMMIT, Cause.END, 1234, 0)


def test_lost_events_and_other_lines() -> None:
    event = parse_event(b"CPU:1 [LOST 42 EVENTS]")
    assert event is not None
    assert (event.kind, event.lost) == (EventKind.LOST, 42)
    assert parse_event(b"# tracer: nop") is None
    assert parse_event(b"") is None


@pytest.mark.parametrize("name", [
    b": gpurt_gone: x", b"\n: gpurt_x: x", b"0: gpurt_gone: ", b"LOST 9 EVENTS", b"\nLOST 9 EVENTS", b"a latency_ns=y",
    b"a latency_ns=9", b"CPU:1 [LOST 9 E", b"a comm=b", b"a job=1 cause=x", b"a task=camera",
])  # fmt: skip
def test_names_of_processes_make_no_events(name: bytes) -> None:
    """Any user gives a process any name of 15 bytes, and it is in lines about others, too."""
    assert len(name) <= 15
    for line in (CLIENT, WORK):
        fields = line.rpartition(b" comm=")[0].partition(b" [")[2]
        tail = b" latency_ns=77" if line is WORK else b""
        made = name + b"-12 [" + fields + b" comm=" + name + tail
        events = [event for one in made.split(b"\n") if (event := parse_event(one))]
        plain = parse_event(line)
        assert plain is not None
        assert [(one.kind, one.time_ns, one.client, one.priority) for one in events] == [
            (plain.kind, plain.time_ns, plain.client, plain.priority)
        ]
        if b"\n" not in name:
            assert (events[0].comm, events[0].latency_ns) == (name.decode(), plain.latency_ns)

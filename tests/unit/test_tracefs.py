"""Lines of tracefs are parsed as events."""

from __future__ import annotations

from gpurt.enums import Cause, EventKind
from pycontrol.live.tracefs import parse

CLIENT = b" task-12 [001] d..1. 9.5: gpurt_grant: gpu=1 time_ns=95 client=7 pid=12 priority=60 comm=my task=1"
WORK = b" <idle>-0 [000] d.h.. 9.5: gpurt_work: gpu=0 time_ns=5 client=7 pid=12 priority=60 comm=a b latency_ns=77"
COMMIT = b" task-12 [001] d..1. 9.5: gpurt_commit: gpu=0 time_ns=95 client=0 pid=0 cause=end latency_ns=1234"


def test_events_of_a_client() -> None:
    event = parse(CLIENT)
    assert event is not None
    assert (event.kind, event.gpu, event.time_ns, event.client, event.pid) == (EventKind.GRANT, 1, 95, 7, 12)
    assert (event.priority, event.comm, event.cause, event.latency_ns) == (60, "my task=1", None, 0)


def test_work_has_a_latency_after_a_name_with_spaces() -> None:
    event = parse(WORK)
    assert event is not None
    assert (event.kind, event.comm, event.latency_ns) == (EventKind.WORK, "a b", 77)


def test_commits_have_a_cause() -> None:
    event = parse(COMMIT)
    assert event is not None
    assert (event.kind, event.cause, event.latency_ns, event.client) == (EventKind.COMMIT, Cause.END, 1234, 0)


def test_lost_events_and_other_lines() -> None:
    event = parse(b"CPU:1 [LOST 42 EVENTS]")
    assert event is not None
    assert (event.kind, event.lost) == (EventKind.LOST, 42)
    assert parse(b"# tracer: nop") is None
    assert parse(b"") is None

# SPDX-License-Identifier: GPL-2.0
"""The module's tracepoints tell what netlink tells; `gpurt trace record` reads both."""

from __future__ import annotations

import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

from links import MS, PATIENCE, client_of, eventually
from loading import DEVICE

from analysis.traces.trace import Kind, load_trace
from gpurt._gpurt import lib
from gpurt.enums import EventKind
from pycontrol.link import tracefs
from pycontrol.link.control import Control, EventRecord, connect

INSTANCES = Path("/sys/kernel/tracing/instances")


def exercise() -> None:
    """A preemption with work, some budgets overrun or not, all ends."""
    with client_of(DEVICE) as low, client_of(DEVICE) as high:
        tsg = low.tsg()
        low.begin(priority=10)
        work = low.submit(tsg, 5 * MS)
        high.begin(priority=20)
        high.end()
        assert low.finished(tsg, work)
        low.end()
        for client in (low, high):
            for what in (lib.GPURT_COPY_BEGIN, lib.GPURT_COPY_END):
                assert client.code(lib.GPURT_IOC_COPY, what=what, priority=7 * (what == lib.GPURT_COPY_BEGIN)) == 0
            for what, spent in ((lib.GPURT_MARK_BEGIN, 0), (lib.GPURT_MARK_END, 5)):
                fields = {"what": what, "job": 3, "cpu_ns": spent, "task": b"a task=1 comm=b latency_ns=2"}
                assert client.call(lib.GPURT_IOC_JOB_MARK, **fields)[0] == 0


def tracing() -> bool:
    """Whether somebody records by now."""
    switches = INSTANCES.glob("gpurt-*/events/gpurt/enable")  # which come some time after the instance itself
    return any(switch.read_text()[0] == "1" for switch in switches)


def test_both_ways_tell_the_same(module: Control) -> None:
    told: list[EventRecord] = []
    traced: list[EventRecord] = []
    done = threading.Event()

    def follow() -> None:
        for some in tracefs.follow(None, 0.1, done):
            traced.extend(some)

    tracer = threading.Thread(target=follow, daemon=True)
    tracer.start()
    try:
        eventually(tracing)
        with connect(str(DEVICE)) as listener:
            stream = listener.events(PATIENCE)
            exercise()
            while sum(one.kind is EventKind.GONE for one in told) < 2:
                told.append(next(stream))
    finally:
        done.set()
        tracer.join(PATIENCE)
    assert len(told) > 18
    copies = {EventKind.COPY_ASK, EventKind.COPY_BEGIN, EventKind.COPY_END}
    assert copies | {EventKind.JOB_BEGIN, EventKind.JOB_END} < {one.kind for one in told}
    # tracers find name and priority in the events before a commit
    told = [replace(one, comm="", priority=0) if one.kind is EventKind.COMMIT else one for one in told]
    assert sorted(traced, key=str) == sorted(told, key=str)
    assert not list(INSTANCES.glob("gpurt-*"))
    assert module.status()


def test_trace_records_through_tracefs(module: Control, tmp_path: Path) -> None:
    output = tmp_path / "run.json"
    with subprocess.Popen(["gpurt", "trace", "record", "--tracepoints", "-o", str(output)]) as recorder:
        eventually(tracing)
        exercise()
        eventually(lambda: module.clients() == [])
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait() == 0
    kinds = {event.kind for event in load_trace(output).events}
    assert kinds >= {Kind.BEGIN, Kind.GRANT, Kind.PREEMPT, Kind.RESUME, Kind.END, Kind.COMMIT, Kind.GONE}
    assert module.status()

# SPDX-License-Identifier: GPL-2.0
"""Recording a host's events as a trace, whoever the clients are."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import replace

from analysis.trace import Event, Kind, Trace
from pycontrol.live import tracefs
from pycontrol.live.control import Control, EventRecord, connect
from pycontrol.live.events import named_events
from pycontrol.run.trace import held

#: How often an end of the recording is noticed while nothing happens, seconds.
GLANCE = 0.1
#: Events that are handed on in one go.
CHUNK = 1024


def record(
    device: str | None, seconds: float | None, progress: Callable[[int], None], *, tracepoints: bool = False
) -> Trace:
    """Events for so many seconds, or until interrupted; tasks are named COMM-PID.

    ``progress`` is told how many events there are; with ``tracepoints`` they come from tracefs, not by netlink.
    Raises DeviceError if there is no host, or it goes away.
    """
    records: list[EventRecord] = []
    with connect(device) as control:
        policy = control.status()[0].policy.word
        stream = tracefs.follow(seconds, GLANCE) if tracepoints else _told(control, seconds)
        try:
            for some in stream:
                records += some
                progress(len(records))
        except KeyboardInterrupt:
            stream.close()
    return assemble(records, policy)


def _told(control: Control, seconds: float | None) -> Generator[list[EventRecord], None, None]:
    """What the control plane tells, in lists."""
    end = time.monotonic() + seconds if seconds is not None else None
    stream = control.events(GLANCE)
    while end is None or time.monotonic() < end:
        some = []
        for one in stream:
            some.append(one)
            if (end is not None and time.monotonic() >= end) or len(some) >= CHUNK:
                break
        else:
            stream = control.more(GLANCE)
        yield some


def assemble(records: list[EventRecord], policy: str) -> Trace:
    """A trace from events, starting at time 0; intervals during which a task owned the GPU are added."""
    events = named_events(records, {})
    owned = held(events, {event.task for event in events if event.task})
    events += [Event(start, Kind.GPU, task, None, end - start, gpu=0) for task in owned for start, end in owned[task]]
    origin = min((event.time for event in events), default=0)
    shifted = [replace(event, time=event.time - origin) for event in events]
    meta = {"source": "runtime", "clock": "CLOCK_MONOTONIC", "policy": policy}
    return Trace(meta, tuple(sorted(shifted, key=lambda event: event.time)))

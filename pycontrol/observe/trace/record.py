# SPDX-License-Identifier: GPL-2.0
"""Records a host's events as a trace.  The host may be the kernel module or the user-space host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace

from analysis.traces.trace import HOST, About, Event, Kind, Trace
from gpurt.errors import DeviceError
from pycontrol.ending import asked
from pycontrol.link.control import Control, EventRecord, GpuStatus, connect
from pycontrol.link.events import event_priorities, named_events, rest
from pycontrol.link.sleep import Sleep
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.costs import isolation
from pycontrol.observe.fit.host import look_without_file
from pycontrol.observe.fit.trace import joined_looks
from pycontrol.observe.trace.trace import owned_events
from pycontrol.observe.watch.watch import EVENT_PATIENCE_NS

#: How often the recorder checks whether to end while no event arrives, seconds.
IDLE_CHECK_S = 0.1
#: The recorder reports its progress after at most this many events.
EVENTS_A_REPORT = 1024
#: The time between two looks at the host's GPUs and clients, seconds.
STATUS_PERIOD_S = 1.0


def record(
    device: str | None, seconds: float | None, progress: Callable[[int], None], *,
    begin: Callable[[dict[str, str]], Callable[[EventRecord], None]] = lambda _meta: lambda _record: None,
) -> tuple[Trace, str]:  # fmt: skip
    """Records events for ``seconds``, or until SIGINT, SIGTERM or SIGHUP; tasks are named COMM-PID.

    The recorder calls ``begin`` with the facts known before the first event, for the head of a trace.  It calls the
    function that ``begin`` returns with each event as it comes.  It calls ``progress`` with the number of events so
    far: first after it has subscribed, then after each list of events.  The trace has every event that the host sent
    before the end, and the host as `Looks` saw it.  Must be called from the main thread, because it handles signals.

    Returns the trace, and why it ends early: the host has gone; empty: it ends as asked.

    Raises:
        DeviceError: there is no host, or it has no GPU.
    """
    records: list[EventRecord] = []
    sleep, begun, gone = Sleep(), False, ""
    with connect(device) as control, connect(device) as asks, asked() as stop:
        looks = Looks(asks)
        before = looks.host.gpus
        meta = {"source": "runtime", "clock": "CLOCK_MONOTONIC", "policy": before[0].policy.word}
        meta["gpus"] = str(len(before))
        keep = begin(meta | {HOST: fit.saved(looks.host)})
        failures: list[str] = []
        over = 0
        try:
            for some in _told(control, seconds, stop):
                records += some
                for one in some:
                    keep(one)
                progress(len(records))
                begun = True
                looks.perhaps()
            over = time.monotonic_ns()
            records += rest(control)
            looks.again()
            failures = failures_of(before, looks.host.gpus)
        except DeviceError as error:
            if not begun:
                raise
            gone, over = str(error), over or time.monotonic_ns()
    blind = f"{gone}: what it did after that was not seen" if gone else sleep.since()
    return assemble_events(
        records, meta | {HOST: fit.saved(looks.host)}, over - EVENT_PATIENCE_NS, blind, failures
    ), gone


class Looks:
    """The known facts of a host since the recording began.  ``asks``: a connection without events."""

    def __init__(self, asks: Control) -> None:
        self.host = look_without_file(asks)
        self._asks, self._next = asks, time.monotonic() + STATUS_PERIOD_S

    def perhaps(self) -> None:
        """Looks again if the last look is STATUS_PERIOD_S seconds old.  Raises DeviceError: the host is gone."""
        if time.monotonic() >= self._next:
            self.again()

    def again(self) -> None:
        """Looks again.  Raises DeviceError: the host is gone."""
        self.host = joined_looks(self.host, look_without_file(self._asks, None))
        self._next = time.monotonic() + STATUS_PERIOD_S


def failures_of(before: Sequence[GpuStatus], after: Sequence[GpuStatus]) -> list[str]:
    """Why, between two looks, GPUs may have executed work that the scheduler had not allowed."""
    return [text for old, new in zip(before, after, strict=False) for text in isolation(new, old)]


def _told(control: Control, seconds: float | None, stop: threading.Event) -> Generator[list[EventRecord], None, None]:
    """The control plane's events, in lists; the first list is empty and means that the subscription holds."""
    end = time.monotonic() + seconds if seconds is not None else float("inf")
    stream = control.events(IDLE_CHECK_S)
    yield []
    while time.monotonic() < end and not stop.is_set():
        some = []
        try:
            for one in stream:
                some.append(one)
                if time.monotonic() >= end or len(some) >= EVENTS_A_REPORT or stop.is_set():
                    break
            else:
                stream = control.more(IDLE_CHECK_S)
        except DeviceError:
            yield some
            raise
        yield some


def assemble_events(records: list[EventRecord], meta: Mapping[str, str], over: int = 0, blind: str = "",
             failures: Sequence[str] = ()) -> Trace:  # fmt: skip
    """A trace of events, starting at time 0, with an interval for each time that a task owned the GPU.

    ``over``: until when all events are known, ns of their clock; jobs that have not ended then are
    unfinished.  ``blind``: why times must not be trusted; empty if no reason is known.  ``failures``: why GPUs may have
    executed work that the scheduler had not allowed.
    """
    events = named_events(records, {})
    events += owned_events(events, {event.task for event in events if event.task})
    origin = min((event.time for event in events), default=0)
    shifted = [replace(event, time=event.time - origin) for event in events]
    tasks = {name: About(priority) for name, priority in event_priorities(records, {}).items()}
    until = max(0, over - origin) if events else 0
    ordered = sorted(shifted, key=lambda event: event.time)
    last = max(until, ordered[-1].time if ordered else 0)
    told = [Event(last, Kind.LATE, detail=text) for text in failures]
    told += [Event(last, Kind.LOST, detail=blind)] if blind else []
    return Trace(meta, (*ordered, *told), tasks, until)

# SPDX-License-Identifier: GPL-2.0
"""Collects the host's events while something runs.  A thread of its own reads them, so that none is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType

from analysis.trace import Event, Kind
from gpurt.enums import EventKind
from gpurt.errors import GpurtError
from pycontrol.live.control import Control, EventRecord, connect

KINDS = {
    EventKind.BEGIN: Kind.BEGIN,
    EventKind.GRANT: Kind.GRANT,
    EventKind.PREEMPT: Kind.PREEMPT,
    EventKind.RESUME: Kind.RESUME,
    EventKind.END: Kind.END,
    EventKind.OVERRUN: Kind.OVERRUN,
    EventKind.GONE: Kind.GONE,
    EventKind.COMMIT: Kind.COMMIT,
    EventKind.LOST: Kind.LOST,
}
#: How often the reading thread checks whether to end, seconds.
GLANCE = 0.1
#: After the end, the thread reads for at most this long what the host has sent, seconds.
LINGER = 3.0


def to_event(record: EventRecord, task: str) -> Event | None:
    """The trace event of a host's event; None if traces do not keep that kind."""
    kind = KINDS.get(record.kind)
    if kind is None:
        return None
    if kind is Kind.COMMIT:
        cause = record.cause.word if record.cause is not None else None
        return Event(record.time_ns, kind, task, None, record.latency_ns, gpu=record.gpu, detail=cause)
    detail = f"{record.lost or 'an unknown number of'} events lost" if kind is Kind.LOST else None
    return Event(record.time_ns, kind, task, gpu=record.gpu, detail=detail)


class Listener:
    """Collects events while the context is entered.  ``control`` is a second connection, for commands meanwhile.

    Raises:
        DeviceError: on creation, if there is no host.
    """

    def __init__(self, device: str | None = None) -> None:
        self.control: Control = connect(device)
        self._events: Control = connect(device)
        self._records: list[EventRecord] = []
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._read, name="gpurt-events", daemon=True)

    def __enter__(self) -> Listener:
        self._stream: Iterator[EventRecord] = self._events.events(GLANCE)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()
        self._events.close()
        self.control.close()

    def _read(self) -> None:
        try:
            while not self._stop.is_set():
                for record in self._stream:
                    self._records.append(record)
                    if time.monotonic() > self._deadline:
                        return
                self._stream = self._events.more(GLANCE)
        except (GpurtError, OSError):
            return  # the host is gone; the events until then count

    def _finish(self) -> None:
        """Reads the events that were sent: until none comes for GLANCE seconds, and for at most LINGER seconds."""
        self._deadline = time.monotonic() + LINGER
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def records(self) -> list[EventRecord]:
        """Ends the collecting and returns all events as the host sent them."""
        self._finish()
        return self._records

    def events(self, names: Mapping[int, str]) -> list[Event]:
        """Ends the collecting and returns all events in order of time.

        ``names`` maps process ids to tasks; other processes are named COMM-PID.  The name is empty in an event that
        concerns no single process.
        """
        return named_events(self.records(), names)


def process(record: EventRecord) -> str:
    """What a trace calls the process of an event: COMM-PID."""
    return f"{record.comm}-{record.pid}"


def named_events(records: Iterable[EventRecord], names: Mapping[int, str]) -> list[Event]:
    """Trace events in order of time; see `Listener.events`."""

    def name(record: EventRecord) -> str:
        return names.get(record.pid, process(record)) if record.pid else ""

    all_of_them = list(records)
    found = [event for record in all_of_them if (event := to_event(record, name(record))) is not None]
    return sorted([*found, *copies(all_of_them, name)], key=lambda event: event.time)


def copies(records: Iterable[EventRecord], name: Callable[[EventRecord], str]) -> Iterator[Event]:
    """How long clients had the bus.  A copy of which the records lack the end or the beginning is left out."""
    begun: dict[tuple[int, int], EventRecord] = {}
    for record in records:
        key = record.gpu, record.client
        if record.kind is EventKind.COPY_BEGIN:
            begun[key] = record
        elif record.kind is EventKind.COPY_END and (first := begun.pop(key, None)):
            yield Event(first.time_ns, Kind.COPY, name(first), None, record.time_ns - first.time_ns, gpu=record.gpu)

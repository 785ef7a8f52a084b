# SPDX-License-Identifier: GPL-2.0
"""The host's events while something runs: read by a thread of their own, so that none is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
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
#: How often the reading thread looks whether it is to end, seconds.
GLANCE = 0.1
#: How long after the end it reads what the host sent before, seconds.
LINGER = 3.0


def to_event(record: EventRecord, task: str) -> Event | None:
    """The trace event of a host's event; None for one that traces do not keep."""
    kind = KINDS.get(record.kind)
    if kind is None:
        return None
    if kind is Kind.COMMIT:
        cause = record.cause.word if record.cause is not None else None
        return Event(record.time_ns, kind, task, None, record.latency_ns, gpu=record.gpu, detail=cause)
    detail = f"{record.lost or 'an unknown number of'} events lost" if kind is Kind.LOST else None
    return Event(record.time_ns, kind, task, gpu=record.gpu, detail=detail)


class Listener:
    """Listens from entering the context to leaving it; ``control`` is a connection for commands meanwhile.

    Raises DeviceError on entering if there is no host.
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
            return  # the host is gone; what it said until then counts

    def _finish(self) -> None:
        """What was sent is still read: until nothing comes, or for LINGER where others keep the host busy."""
        self._deadline = time.monotonic() + LINGER
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def records(self) -> list[EventRecord]:
        """Ends listening; all events as the host sent them."""
        self._finish()
        return self._records

    def events(self, names: Mapping[int, str]) -> list[Event]:
        """Ends listening; all events in order of time.

        Tasks have their names by process id, other processes COMM-PID; events without a process concern everyone.
        """
        return named_events(self.records(), names)


def named_events(records: Iterable[EventRecord], names: Mapping[int, str]) -> list[Event]:
    """Trace events in order of time; see `Listener.events`."""

    def name(record: EventRecord) -> str:
        return names.get(record.pid, f"{record.comm}-{record.pid}") if record.pid else ""

    found = (to_event(record, name(record)) for record in records)
    return sorted((event for event in found if event is not None), key=lambda event: event.time)

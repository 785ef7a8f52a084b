# SPDX-License-Identifier: GPL-2.0
"""Collects the host's events while something runs.  A separate thread reads them, so that none is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from analysis.traces.partial import Partial
from analysis.traces.trace import Event, Kind
from gpurt.enums import EventKind
from gpurt.errors import GpurtError
from pycontrol.link.control import Control, EventRecord, connect

KINDS = {
    EventKind.BEGIN: Kind.BEGIN,
    EventKind.GRANT: Kind.GRANT,
    EventKind.PREEMPT: Kind.PREEMPT,
    EventKind.RESUME: Kind.RESUME,
    EventKind.END: Kind.END,
    EventKind.OVERRUN: Kind.OVERRUN,
    EventKind.COMMIT: Kind.COMMIT,
    EventKind.LOST: Kind.LOST,
    EventKind.LATE: Kind.LATE,
    EventKind.STUCK: Kind.STUCK,
    EventKind.MEMBER_DIED: Kind.MEMBER_DIED,
}
#: What a reader is told if a client announces jobs faster than the host forwards.
MARKS_LOST = "beginnings and ends of its jobs were not told: it tells of too many"
#: How often the reading thread checks whether to end, seconds.
END_CHECK_S = 0.1
#: For how long after the end a reader still reads what the host has sent, seconds.
LINGER = 3.0


def to_events(record: EventRecord, task: str) -> Iterator[Event]:
    """The trace events of a host's event: none if traces do not keep that kind, two if a job begins.

    Events of a job, and of a client that is gone, have the process as their detail, if it is known.
    """
    time, spent = record.time_ns, record.latency_ns
    if record.lost and record.kind is not EventKind.LOST and task:
        yield Event(time, Kind.LOST, task, gpu=record.gpu, detail=f"{record.lost} {MARKS_LOST}")
    if record.kind is EventKind.JOB_BEGIN:
        yield Event(time - spent, Kind.RELEASE, task, record.job)
        yield Event(time, Kind.START, task, record.job, spent, detail=_process(record))
    elif record.kind is EventKind.JOB_END:
        detail, executed = _process(record), record.cpu_ns or None
        yield Event(time, Kind.COMPLETE, task, record.job, spent, detail=detail, executed=executed)
    elif record.kind is EventKind.GONE:
        yield Event(time, Kind.GONE, task, gpu=record.gpu, detail=_process(record))
    elif record.kind is EventKind.COMMIT:
        cause = record.cause.word if record.cause is not None else None
        yield Event(time, Kind.COMMIT, task, None, spent, gpu=record.gpu, detail=cause)
    elif kind := KINDS.get(record.kind):
        detail = record.detail or None
        if kind is Kind.LOST:
            detail = f"{record.lost or 'an unknown number of'} events lost"
        priority = record.priority if kind is Kind.BEGIN and record.client else None
        yield Event(time, kind, task, gpu=record.gpu, detail=detail, group=record.group or None,
                    user=record.user or None, priority=priority)  # fmt: skip


class Names:
    """The names that traces give the processes of events, from the events so far.

    A process's name is its task in ``known``, else the task of the jobs that its client announced, else COMM-PID.  An
    event about a job has the task that the process states.  The name is empty if the event is about no single process.
    """

    def __init__(self, known: Mapping[int, str]) -> None:
        self._known = known
        self._said: dict[int, str] = {}

    def of(self, record: EventRecord) -> str:
        """The name of an event's process.  Call this in the order of the events."""
        if record.task:
            self._said[record.client] = record.task
            return record.task
        if not record.client and not record.pid:
            return ""
        name = (
            self._known.get(record.pid) or self._said.get(record.client) or (comm_and_pid(record) if record.pid else "")
        )
        if record.kind is EventKind.GONE:
            self._said.pop(record.client, None)
        return name


def streamed(partial: Partial, known: Mapping[int, str]) -> Callable[[EventRecord], None]:
    """A function that writes each event to a file as it comes; ``known``: see `Names`; it may grow."""
    names = Names(known)
    return lambda record: partial.add(to_events(record, names.of(record)))


def rest(control: Control) -> Iterator[EventRecord]:
    """The events that the host sent before this call and that are still unread on this connection.

    The host answers a request on the same socket after these events, so they have arrived with the answer.  Later
    events are read too, for at most LINGER seconds: a busy host would otherwise keep its reader for ever.
    """
    control.status()
    end = time.monotonic() + LINGER
    for one in control.more(0):
        yield one
        if time.monotonic() >= end:
            return


class Listener:
    """Collects events while the context is entered.  ``control`` is a second connection, for commands meanwhile.

    ``look`` is called with each event: in another thread as it arrives, with the last events in the ending thread.

    Raises:
        DeviceError: on creation, there is no host.
    """

    def __init__(
        self, device: str | None = None, look: Callable[[EventRecord], None] = lambda _record: None
    ) -> None:  # fmt: skip
        self._look = look
        self.control: Control = connect(device)
        self._events: Control = connect(device)
        self._records: list[EventRecord] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="gpurt-events", daemon=True)

    def __enter__(self) -> Listener:
        self._stream: Iterator[EventRecord] = self._events.events(END_CHECK_S)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._finish()
        self._events.close()
        self.control.close()

    def _read(self) -> None:
        try:
            while not self._stop.is_set():
                for record in self._stream:
                    self._note(record)
                    if self._stop.is_set():
                        return
                self._stream = self._events.more(END_CHECK_S)
        except (GpurtError, OSError):
            return  # the host is gone; the events until then count

    def _note(self, record: EventRecord) -> None:
        self._records.append(record)
        self._look(record)

    def _finish(self) -> None:
        """Reads the events that were sent until now, however late they arrive.  A second call does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        with suppress(GpurtError, OSError):  # the host is gone; the events until then count
            for record in rest(self._events):
                self._note(record)

    def so_far(self) -> list[EventRecord]:
        """The events that have arrived, as the host sent them."""
        return self._records

    def records(self) -> list[EventRecord]:
        """Ends the collecting and returns all events as the host sent them."""
        self._finish()
        return self._records

    def events(self, names: Mapping[int, str]) -> list[Event]:
        """Ends the collecting and returns all events in order of time.

        ``names`` maps process ids to tasks; see `Names`.
        """
        return named_events(self.records(), names)


def _process(record: EventRecord) -> str | None:
    return comm_and_pid(record) if record.pid else None


def comm_and_pid(record: EventRecord) -> str:
    """The name that a trace gives the process of an event: COMM-PID."""
    return f"{record.comm}-{record.pid}"


def event_priorities(records: Iterable[EventRecord], names: Mapping[int, str]) -> dict[str, int]:
    """By name, the highest GPU priority that a client's events state; see `Names`."""
    called, found = Names(names), dict[str, int]()
    for record in records:
        if name := called.of(record):
            found[name] = max(record.priority, found.get(name, 0))
    return found


def named_events(records: Iterable[EventRecord], names: Mapping[int, str]) -> list[Event]:
    """Trace events in order of time; see `Names`."""
    called = Names(names)
    all_of_them = [(record, called.of(record)) for record in records]
    found = [event for record, name in all_of_them for event in to_events(record, name)]
    return sorted([*found, *copies(all_of_them)], key=lambda event: event.time)


def copies(records: Iterable[tuple[EventRecord, str]]) -> Iterator[Event]:
    """How long clients had the bus, from events and the names of their processes.

    A copy is left out if the records lack its beginning or its end.
    """
    begun: dict[tuple[int, int], EventRecord] = {}
    for record, name in records:
        key = record.gpu, record.client
        if record.kind is EventKind.COPY_BEGIN:
            begun[key] = record
        elif record.kind is EventKind.COPY_END and (first := begun.pop(key, None)):
            yield Event(first.time_ns, Kind.COPY, name, None, record.time_ns - first.time_ns, gpu=record.gpu)

# SPDX-License-Identifier: GPL-2.0
"""Reads the module's tracepoints (events/gpurt in tracefs) as the same events that netlink carries.

The reader makes a trace instance of its own and removes it at the end, so it does not disturb other tracing.  A reader
that is slow for a while loses netlink's events, but not these.  These also cost the scheduler less.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpurt.enums import Cause, EventKind
from gpurt.errors import DeviceError
from pycontrol.link.control import EventRecord
from pycontrol.link.netlink import LATER
from pycontrol.readable import readable

ROOTS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
#: Processes choose the names in a line: before the time there is that of the process which was executing, in the fields
#: that of the client, of 15 bytes at most.  So nothing that would fit into a name begins an event.
LINE = re.compile(rb"\d\.\d{6}: gpurt_(\w+): (.*)")
LOST = re.compile(rb"CPU:\d+ \[LOST (\d+) EVENTS\]")
LATENCY = re.compile(r"(.*) latency_ns=(\d+)", re.DOTALL)
#: The names of the tracepoints that have a latency after the names.
LATENT = ("work", "late", "copy_begin", "job_begin", "job_end")
#: Size of the kernel's buffer for each CPU, KiB.
BUFFER_KB = 4096
READ_BYTES = 1 << 16


def parse_event(line: bytes) -> EventRecord | None:
    """The event in one line of a trace; None if the line has none."""
    if lost := LOST.search(line):
        return EventRecord(EventKind.LOST, time.monotonic_ns(), 0, 0, 0, "", 0, None, 0, int(lost.group(1)))
    found = LINE.search(line)
    if not found:
        return None
    # only task and latency_ns may follow the name; the names themselves may have spaces
    text = found.group(2).decode("utf-8", "replace")
    head, _, tail = text.partition(" comm=")
    name = found.group(1).decode()
    ends = LATENCY.fullmatch(tail) if name in LATENT else None
    comm, latency = ends.groups() if ends else (tail, "")
    fields = dict(part.split("=", 1) for part in head.split() if "=" in part)
    comm, _, task = comm.partition(" task=") if "job" in fields else (comm, "", "")
    cause = fields.get("cause")
    try:
        kind, why = EventKind.parse(name.replace("_", "-")), Cause(Cause.parse(cause)) if cause else None
    except ValueError:
        raise DeviceError(f"the module traces gpurt_{name}{f' of cause {cause}' if cause else ''}, {LATER}") from None
    return EventRecord(
        EventKind(kind), int(fields["time_ns"]), int(fields["gpu"]),
        int(fields["client"]), int(fields["pid"]), comm, int(fields.get("priority", 0)),
        why, int(latency or fields.get("latency_ns", 0)), 0,
        task, int(fields["job"]) if "job" in fields else None, int(fields.get("cpu_ns", 0)),
    )  # fmt: skip


@contextmanager
def _instance() -> Iterator[Path]:
    root = next((root for root in ROOTS if (root / "instances").is_dir()), None)
    if root is None:
        raise DeviceError("tracefs is not mounted, or hidden; as root: mount -t tracefs none /sys/kernel/tracing")
    folder = root / "instances" / f"gpurt-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        raise DeviceError(f"{folder}: {error.strerror}; reading tracepoints needs root") from None
    try:
        events = folder / "events/gpurt"
        if not events.is_dir():
            raise DeviceError("the kernel has no tracepoints of gpurt; is the module loaded?")
        (folder / "buffer_size_kb").write_text(str(BUFFER_KB))
        (events / "enable").write_text("1")
        yield folder
        (events / "enable").write_text("0")
    finally:
        folder.rmdir()


def _read(pipe: int) -> bytes:
    """The unread text of a trace, or the first part of much text; empty if there is nothing."""
    with suppress(BlockingIOError):
        return os.read(pipe, READ_BYTES)
    return b""


def follow(
    seconds: float | None, glance: float, stop: threading.Event | None = None
) -> Generator[list[EventRecord], None, None]:
    """Yields lists of events as they come, at least one list every `glance` seconds, for `seconds` or until ``stop``.

    The last list has every event up to the end that no list before it has.

    Raises:
        DeviceError: there is no tracefs, no module, or no permission.
    """
    end = time.monotonic() + seconds if seconds is not None else None
    with _instance() as folder:
        pipe = os.open(folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            rest = b""
            while (end is None or time.monotonic() < end) and not (stop and stop.is_set()):
                readable(pipe, glance)
                *lines, rest = (rest + _read(pipe)).split(b"\n")
                yield [record for record in map(parse_event, lines) if record is not None]
            (folder / "events/gpurt/enable").write_text("0")  # nothing comes any more, so that what is left has an end
            while more := _read(pipe):
                rest += more
            yield [record for record in map(parse_event, rest.split(b"\n")) if record is not None]
        finally:
            os.close(pipe)

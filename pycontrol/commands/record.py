# SPDX-License-Identifier: GPL-2.0
"""The command that records the host's events: trace record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from analysis.traces.partial import Partial
from analysis.traces.trace import Kind
from gpurt.errors import DeviceError, FileError
from gpurt.files import check_writable
from pycontrol.commands.options import JSON, TIME, Output, command
from pycontrol.link.events import streamed
from pycontrol.observe.trace.record import record as recorded
from pycontrol.output import render


@command(
    extra="the file to write is -o FILE",
    epilog="""\b
Examples:
  gpurt trace record -o run.json             until Ctrl-C
  gpurt trace record -o run.json --duration 5s

\b
ui.perfetto.dev draws the file.  Exit codes: 0 done, also after Ctrl-C, SIGTERM and SIGHUP; 2 wrong usage;
3 cannot be written; 4 no host, or it has gone: what was recorded until then is written."""
)
@click.option("-o", "--output", required=True, type=Output(), help="File to write the trace to.")
@click.option("--duration", metavar="TIME", type=TIME, help="Length of the recording; until Ctrl-C unless given.")
@JSON
@click.pass_obj
def record_command(device: str | None, output: Path, duration: int | None, as_json: bool) -> int:
    """Record the host's events as a Chrome/Perfetto trace.

    Until the trace is whole, its events are in FILE.partial, which every command that reads traces accepts.
    """
    seconds = duration / 1e9 if duration is not None else None
    check_writable(output)
    begun, partial = False, None

    def begin(meta: dict[str, str]) -> Any:
        nonlocal partial
        partial = Partial(output, meta)
        return streamed(partial, {})

    def progress(_count: int) -> None:
        nonlocal begun
        if not begun and not as_json:
            render.say("recording" if duration else "recording; Ctrl-C ends it", err=True)
        begun = True

    try:
        found, gone = recorded(device, seconds, progress, begin=begin)
        found.save(output)
    except FileError as error:
        raise (partial.kept(error) if partial else error) from None
    except BaseException:
        if partial and not partial.count:
            partial.over()
        raise
    notes = [event.detail for event in found.events if event.kind is Kind.LOST and event.detail]
    notes += [] if found.events else ["no event came: no program used this host meanwhile (gpurt status clients)"]
    if partial:
        partial.over()
        notes += [partial.failed] if partial.failed else []
    render.note(*notes, as_json=as_json)
    data = {"policy": found.meta["policy"], "events": len(found.events), "files": [output], "notes": notes}
    if as_json or output.is_file():  # otherwise stdout may be the trace
        render.emit(data, as_json, f"{len(found.events)} events in {output}")
    return DeviceError.exit_code if gone else 0

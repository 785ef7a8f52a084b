# SPDX-License-Identifier: GPL-2.0
"""The command that watches clients and their shares: top."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from gpurt.errors import UsageError
from pycontrol.commands.options import JSON, Time, command
from pycontrol.ending import SignalEvent
from pycontrol.link.control import Control, connect
from pycontrol.link.sampling import Looks, sample
from pycontrol.observe.clients import clients_data, clients_text
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  gpurt top
  gpurt top --once                    the parts that clients have of one second
  gpurt top --json | head -n 60       a document a line, every second

\b
A share is the time in which a client owned the GPU alone, and an equal part of the time in which nobody owned it and
several clients were in segments.  20 looks an interval estimate that part; ~ marks it.

\b
Ctrl-C ends it.  Exit codes: 0 done; 2 wrong usage; 4 no host."""
)
@click.option("--interval", metavar="TIME", default="1s", show_default=True, type=Time(), help="Between samples.")
@click.option("--once", is_flag=True, help="Watch for one interval, show that and end.")
@JSON
@click.pass_obj
def top_command(device: str | None, interval: int, once: bool, as_json: bool) -> int:
    """Watch the clients: which of them owns the GPU, how often and for how long."""
    if not 100_000_000 <= interval <= 3600 * 10**9:
        raise UsageError("--interval: from 100ms to 3600s")
    seconds = interval / 1e9
    with connect(device) as control:
        try:
            if once:
                looks = Looks(control, seconds)
                first = sample(looks, None)
                looks.wait()
                seen = sample(looks, first)
                render.emit(clients_data(seen), as_json, clients_text(seen, _width(), None))
            elif as_json or not sys.stdout.isatty():
                _report(control, seconds, as_json)
            else:
                _watch(control, seconds)
        except KeyboardInterrupt:
            return 0
    return 0


def _width() -> int | None:
    return Console().width if sys.stdout.isatty() else None


def _report(control: Control, interval: float, as_json: bool) -> None:
    """Prints each interval's samples one after the other, for programs and files."""
    looks = Looks(control, interval)
    seen = sample(looks, None)
    while True:
        looks.wait()
        seen = sample(looks, seen)
        if as_json:
            render.emit_line(clients_data(seen))
        else:
            render.say(clients_text(seen, None, None) + "\n")


def _watch(control: Control, interval: float) -> None:
    """Shows the latest sample on the whole terminal.  When the user ends it, that stays below the prompt."""
    console = Console()
    looks = Looks(control, interval)
    seen = sample(looks, None)

    def screen() -> Text:
        return Text(clients_text(seen, console.width, console.height), no_wrap=True, overflow="crop")

    try:
        with _resized() as resized, Live(screen(), console=console, screen=True, auto_refresh=False) as live:
            while True:
                for _ in range(looks.count):
                    due = time.monotonic() + looks.pause
                    while (left := due - time.monotonic()) > 0:
                        if resized.wait(left):
                            resized.clear()
                            live.update(screen(), refresh=True)
                    looks.look()
                seen = sample(looks, seen)
                live.update(screen(), refresh=True)
    finally:
        render.say(clients_text(seen, console.width, None))


@contextmanager
def _resized() -> Iterator[threading.Event]:
    """An event that is set when the terminal changes its size."""
    event = SignalEvent()
    before = signal.signal(signal.SIGWINCH, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGWINCH, before)

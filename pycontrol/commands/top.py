# SPDX-License-Identifier: GPL-2.0
"""Command: top."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gpurt.enums import State
from pycontrol.commands import documents, render
from pycontrol.commands.options import JSON, Seconds, connect
from pycontrol.commands.render import ms
from pycontrol.ending import SignalEvent

if TYPE_CHECKING:
    from pycontrol.live.control import ClientInfo, Control, GpuStatus

#: The columns from left to right, and how soon each is left out where the terminal is narrow; 0: never.
COLUMNS = {"GPU": 3, "pid": 0, "name": 0, "state": 2, "priority": 1, "share": 0, "owned ms": 5, "segments": 6,
           "preempted": 4, "depth": 8, "TSGs": 7, "form": 10, "raised": 11, "": 9}  # fmt: skip
#: Shortest and longest bar for the part that a client owned; a terminal without room for the shortest shows none.
BAR = (10, 60)


#: So many looks an interval say who shares a GPU that nobody owns, and the least time between two of them, s.
LOOKS, APART = 20, 0.05

#: A client: its GPU and number.
Key: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True)
class Sample:
    """What the host says at one time, ns, and which part of the GPU's time since an earlier sample each client had.

    ``shares``: that part, 0 to 1.  ``shared``: the part of it in which nobody owned the GPU and all clients in
    segments shared it; it is estimated from looks, and counts as divided equally.
    """

    time: int
    gpus: list[GpuStatus]
    clients: list[ClientInfo]
    shares: dict[Key, float]
    shared: dict[Key, float]

    def share(self, one: ClientInfo) -> float | None:
        """The part of the time, 0 to 1; None if there is no earlier sample."""
        return self.shares.get((one.gpu, one.client))

    def ordered(self) -> list[ClientInfo]:
        """The clients, those that had most first."""
        return sorted(self.clients, key=lambda one: (-(self.share(one) or 0), one.gpu, one.pid, one.client))


class Looks:
    """Looks at the host between samples: who shares a GPU that nobody owns."""

    def __init__(self, control: Control, interval: float) -> None:
        self.control = control
        self.count = max(1, min(LOOKS, int(interval / APART)))
        self.pause = interval / self.count
        self.seen = 0
        self.parts: dict[Key, float] = {}

    def look(self) -> None:
        """Divides this look's time equally among the clients that share a GPU."""
        owned = {gpu.gpu for gpu in self.control.status() if gpu.runner_pid}
        running = [one for one in self.control.clients() if one.state is State.RUNNING and one.gpu not in owned]
        on = Counter(one.gpu for one in running)
        self.seen += 1
        for one in running:
            key = one.gpu, one.client
            self.parts[key] = self.parts.get(key, 0) + 1 / on[one.gpu]

    def take(self) -> dict[Key, float]:
        """The parts of the time since the last call."""
        parts = {key: part / self.seen for key, part in self.parts.items()} if self.seen else {}
        self.seen = 0
        self.parts.clear()
        return parts

    def wait(self) -> None:
        """Looks for one interval."""
        for _ in range(self.count):
            time.sleep(self.pause)
            self.look()


def sample(looks: Looks, before: Sample | None) -> Sample:
    """Asks the host.  The host answers at another time than we look at the clock, so a share is cut to 1."""
    clients, now = looks.control.clients(), time.monotonic_ns()
    shares, shared = {}, looks.take()
    if before and now > before.time:
        held = {(one.gpu, one.client): one.held_ns for one in before.clients}
        owned = {(one.gpu, one.client): one.held_ns - held.get((one.gpu, one.client), 0) for one in clients}
        shares = {key: min(1.0, ns / (now - before.time) + shared.get(key, 0)) for key, ns in owned.items()}
    return Sample(now, looks.control.status(), clients, shares, shared)


def text(seen: Sample, width: int | None, height: int | None) -> str:
    """A line for the GPUs, then the clients, in at most so many columns and lines if they are given."""
    from pycontrol.live.control import NO_GPU

    gpus = ", ".join(f"GPU {one.gpu} {one.policy.word}" for one in seen.gpus) or NO_GPU
    cells = [_cells(one, _percent(seen, one)) for one in seen.ordered()]
    columns = [name for name in COLUMNS if name or any(one[""] for one in cells)]
    lines = _table(columns, cells)
    if width is not None:
        for name in sorted(COLUMNS, key=lambda name: -COLUMNS[name]):
            if max(map(len, lines)) <= width or not COLUMNS[name]:
                break
            columns = [one for one in columns if one != name]
            lines = _table(columns, cells)
        lines = _with_bars(lines, seen, width)
    lines = [f"{gpus}; {len(seen.clients)} clients", *lines]
    if height is not None and len(lines) > height:
        lines[height - 1 :] = [f"... and {len(lines) - height + 1} more"]
    return "\n".join(line if width is None or len(line) <= width else line[: width - 1] + "~" for line in lines)


def table(clients: list[ClientInfo]) -> str:
    """The clients without what they owned of a time, as the command `clients` shows them."""
    return "\n".join(_table([name for name in COLUMNS if name != "share"], [_cells(one, "-") for one in clients]))


def _percent(seen: Sample, one: ClientInfo) -> str:
    """A part that is estimated begins with a tilde."""
    share = seen.share(one)
    if share is None:
        return "-"
    return f"{'~' if seen.shared.get((one.gpu, one.client)) else ''}{100 * share:.1f}%"


def _cells(one: ClientInfo, share: str) -> dict[str, str]:
    flags = " ".join(word for word in ("exempt", "demoted", "barred") if getattr(one, word))
    return {
        "GPU": str(one.gpu), "pid": str(one.pid), "name": one.comm, "state": one.state.word,
        "priority": str(one.priority), "share": share,
        "owned ms": ms(one.held_ns), "segments": str(one.segments), "preempted": str(one.preemptions),
        "depth": str(one.depth), "TSGs": str(one.tsgs), "form": one.form.word,
        "raised": f"to {one.raised}" if one.raised else "-", "": flags,
    }  # fmt: skip


def _table(columns: list[str], cells: list[dict[str, str]]) -> list[str]:
    return render.table(columns, [[one[name] for name in columns] for one in cells]).split("\n")


def _with_bars(lines: list[str], seen: Sample, width: int) -> list[str]:
    """The table with a bar beside each client, if there is room."""
    used = max(map(len, lines)) + 2
    room = min(width - used, BAR[1])
    if room < BAR[0] or not seen.shares:
        return lines
    bars = ["#" * round(room * (seen.share(one) or 0)) for one in seen.ordered()]
    return [*lines[:2], *(f"{line:{used}}{bar}".rstrip() for line, bar in zip(lines[2:], bars, strict=True))]


def data(seen: Sample) -> dict[str, Any]:
    """For JSON."""
    clients = [
        documents.client(one) | {"share": seen.share(one), "shared": seen.shared.get((one.gpu, one.client), 0.0)}
        for one in seen.ordered()
    ]
    return {"gpus": list(map(documents.gpu, seen.gpus)), "clients": clients}


@click.command(
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
@click.option("--interval", default=1.0, show_default=True, type=Seconds(0.1, 3600), help="Seconds.")
@click.option("--once", is_flag=True, help="Watch for one interval, show that and end.")
@JSON
@click.pass_obj
def top(device: str | None, interval: float, once: bool, as_json: bool) -> int:
    """Watch the clients: which of them owns the GPU, how often and for how long."""
    with connect(device) as control:
        try:
            if once:
                looks = Looks(control, interval)
                first = sample(looks, None)
                looks.wait()
                seen = sample(looks, first)
                render.emit(data(seen), as_json, text(seen, _width(), None))
            elif as_json or not sys.stdout.isatty():
                _report(control, interval, as_json)
            else:
                _watch(control, interval)
        except KeyboardInterrupt:
            return 0
    return 0


def _width() -> int | None:
    from rich.console import Console

    return Console().width if sys.stdout.isatty() else None


def _report(control: Control, interval: float, as_json: bool) -> None:
    """Prints each interval's samples one after the other, for programs and files."""
    looks = Looks(control, interval)
    seen = sample(looks, None)
    while True:
        looks.wait()
        seen = sample(looks, seen)
        if as_json:
            render.emit_line(data(seen))
        else:
            render.say(text(seen, None, None) + "\n")


def _watch(control: Control, interval: float) -> None:
    """Shows the latest sample on the whole terminal.  When the user ends it, that stays below the prompt."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    looks = Looks(control, interval)
    seen = sample(looks, None)

    def screen() -> Text:
        return Text(text(seen, console.width, console.height), no_wrap=True, overflow="crop")

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
        render.say(text(seen, console.width, None))


@contextmanager
def _resized() -> Iterator[threading.Event]:
    """An event that is set when the terminal changes its size."""
    event = SignalEvent()
    before = signal.signal(signal.SIGWINCH, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGWINCH, before)

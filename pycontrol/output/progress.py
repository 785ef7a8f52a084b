# SPDX-License-Identifier: GPL-2.0
"""Shows the progress of a slow command on stderr: as a bar on a terminal, else in some lines."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

import click

from gpurt.text import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

#: Seconds before a command shows progress, and between two lines without a terminal.
PATIENCE, INTERVAL = 2.0, 10.0


def end_shown() -> None:
    """Ends the shown bar before a thread ends the process: the bar's own thread would draw it once more."""
    for one in list(Progress.drawn):
        one.end()


class Progress:
    """The progress of some work: ``pos`` of ``length`` steps are done.  A context, in which ``update`` counts steps.

    ``length``: 0 if it is not known.  ``shown``: whether anything is shown.
    """

    #: Objects whose bar is shown.
    drawn: ClassVar[list[Progress]] = []

    def __init__(self, length: int, label: str, shown: bool = True) -> None:
        self.shown = shown
        self.length, self.label, self.pos = length, label, 0
        self._began = self._told = time.monotonic()
        self._bar: Bar | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._draw)
        self._timer.daemon = True

    def __enter__(self) -> Progress:
        # the first step may take long by itself
        if self.shown and is_terminal(sys.stderr):
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stops showing progress."""
        self._timer.cancel()
        with self._lock:
            self.shown = False
            if self._bar:
                self._bar.stop()
                self._bar = None
                self.drawn.remove(self)

    def update(self, steps: int) -> None:
        """Counts more steps as done."""
        self.pos += steps
        now = time.monotonic()
        if not self.shown or now - self._began < PATIENCE:
            return
        if is_terminal(sys.stderr):
            self._draw()
        elif now - self._told >= INTERVAL:
            self._told = now
            click.echo(f"{self.label}: {self.pos} of {self.length}", err=True)

    def reach(self, done: int) -> None:
        """Sets how many steps are done so far."""
        self.update(done - self.pos)

    def _draw(self) -> None:
        with self._lock:
            if not self.shown:
                return
            if self._bar is None:
                from rich.console import Console  # takes longer than most commands
                from rich.progress import Progress as Bar

                self._bar = Bar(console=Console(stderr=True), transient=True)
                self._bar.add_task(self.label, total=self.length or None)
                self._bar.start()
                self.drawn.append(self)
            self._bar.update(self._bar.task_ids[0], completed=self.pos)

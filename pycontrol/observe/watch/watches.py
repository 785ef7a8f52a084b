# SPDX-License-Identifier: GPL-2.0
"""Watches a host for as long as the process runs: also the next one at its place, when it has gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from analysis.traces.trace import Event, Kind
from gpurt.errors import GpurtError
from gpurt.text import visible
from pycontrol.link.control import ClientInfo, Control
from pycontrol.observe.judge.finding import Finding
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.watch import Watcher

#: How often the watch checks whether there is a host again, seconds.
RETRY_PERIOD_S = 1.0


class Watches:
    """One judge for successive hosts at one place; a thread of its own feeds it.

    Args:
        connect: makes a connection to the host; raises GpurtError if there is none.
        judge: takes the events.  When a host goes, it learns once that events are lost.
        compare: called with a connection to each host before its events; it reports to the judge itself.
        stop: ends the watch when it is set.
        say: called with a line when a host has gone, and when one has come.

    Raises:
        GpurtError: on creation, if there is no host.
    """

    def __init__(
        self, connect: Callable[[], Control], judge: Judge, compare: Callable[[Control], object],
        stop: threading.Event, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._connect, self._judge, self._compare, self._stop, self._say = connect, judge, compare, stop, say
        self.running = False
        self._watcher, self._batches = self._begin()
        self._thread = threading.Thread(target=self._follow, name="gpurt-watch", daemon=True)
        self._thread.start()

    def task_of(self, client: ClientInfo) -> str | None:
        """The task that a client is."""
        return self._watcher.task_of(client)

    def _begin(self) -> tuple[Watcher, Iterator[list[Finding]]]:
        asks = self._connect()
        try:
            self._compare(asks)
            watcher = Watcher(self._connect(), asks, self._judge)
            batches = watcher.findings(self._stop)
            next(batches)  # from now on no event is missed
        except BaseException:
            asks.close()
            raise
        self.running = True
        return watcher, batches

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                for _ in self._batches:
                    pass
            except (GpurtError, OSError) as error:
                self.running = False
                if self._stop.is_set():
                    return
                self._judge.feed(Event(time.monotonic_ns(), Kind.LOST, detail="the host has gone"))
                self._say(f"the watch has ended: {visible(error)}; it goes on when there is a host")
                self._again()
        self.running = False

    def _again(self) -> None:
        """Waits for a host; the connections of the one that has gone are closed."""
        self._watcher.control.close()
        self._watcher.asks.close()
        while not self._stop.wait(RETRY_PERIOD_S):
            try:
                self._watcher, self._batches = self._begin()
            except (GpurtError, OSError):
                continue
            self._say("the watch goes on")
            return

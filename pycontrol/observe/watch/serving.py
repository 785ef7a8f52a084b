# SPDX-License-Identifier: GPL-2.0
"""Counters and histograms of a host, its clients and jobs, served to Prometheus (docs/watching.md)."""

from __future__ import annotations

import ipaddress
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry

from analysis.answers.chosen import covering_test
from analysis.taskset import TasksetFile
from analysis.traces.trace import Event, Kind
from gpurt.errors import GpurtError, RuntimeFailure
from gpurt.text import visible
from pycontrol.ending import SignalEvent
from pycontrol.link.control import Control, connect
from pycontrol.machine.programs import command_of
from pycontrol.observe.fit import fit
from pycontrol.observe.judge.finding import Finding
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.distributions import ResponseCollector
from pycontrol.observe.watch.exposition import Server
from pycontrol.observe.watch.listening import INSTALL_CURE, OLDEST, address_of, listen_text
from pycontrol.observe.watch.metrics import ANSWER_LIMIT_S, HostCollector, JudgeCollector
from pycontrol.observe.watch.mismatch import bounds_by_task, lasting, mismatch
from pycontrol.observe.watch.watch import EVENT_PATIENCE_NS, Watcher
from pycontrol.output import render

#: How often the watch checks whether a host has come again, seconds.
RETRY_PERIOD_S = 1.0


def serve(device: str | None, listen: str, loaded: TasksetFile | None, name: str | None) -> None:
    """Serves metrics until SIGINT or SIGTERM.

    ``loaded``: the file by which jobs are judged; ``name``: the test whose bounds count.

    Raises UsageError for a wrong address, DeviceError without a host, and RuntimeFailure if the address is taken or
    prometheus-client is too old.
    """
    address, port = address_of(listen)
    if tuple(map(int, re.findall(r"\d+", found := version("prometheus-client"))[:2])) < OLDEST:
        raise RuntimeFailure(f"prometheus-client {visible(found)} is too old: {INSTALL_CURE}")
    registry, stop = CollectorRegistry(auto_describe=True), SignalEvent()  # ?name[]= finds every metric then
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    connect(device).close()  # raises DeviceError before anything is served
    if loaded:
        _watch(device, loaded, name, registry, stop)
    registry.register(HostCollector(lambda: connect(device, ANSWER_LIMIT_S)))
    try:
        server = Server(address, port, registry)
    except OSError as error:
        stop.set()
        raise RuntimeFailure(f"--listen {visible(listen)}: {error.strerror}; name another address") from None
    if not _is_loopback(address):
        render.say(f"note: {address} is no loopback address: everyone who reaches it can read", err=True)
    render.say(f"serving http://{listen_text(address, server.server_port)}/metrics", err=True)
    stop.wait()
    server.close()


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _watch(device: str | None, loaded: TasksetFile, name: str | None, registry: Any, stop: threading.Event) -> None:
    """Starts to watch."""
    chosen = covering_test(loaded.taskset, name)
    with connect(device) as asks:
        host = fit.ask(asks, loaded)
    found = fit.lines(lasting(fit.objections(loaded, host)))
    remarks = [*loaded.notes, *chosen.notes, *filter(None, [chosen.why]), *found]
    render.note(*remarks, as_json=False)
    responses = ResponseCollector(one.name for one in loaded.taskset)
    judge = Judge(loaded, bounds_by_task(chosen.test, loaded.taskset), patience=EVENT_PATIENCE_NS, gpus=len(host.gpus),
                  observe=responses.observe, command_of=command_of)  # fmt: skip

    def compare(asks: Any) -> None:
        mismatch(judge, lasting(fit.objections(loaded, fit.ask(asks, loaded))), chosen.why if name else "")

    watches = Watches(lambda: connect(device), judge, compare, stop,
                      lambda text: render.say(f"gpurt: {text}", err=True))  # fmt: skip
    registry.register(responses)
    registry.register(JudgeCollector(judge, lambda: watches.running))


class Watches:
    """One judge for successive hosts at one place, with a thread that feeds it.

    Args:
        connect: makes a connection to the host; raises GpurtError if there is none.
        judge: takes the events.  When a host goes, the judge gets one event that says that events are lost.
        compare: called with a connection to each host before the host's events; reports to the judge itself.
        stop: ends the watch when it is set.
        say: called with a line when a host has gone, and when a host has come.

    Raises:
        GpurtError: on creation, there is no host.
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
        """Waits for a host, after closing the connections to the previous host."""
        self._watcher.control.close()
        self._watcher.asks.close()
        while not self._stop.wait(RETRY_PERIOD_S):
            try:
                self._watcher, self._batches = self._begin()
            except (GpurtError, OSError):
                continue
            self._say("the watch goes on")
            return

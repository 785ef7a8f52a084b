# SPDX-License-Identifier: GPL-2.0
"""Cost of `gpurt watch`: CPU time for each event, from the socket to the verdict, and its share at 10,000 a second.

The events come from an emulator and a program that only begins and ends jobs with a segment.  No event may be
lost.  The figures are CPU time, so other work on the machine matters little.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from analysis import taskset
from analysis.model import Platform
from pycontrol.act.run.emulator import Emulator
from pycontrol.link.control import connect
from pycontrol.observe.judge.finding import Finding, What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.watch import EVENT_PATIENCE_NS, Watcher

FILE = """[platform]
cpus = 1
epsilon = "1s"
policy = "segment"
[[task]]
name = "busy"
cpu = 0
priority = 7
period = "10s"
segments = [{ cpu = "1s" }, { misc = "1s", gpu = "1s" }]
"""
PROGRAM = """
import sys, time, gpurt
with gpurt.Client(sys.argv[1]) as client:
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        with gpurt.job("busy", number, client=client), gpurt.segment(7, client=client):
            pass
        time.sleep(0.0005)
"""


def run(quick: bool) -> Iterator[tuple[str, float, str]]:
    """Yields the figures."""
    jobs = 300 if quick else 20_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "busy.toml"
        path.write_text(FILE)
        file = taskset.load(path)
        often = tuple(replace(task, period=1) for task in file.taskset)  # no file may have such short periods
        file = replace(file, taskset=replace(file.taskset, tasks=often))
        with Emulator(Platform(1)) as emulator:
            place = str(emulator.socket)
            with connect(place) as control, connect(place) as asks:
                asks.set_policy("segment")
                watcher = Watcher(control, asks, Judge(file, {}, patience=EVENT_PATIENCE_NS))
                spent, events, found = _watch(watcher, place, jobs)
    if lost := [one.text for one in found if one.what is What.LOST]:
        raise RuntimeError(f"events were lost: {lost[0]}")
    each = spent / 1e3 / events
    yield "watch.cpu_us_per_event", each, "us"
    yield "watch.cpu_percent_at_10000_events_per_s", each, "%"  # 10,000 events x microseconds, of a second


def _watch(watcher: Watcher, socket: str, jobs: int) -> tuple[int, int, list[Finding]]:
    """The CPU time of this process in ns, the number of events, and what was found."""
    stop, found = threading.Event(), []
    batches = watcher.findings(stop)
    next(batches)
    command = [sys.executable, "-c", PROGRAM, socket, str(jobs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as program:
        before = time.process_time_ns()
        assert program.stdin
        program.stdin.close()
        for batch in batches:
            found += batch
            if watcher.judge.tally("busy").jobs == jobs or program.poll():
                break
        return time.process_time_ns() - before, watcher.events, found

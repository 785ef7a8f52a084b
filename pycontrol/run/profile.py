# SPDX-License-Identifier: GPL-2.0
"""Measures the GPU segments of a program that uses the library, and writes them as a task entry."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from analysis.taskset import task_name
from gpurt.enums import EventKind
from gpurt.errors import RuntimeFailure
from gpurt.units import format_time
from pycontrol.live.control import EventRecord
from pycontrol.live.events import Listener
from pycontrol.run.trace import merge


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one run, ns; ``misc`` and ``pure`` are the longest and the shortest G^m and G^e of a segment."""

    exit_code: int
    segments: int
    cpu_ns: int
    wall_ns: int
    misc: tuple[int, int]
    pure: tuple[int, int]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "exit_code": self.exit_code, "segments": self.segments, "cpu_ns": self.cpu_ns, "wall_ns": self.wall_ns,
            "misc_worst_ns": self.misc[0], "misc_best_ns": self.misc[1], "gpu_worst_ns": self.pure[0],
            "gpu_best_ns": self.pure[1],
        }  # fmt: skip

    def entry(self, name: str, period: int) -> str:
        """A [[task]] entry in TOML, with this period, ns."""
        cpu = max(self.cpu_ns // self.segments - self.misc[0], 0)
        return "\n".join([
            f"# {self.segments} segments were seen; worst and best of one run are no proof: add a margin.",
            "[[task]]",
            f'name = "{task_name(name)}"',
            "cpu = 0",
            "priority = 1",
            f'period = "{format_time(period)}"',
            "segments = [",
            f'  {{ cpu = "{format_time(cpu)}" }},  # mean CPU time a segment outside of segments',
            f"  {{ misc = {_span(self.misc)}, gpu = {_span(self.pure)} }},",
            "]",
        ])  # fmt: skip


def _span(span: tuple[int, int]) -> str:
    worst, best = span
    return f'{{ worst = "{format_time(worst)}", best = "{format_time(best)}" }}'


def measure(command: list[str], device: str | None, stdout: int | None = None) -> Measured:
    """Runs the program to its end with this host and measures its GPU segments.

    G^e of a segment is the time during which it owned the GPU and had work on it.  G^m is the rest of the time during
    which it owned the GPU.  Segments without work are left out.

    Args:
        command: the program and its arguments.
        device: the host's, None for the usual search.
        stdout: the descriptor that the program gets as its stdout; ours unless given.

    Raises:
        DeviceError: there is no host.
        RuntimeFailure: the program cannot be started, or no segment with work was seen.
    """
    with Listener(device) as listener:
        environment = {**os.environ, "GPURT_DEVICE": listener.control.device}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic_ns()
        try:
            process = subprocess.Popen(command, env=environment, stdout=stdout)
        except OSError as error:
            raise RuntimeFailure(f"{command[0]}: cannot be started: {error.strerror}") from None
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            code = process.wait()
        wall = time.monotonic_ns() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        time.sleep(0.2)  # for the last events to arrive
        records = listener.records()
    spans = segments([one for one in records if one.pid == process.pid])
    if not spans:
        raise RuntimeFailure(f"{command[0]}: no GPU segment with work was seen at {listener.control.device}")
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    misc, pure = [span[0] for span in spans], [span[1] for span in spans]
    return Measured(
        code if code >= 0 else 128 - code, len(spans), int(cpu * 1e9), wall,
        (max(misc), min(misc)), (max(pure), min(pure)),
    )  # fmt: skip


def segments(records: list[EventRecord]) -> list[tuple[int, int]]:
    """G^m and G^e of each segment with work, ns.

    Time during which the segment does not own the GPU counts for neither.  So other clients do not make them longer.
    """
    found = []
    owned: list[tuple[int, int]] = []
    works: list[tuple[int, int]] = []
    since: int | None = None
    inside = False
    for one in records:
        if one.kind is EventKind.BEGIN:
            owned, works, since, inside = [], [], None, True
        elif inside and one.kind in (EventKind.GRANT, EventKind.RESUME):
            since = one.time_ns
        elif inside and one.kind in (EventKind.PREEMPT, EventKind.END) and since is not None:
            owned.append((since, one.time_ns))
            since = None
        elif inside and one.kind is EventKind.WORK:
            works.append((one.time_ns - one.latency_ns, one.time_ns))
        if inside and one.kind is EventKind.END:
            inside = False
            if works:
                pure = sum(_overlap(merged, owned) for merged in merge(works))
                found.append((sum(end - start for start, end in owned) - pure, pure))
    return found


def _overlap(span: tuple[int, int], others: list[tuple[int, int]]) -> int:
    return sum(max(0, min(span[1], end) - max(span[0], start)) for start, end in others)

# SPDX-License-Identifier: GPL-2.0
"""Measures the loaded kernel module, as root; prints one figure per line: name, value, unit."""

from __future__ import annotations

import bisect
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from programs import compiled

from gpurt.enums import Cause, EventKind, Notice, Policy
from pycontrol.link.control import Control, connect

DEVICE = "/dev/gpurt"
CYCLES, QUICK_CYCLES = 400, 10
#: An update later than this after a change belongs to another change, ns.
LATE = 20_000_000
#: The events are over if none comes for this time, seconds.
IDLE_S = 1.0
SLEPT = re.compile(r" (\d+)\.(\d{6}): sched_switch:")


def medians(program: Path, *mode: str) -> dict[str, float]:
    """The figures that the measuring program prints in that mode, by name, ns."""
    run = subprocess.run([program, *mode], capture_output=True, text=True, check=True)
    return {name: float(value) for name, value in (line.split() for line in run.stdout.splitlines())}


def calls(program: Path) -> Iterator[tuple[str, float, str]]:
    """The cost of an uncontended segment."""
    found = medians(program, "calls")
    yield "kernel.noop_ioctl_ns", found["noop"], "ns"
    yield "kernel.begin_end_ns", found["begin_end"], "ns"
    yield "kernel.begin_end_over_noop", found["begin_end"] / (2 * found["noop"]), "ratio"


def raising(program: Path, control: Control) -> Iterator[tuple[str, float, str]]:
    """The additional cost of an uncontended segment under policy `boosted`, which raises and lowers its thread."""
    plain = medians(program, "low")
    control.set_policy(Policy.BOOSTED)
    for form in ("self", "owner"):
        raised = medians(program, "low", form)
        added = raised["begin_end"] - plain["begin_end"]
        yield f"kernel.raise_lower_{form}_ns", added, "ns"
        yield f"kernel.raise_lower_{form}_over_noop", added / (2 * raised["noop"]), "ratio"
    control.set_policy(Policy.SEGMENT)


@contextmanager
def tracing() -> Iterator[Path]:
    """A private trace of when the measuring program goes to sleep, by CLOCK_MONOTONIC."""
    folder = Path("/sys/kernel/tracing/instances/gpurt-bench")
    folder.mkdir()
    try:
        (folder / "trace_clock").write_text("mono")
        (folder / "buffer_size_kb").write_text("4096")
        asleep = folder / "events/sched/sched_switch"
        # a preempted task has a state as well, 256
        (asleep / "filter").write_text('prev_comm == "gpurt-jobs" && prev_state & 255')
        (asleep / "enable").write_text("1")
        yield folder
        (folder / "events/enable").write_text("0")
    finally:
        folder.rmdir()


def reactions(program: Path, control: Control, notice: Notice, cycles: int) -> list[float]:
    """Times from a task's going to sleep, as the scheduler sees it, to the end of the runlist update, us."""
    control.set_policy(Policy.JOB, notice=notice)
    with tracing() as folder, connect(DEVICE) as listener:
        events = listener.events(IDLE_S)
        subprocess.run([program, "jobs", str(cycles)], check=True)
        lines = (folder / "trace").read_text().splitlines()
        told = [one for one in events if one.kind is EventKind.COMMIT and one.cause is Cause.JOB and not one.client]
    control.set_policy(Policy.SEGMENT)
    # updates that give the runlist to everyone again because a task has stopped
    done = sorted(one.time_ns + one.latency_ns for one in told)
    slept = [int(m[1]) * 10**9 + int(m[2]) * 1000 for m in map(SLEPT.search, lines) if m]
    found = []
    for time in slept:
        at = bisect.bisect_left(done, time)
        if at < len(done) and done[at] - time < LATE:
            found.append((done[at] - time) / 1000)
    if len(found) < cycles // 2:
        sys.exit(f"only {len(found)} of {cycles} changes were noticed")
    return found


def main() -> None:
    """Prints all figures."""
    cycles = QUICK_CYCLES if "--quick" in sys.argv else CYCLES
    with tempfile.TemporaryDirectory() as folder, connect(DEVICE) as control:
        program = compiled(Path(folder)) / "kernel_calls"
        noop = 0.0
        for name, value, unit in calls(program):
            noop = value if name == "kernel.noop_ioctl_ns" else noop
            print(name, value, unit, flush=True)
        for name, value, unit in raising(program, control):
            print(name, value, unit, flush=True)
        for notice in (Notice.POLL, Notice.NOTIFY):
            found = reactions(program, control, notice, cycles)
            cuts = statistics.quantiles(found, n=100)
            print(f"kernel.{notice.word}_reaction_us.p50", cuts[49], "us", flush=True)
            print(f"kernel.{notice.word}_reaction_us.p99", cuts[98], "us", flush=True)
            print(f"kernel.{notice.word}_reaction_over_noop", cuts[49] * 1000 / noop, "ratio", flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0
"""Measures the kernel module where it is loaded, as root; prints one figure a line: name, value, unit."""

from __future__ import annotations

import bisect
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pycontrol.client import Control, EventRecord, connect
from pycontrol.enums import Cause, EventKind, Notice, Policy

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DEVICE = "/dev/gpurt"
CYCLES = 400
#: An update later than this after a change was made for another one, ns.
LATE = 20_000_000


def compiled(folder: Path) -> Path:
    """The measuring program."""
    program = folder / "kernel_calls"
    source = HERE / "kernel_calls.c"
    subprocess.run(["gcc", "-O2", "-Wall", f"-I{ROOT}/userlib/include", source, "-o", program], check=True)
    return program


def calls(program: Path) -> Iterator[tuple[str, float, str]]:
    """What an uncontended segment costs."""
    run = subprocess.run([program, "calls"], capture_output=True, text=True, check=True)
    found = {name: float(value) for name, value in (line.split() for line in run.stdout.splitlines())}
    yield "kernel.noop_ioctl_ns", found["noop"], "ns"
    yield "kernel.begin_end_ns", found["begin_end"], "ns"
    yield "kernel.begin_end_over_noop", found["begin_end"] / (2 * found["noop"]), "ratio"


def updates(records: list[EventRecord]) -> list[int]:
    """When the runlist was everyone's again because a task had stopped, ns."""
    return sorted(
        one.time_ns + one.latency_ns
        for one in records
        if one.kind is EventKind.COMMIT and one.cause is Cause.JOB and not one.client
    )


def reactions(program: Path, control: Control, notice: Notice) -> list[float]:
    """Times from a task's going to sleep to the end of the runlist update, us."""
    control.set_policy(Policy.JOB, notice=notice)
    records: list[EventRecord] = []
    with connect(DEVICE) as listener:
        stream = listener.events(2.0)
        reader = threading.Thread(target=lambda: records.extend(stream))
        reader.start()
        run = subprocess.run([program, "jobs", str(CYCLES)], capture_output=True, text=True, check=True)
        reader.join()
    control.set_policy(Policy.SEGMENT)
    done = updates(records)
    found = []
    for line in run.stdout.splitlines():
        slept = int(line)
        at = bisect.bisect_left(done, slept)
        if at < len(done) and done[at] - slept < LATE:
            found.append((done[at] - slept) / 1000)
    if len(found) < CYCLES // 2:
        sys.exit(f"only {len(found)} of {CYCLES} changes were noticed")
    return found


def main() -> None:
    """Prints all figures."""
    with tempfile.TemporaryDirectory() as folder, connect(DEVICE) as control:
        program = compiled(Path(folder))
        for name, value, unit in calls(program):
            print(name, value, unit, flush=True)
        for notice in (Notice.POLL, Notice.NOTIFY):
            found = reactions(program, control, notice)
            cuts = statistics.quantiles(found, n=100)
            print(f"kernel.{notice.word}_reaction_us.p50", cuts[49], "us", flush=True)
            print(f"kernel.{notice.word}_reaction_us.p99", cuts[98], "us", flush=True)
            time.sleep(0.1)


if __name__ == "__main__":
    main()

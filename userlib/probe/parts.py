# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The parts of the probe: what each finds out, how long it may take, when it is not run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from probe import judge, running, summary
from probe.summary import Record

#: The whole run's time, seconds.
TOTAL_S = 475
#: A part may need so much beyond its own time, seconds: its grace, twice, and the start of the next part.
SPARE_S = 13


@dataclass(frozen=True)
class Part:
    """A part: its question, and its time limit in seconds.

    ``asked``: it runs only where its name is given, for it would not fit into the time of a whole run.
    """

    finds: str
    seconds: int
    asked: bool = False


PARTS = {
    "stop": Part("when a kernel stops after a call, and when it goes on", 45),
    "strangers": Part("whether a process can take off channels of others", 20),
    "yield": Part("assumptions of yield, each judged; not part of a whole run", 280, asked=True),
}
#: What a part has in its environment.  It meets no MPS daemon, because MPS would put all processes into one context.
OWN = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}
#: The parts of a whole run.
WHOLE = tuple(name for name, part in PARTS.items() if not part.asked)


@dataclass(frozen=True)
class Options:
    """A run's plan: names of parts in order, and calls and jobs in part yield."""

    parts: tuple[str, ...]
    calls: int


def _run(name: str, options: Options, seconds: int, program: Path) -> Record:
    """Runs one part; returns its place in the report."""
    print(f"probe-nvidia: {name}: {PARTS[name].finds}", file=sys.stderr, flush=True)
    outcome = running.run_part(program, name, seconds, options.calls, {**os.environ, **OWN})
    records, broken = summary.parse_records(outcome.output)
    detail = outcome.detail + (f"; {broken} lines could not be read" if broken else "")
    part = {"status": outcome.status, "seconds": round(outcome.seconds, 2), "detail": detail}
    findings = [summary.summarise_one(record) for record in records]
    if name == "yield":
        findings = judge.judge_records(findings) + findings
    return {**part, "findings": findings}


def run_all(options: Options, program: Path) -> Iterator[tuple[str, Record]]:
    """Each part in turn: its name and its place in the report."""
    begun = time.monotonic()
    for name in options.parts:
        left = TOTAL_S - (time.monotonic() - begun)
        if left < SPARE_S + 5:
            yield name, {"status": "not run", "seconds": 0.0, "detail": "the run's time was up", "findings": []}
            continue
        yield name, _run(name, options, min(PARTS[name].seconds, int(left - SPARE_S)), program)

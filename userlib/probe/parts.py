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

#: The user and group that own nothing.
NOBODY = 65534
#: The whole run's time, seconds.
TOTAL_S = 475
#: A part may need so much beyond its own time, seconds: its grace, twice, and the start of the next part.
SPARE_S = 13


@dataclass(frozen=True)
class Part:
    """A part by the user's name for it: its question, its time limit in seconds, and the program's part that it runs.

    ``asked``: it runs only where its name is given, for it would not fit into the time of a whole run.
    """

    finds: str
    seconds: int
    program: str
    asked: bool = False


PARTS = {
    "objects": Part("groups and channels that a CUDA process allocates", 20, "objects"),
    "controls": Part("status and latency of controls, by owner and by others", 60, "controls"),
    "controls-user": Part("the same where an ordinary user owns the group", 40, "controls"),
    "stop": Part("when a kernel stops after a call, and when it goes on", 45, "stop"),
    "queues": Part("when a stop comes, by what else is queued", 20, "queues"),
    "strangers": Part("whether a process can take off channels of others", 20, "strangers"),
    "intact": Part("results of kernels preempted thousands of times", 65, "intact"),
    "copies": Part("copies under way while groups are off", 30, "copies"),
    "slices": Part("slices and switches of 2 and 4 processes", 40, "slices"),
    "latency": Part("response times of a short kernel against long ones", 50, "latency"),
    "partition": Part("green contexts: cost and isolation", 35, "partition"),
    "mps": Part("MPS percentages, if a daemon runs already", 30, "mps"),
    "yield": Part("assumptions of yield, each judged; not part of a whole run", 280, "yield", asked=True),
}
#: The parts of a whole run.
WHOLE = tuple(name for name, part in PARTS.items() if not part.asked)


@dataclass(frozen=True)
class Options:
    """A run's plan: names of parts in order, calls of each control, preemptions in part intact."""

    parts: tuple[str, ...]
    calls: int
    preemptions: int


def _environment(part: str, folder: Path, daemon: bool) -> dict[str, str]:
    """The part's environment.

    If an MPS daemon runs, every part except mps avoids it, because MPS puts all processes into one context.
    """
    own = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if daemon and part != "mps":
        own["CUDA_MPS_PIPE_DIRECTORY"] = str(folder / "no-mps")
    return own


def why_not_run(part: str, daemon: bool, left_s: float) -> str | None:
    """Why a part is not run; None if it is run."""
    if part == "mps" and not daemon:
        return "no MPS control daemon runs, and none is started"
    if part == "controls-user" and os.geteuid():
        return "part controls has run as an ordinary user already"
    return "the whole run's time was up" if left_s < SPARE_S + 5 else None


def _run(name: str, options: Options, seconds: int, program: Path, daemon: bool) -> tuple[Record, str]:
    """Runs one part; returns its place in the report, and all that the part wrote."""
    print(f"probe-nvidia: {name}: {PARTS[name].finds}", file=sys.stderr, flush=True)
    limits = running.Limits(options.calls, options.preemptions, seconds)
    user = NOBODY if name == "controls-user" else None
    around = _environment(name, program.parent, daemon)
    outcome = running.run_part(program, PARTS[name].program, limits, user, around)
    records, broken = summary.parse_records(outcome.output)
    detail = outcome.detail + (f"; {broken} lines could not be read" if broken else "")
    part = {"status": outcome.status, "seconds": round(outcome.seconds, 2), "detail": detail}
    findings = summary.summarise(records)
    if name == "yield":
        findings = judge.judge_records(findings) + findings
    return {**part, "findings": findings}, outcome.output


def run_all(options: Options, program: Path, daemon: bool, raw: list[str]) -> Iterator[tuple[str, Record]]:
    """Each part in turn: its name and its place in the report.  Appends what the parts wrote to ``raw``."""
    begun = time.monotonic()
    for name in options.parts:
        left = TOTAL_S - (time.monotonic() - begun)
        if why := why_not_run(name, daemon, left):
            yield name, {"status": "not run", "seconds": 0.0, "detail": why, "findings": []}
            continue
        part, output = _run(name, options, min(PARTS[name].seconds, int(left - SPARE_S)), program, daemon)
        raw.append(output)
        yield name, part

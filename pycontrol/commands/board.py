# SPDX-License-Identifier: GPL-2.0
"""The command that finds out what a patched driver does on a board."""

from __future__ import annotations

import click

from pycontrol.commands.options import JSON, command
from pycontrol.measure.probe import probe_all, probe_target
from pycontrol.observe.doctor import Status, as_text
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  sudo gpurt measure board
  sudo gpurt measure board --load './forever' --json > docs/hardware/orin-r36.4.json

\b
The GPU is one of a patched driver (tier T2); NVIDIA's unpatched driver is probed by scripts/probe-nvidia.
Each check takes the GPU from others for milliseconds, with --load for seconds; a desktop stands still meanwhile.
Exit codes: 0 nothing failed (what was not tried is for you to do); 1 something did; 2 wrong usage; 4 no such GPU."""
)
@click.option("--load", metavar="COMMAND", help="A program that uses the GPU for ever, and prints after each kernel.")
@JSON
@click.pass_obj
def board_command(device: str | None, load: str | None, as_json: bool) -> int:
    """Find out what a patched driver really does on this board, before you rely on it."""
    findings = list(probe_all(probe_target(device, load)))
    render.emit({"findings": findings}, as_json, as_text(findings))
    return 1 if any(finding.status is Status.FAIL for finding in findings) else 0

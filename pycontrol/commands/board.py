# SPDX-License-Identifier: GPL-2.0
"""The command that finds out what a patched driver does on a board."""

from __future__ import annotations

import click

from gpurt.errors import UsageError
from pycontrol.commands.options import JSON, command
from pycontrol.machine.sleep import planned_sleep
from pycontrol.measure.board import examine_board as offers
from pycontrol.measure.probe import probe_all, probe_target
from pycontrol.observe.doctor import Status, as_text
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  sudo gpurt measure board --driver
  gpurt measure board --tegra
  sudo gpurt measure board --driver --load './forever' --json > docs/hardware/orin-r36.4.json
  sudo gpurt measure board --driver --load './forever' --suspend

\b
With --suspend the machine sleeps last of all.  Findings then go to standard error as well, each at once: not every
machine wakes up.  Only that option has it sleep; the screen goes dark, and connections may break.
Each check takes the GPU from others for milliseconds, with --load for seconds; a desktop stands still meanwhile.
Exit codes: 0 nothing failed (what was not tried is for you to do); 1 something did; 2 wrong usage;
4 no such GPU, or (--suspend) nothing can put this machine to sleep or wake it."""
)
@click.option("--driver", is_flag=True, help="Probe the GPU of a patched driver (tier T2).")
@click.option("--load", metavar="COMMAND", help="A program that uses the GPU for ever, and prints after each kernel.")
@click.option("--suspend", is_flag=True, help="Also suspend this machine for 20 s, while the program is off.")
@click.option("--tegra", is_flag=True, help="Say what an unpatched Tegra offers for slices; changes nothing.")
@JSON
@click.pass_obj
def board_command(device: str | None, driver: bool, load: str | None, suspend: bool, tegra: bool, as_json: bool) -> int:
    """Find out what a patched driver really does on this board, before you rely on it."""
    if tegra:
        if driver or load or suspend:
            raise UsageError("--tegra goes without --driver, --load and --suspend")

        found = list(offers())
        render.emit({"findings": found}, as_json, as_text(found))
        return 1 if any(finding.status is Status.FAIL for finding in found) else 0
    if not driver:
        raise UsageError("say --driver, or --tegra; NVIDIA's unpatched driver is probed by scripts/probe-nvidia")
    if suspend and not load:
        raise UsageError("--suspend needs a program that is off meanwhile: name one with --load")
    probed = probe_target(device, load)
    plan = planned_sleep() if suspend else None
    findings = []
    for finding in probe_all(probed, plan):
        findings.append(finding)
        if plan:
            render.say(as_text([finding]), err=True)
    render.emit({"findings": findings}, as_json, as_text(findings))
    return 1 if any(finding.status is Status.FAIL for finding in findings) else 0

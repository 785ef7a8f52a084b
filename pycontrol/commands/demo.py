# SPDX-License-Identifier: GPL-2.0
"""The command that runs the published case study: demo."""

from __future__ import annotations

from pathlib import Path

import click

from gpurt.errors import RuntimeFailure
from pycontrol.act.demo import study
from pycontrol.commands.options import JSON, POLICY_NAME, TIME, Given, GivenPath, command
from pycontrol.ending import raised_signals
from pycontrol.output import render


@command(
    instead="to use a running host, write gpurt demo --device PATH",
    epilog="""\b
Examples:
  gpurt demo
  gpurt demo --duration 3s --policy boosted -o results

\b
Exit codes: 0 done (tasks that miss deadlines on a folded machine included); 2 wrong usage;
3 a file cannot be written; 4 no host at --device; 6 something failed, or a bound was exceeded in virtual time."""
)
@click.option("--duration", metavar="TIME", type=TIME, default="12s", show_default=True,
              help="Length of the run under each policy.")  # fmt: skip
@click.option("--policy", "policies", multiple=True, type=POLICY_NAME, metavar="NAME",
              help="Run only this policy; may be repeated.")  # fmt: skip
@click.option("-o", "--output", "out", type=GivenPath(path_type=Path, file_okay=False), default=Path("demo-results"),
              show_default=True, help="Folder for the results.")  # fmt: skip
@click.option("--device", "own_device", type=Given(), metavar="PATH",
              help="Use a running host instead of starting an emulator.")  # fmt: skip
@click.option("--seed", default=1, show_default=True)
@JSON
def demo_command(
    duration: int, policies: tuple[str, ...], out: Path, own_device: str | None, seed: int, as_json: bool
) -> int:  # fmt: skip
    """Run the published case study under every policy and compare."""
    click.get_current_context().with_resource(raised_signals())  # a signal still removes the host and its folders
    options = study.StudyOptions(own_device, duration / 1e9, policies, out, seed=seed)
    results = study.demonstrate(options)
    files = study.draw_study(results, options)
    notes = [*results.notes, study.claim(results)]
    render.note(*notes, as_json=as_json)
    whole = {"file": study.case_study(), **results.data(), "notes": notes, "files": files}
    render.emit(whole, as_json, study.text_of(results, files))
    if results.ended:
        raise results.ended
    if results.unsound:
        raise RuntimeFailure("a bound is exceeded in virtual time: " + "; ".join(results.unsound))
    return 0

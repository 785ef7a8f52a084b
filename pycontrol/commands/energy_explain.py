# SPDX-License-Identifier: GPL-2.0
"""The command that shows what each kernel costs alone: plan energy explain."""

from __future__ import annotations

from pathlib import Path

from analysis.energy.file import load_system
from analysis.energy.setup import explained_tasks
from pycontrol.commands.energy_options import IGNORE_CPU, default_policy, one_policy
from pycontrol.commands.options import FILE, JSON, command
from pycontrol.output import energy as data
from pycontrol.output import render


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan energy explain examples/energy/toy.toml

\b
Exit codes: 0 done; 2 wrong usage; 3 the file is wrong."""
)
@FILE
@IGNORE_CPU
@JSON
def explain_command(file: Path, ignore_cpu: bool, as_json: bool) -> int:
    """Say how many units and which GPU is best for each task."""
    loaded = load_system(file, ignore_cpu)
    setup = one_policy(loaded.system, default_policy(loaded.system))
    rows = explained_tasks(setup)
    whole = {"file": file, "policy": setup.policy.name, "placements": rows, "notes": loaded.notes}
    render.note(*loaded.notes, as_json=as_json)
    render.emit(whole, as_json, data.explain_text(rows))
    return 0

# SPDX-License-Identifier: GPL-2.0
"""The commands about energy that need no run: plan energy schedule and explain."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.energy.file import load_system
from analysis.energy.schedule import NoTableError, faults, make
from analysis.energy.setup import explained_tasks
from pycontrol.commands.energy_options import IGNORE_CPU, default_policy, one_policy
from pycontrol.commands.options import FILE, JSON, command
from pycontrol.output import energy as data
from pycontrol.output import render
from pycontrol.output.render import ms


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan energy schedule examples/energy/example5.toml
  gpurt plan energy schedule system.toml --policy sbeet-mg --json > table.json

\b
Exit codes: 0 every job of the table meets its deadline; 1 one does not, or there is no table; 2 wrong usage; 3 the
file is wrong."""
)
@FILE
@click.option("--policy", metavar="NAME", help="What fills the table; sbeet unless given, sbeet-mg for several GPUs.")
@IGNORE_CPU
@JSON
def schedule_command(file: Path, policy: str | None, ignore_cpu: bool, as_json: bool) -> int:
    """Make the cyclic table of strictly periodic tasks, and check it; --json: also the jobs before its first cycle.

    Jobs that start at the table's times finish no later than in the table.  The conditions: every release is periodic
    with the file's offsets, and no execution exceeds its worst case.
    """
    loaded = load_system(file, ignore_cpu, planned=True)
    policy = policy or default_policy(loaded.system)
    setup = one_policy(loaded.system, policy)
    try:
        table = make(setup)
    except NoTableError as error:
        whole = {"file": file, "policy": policy, "in_time": False, "why": str(error), "table": []}
        render.emit(whole, as_json, f"NO TABLE: {error}")
        return 1
    wrong = faults(table)
    energy = sum((one.total for one in table.energies), 0)
    rows = [{"task": loaded.system.tasks[one.task].name, "job": one.job, "gpu_name": loaded.system.gpus[one.gpu].name,
             "units": one.units, "first_unit": one.first, "time_ns": one.at, "finish_ns": one.finish}
            for one in (*table.prefix, *table.cycle)]  # fmt: skip
    whole = {
        "file": file, "policy": policy, "in_time": not wrong, "why": "; ".join(wrong[:5]) or None,
        "begin_ns": table.begin, "length_ns": table.length, "energy_uj": round(energy / 10**9), "table": rows,
    }  # fmt: skip
    cells = [(ms(one.at), str(row["task"]), str(one.job), str(row["gpu_name"]),
              f"{one.first}-{one.first + one.units - 1}", ms(one.finish))
             for one, row in zip(table.cycle, rows[len(table.prefix) :], strict=True)]  # fmt: skip
    lines = [render.table(("at ms", "task", "job", "GPU", "units", "done ms"), cells), ""]
    lines.append(f"repeats every {ms(table.length)} ms from {ms(table.begin)} ms on; {data.joules(energy)} J a cycle")
    lines += [f"MISSED: {one}" for one in wrong[:10]] or ["every job meets its deadline if dispatched by this table"]
    render.emit(whole, as_json, "\n".join(lines))
    return 1 if wrong else 0


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

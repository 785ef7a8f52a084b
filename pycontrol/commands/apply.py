# SPDX-License-Identifier: GPL-2.0
"""The command that gives running processes the priorities of a taskset file: apply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from analysis import taskset
from analysis.taskset import assumed
from gpurt.types import DocumentView
from pycontrol.act.giving import Given, give
from pycontrol.commands.options import FILE, JSON, command
from pycontrol.observe.fit import fit
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  gpurt apply set.toml
  gpurt apply set.toml --ignore-missing        when the machine starts, before the programs do

\b
Exit codes: 0 every real-time GPU task was found and set; 1 some were not running, or nothing was set: the taskset is
not schedulable, or the host is not what the file says (the table of objections in docs/output.md); 2 wrong usage;
3 the file is wrong, or has slices that nvgpu does not take; 4 no host; 5 not permitted."""
)
@FILE
@click.option("--force", is_flag=True,
              help="Also if it is not proved that every deadline holds on this host.")  # fmt: skip
@click.option("--ignore-missing", is_flag=True, help="Tasks that are not running are no failure.")
@JSON
@click.pass_obj
def apply_command(device: str | None, file: Path, force: bool, ignore_missing: bool, as_json: bool) -> int:
    """Give running processes the GPU priorities of a taskset file, matched by the task's command or name.

    On a Tegra, it also sets the slices and interleave levels of their partitions.  It sets everything, or nothing.
    Tasks and workers join their group, and stay there until they end.  A group has its members' highest priority.
    """
    loaded = taskset.load(file)
    given = give(device, loaded, force)
    if not given.done:
        return _refuse(file, given, as_json)
    users = [task for task in loaded.taskset if task.uses_gpu]
    pids = given.pids or {}
    rows = [(task.name, str(loaded.gpu_priorities[task.name]), ", ".join(map(str, pids[task.name])) or "not running")
            for task in users]  # fmt: skip
    lines = [render.table(("task", "GPU priority", "pid"), rows) if rows else "no task uses the GPU: nothing to set"]
    lines += [f"group {group}: {', '.join(one.name for one in members)}" for group, members in loaded.groups.items()]
    lines += assumed.assumption_lines(given.assumes) if not given.proof else []
    lines += [f"applied by force, without a proof: {reason}" for reason in given.doubts]
    data = {
        task.name: {
            "gpu_priority": loaded.gpu_priorities[task.name], "pids": pids[task.name],
            "group": loaded.launch[task.name].group,
        } for task in users
    }  # fmt: skip
    _emit(file, given, data, fit.lines(given.objections), "\n".join(lines), as_json)
    return 1 if given.missing(users) and not ignore_missing else 0


def _refuse(file: Path, given: Given, as_json: bool) -> int:
    """Says why nothing was applied; returns the exit code."""
    (why,) = given.doubts
    notes = [one for one in fit.lines(given.objections) if one != why]
    _emit(file, given, {}, notes, f"not applied: {why}\nuse --force to apply it anyway", as_json)
    return 1


def _emit(
    file: Path, given: Given, tasks: DocumentView, notes: Sequence[str], text: str, as_json: bool
) -> None:  # fmt: skip
    """Prints the answer."""
    doubt = given.proof or given.other or None
    whole = {
        "file": file, "policy": given.policy, "schedulable": not doubt, "why": doubt,
        "assumes": assumed.assumed_data(given.assumes), "applied": given.done,
        "tasks": tasks, "objections": fit.data(given.objections), "notes": notes,
    }  # fmt: skip
    render.note(*notes, as_json=as_json)
    render.emit(whole, as_json, text)

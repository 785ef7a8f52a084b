# SPDX-License-Identifier: GPL-2.0
"""The command that gives running processes the priorities of a taskset file: apply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from analysis import taskset
from analysis.taskset import assumed
from gpurt.errors import UsageError
from gpurt.types import DocumentView
from pycontrol.act.giving import Given, give
from pycontrol.act.plan.admit import admit
from pycontrol.commands.options import FILE, JSON, Output, command
from pycontrol.observe.fit import fit
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  gpurt apply set.toml
  gpurt apply set.toml --ignore-missing        when the machine starts, before the programs do
  gpurt apply set.toml --admit task.toml -o set.toml

\b
With --admit, TASK is a file with one [[task]],
as for gpurt plan partitions.  It gets a place beside the tasks of FILE if all of
them keep their guarantees on this host as it is: no partition changes its size.  Then OUT gets FILE with the task, and
processes get their priorities.  Start the task's program before or after that.

\b
Exit codes: 0 every real-time GPU task was found and set, with --admit: the task is admitted; 1 it is not, or some
were not running, or nothing was set: the taskset is not schedulable, or the host is not what the file says (the table
of objections in docs/output.md); 2 wrong usage; 3 a file is wrong, or has slices that nvgpu does not take;
4 no host; 5 not permitted."""
)
@FILE
@click.option("--force", is_flag=True,
              help="Also if it is not proved that every deadline holds on this host.")  # fmt: skip
@click.option("--ignore-missing", is_flag=True, help="Tasks that are not running are no failure.")
@click.option("--admit", "task", type=click.Path(path_type=Path), metavar="TASK",
              help="Admit one more task to what runs; goes with -o.")  # fmt: skip
@click.option("-o", "--output", type=Output(), metavar="OUT",
              help="With --admit: write the taskset file with the task there, which may be FILE.")  # fmt: skip
@JSON
@click.pass_obj
def apply_command(
    device: str | None, file: Path, force: bool, ignore_missing: bool, task: Path | None, output: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Give running processes the GPU priorities of a taskset file, matched by the task's command or name.

    On a Tegra also the slices and interleave levels of their partitions.  All of it is set, or nothing.  Tasks and
    workers join their group, and stay there until they end.  Its priority is the highest of its members'.
    """
    if task or output:
        return _admit(device, file, task, output, force or ignore_missing, as_json)
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


def _admit(
    device: str | None, file: Path, task: Path | None, output: Path | None, others: bool, as_json: bool
) -> int:  # fmt: skip
    if not task or not output:
        raise UsageError("--admit and -o go together: the next admission has to know of this one")
    if others:
        raise UsageError("--admit goes without --force and --ignore-missing")
    return admit(device, file, task, output, as_json)


def _refuse(file: Path, given: Given, as_json: bool) -> int:
    """Says why nothing was applied; the exit code."""
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

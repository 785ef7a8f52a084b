# SPDX-License-Identifier: GPL-2.0
"""The command that plans time slices and interleave levels of TSGs: plan slices."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.answers import slices as plan
from analysis.answers.loading import analysable_text
from analysis.model import Taskset
from analysis.rta.result import Result
from analysis.slices.runlist import Runlist
from analysis.taskset.file import TURNS_ASSUMED
from analysis.taskset.repartition import with_partitions
from analysis.taskset.write import with_policy
from gpurt.enums import Policy
from gpurt.errors import UsageError
from gpurt.files import check_writable, written
from gpurt.text import filename
from gpurt.types import Document, DocumentView
from pycontrol.commands.options import FILE, JSON, Output, command
from pycontrol.output import render
from pycontrol.output.render import bound, room

#: The most TSGs of other programs.
MAX_FOREIGN_TSGS = 256
#: The policy under which slices and levels decide what the GPU executes.
SLICES_POLICY = Policy.TIMESLICED.word
BOUNDS = "the bounds hold while no TSG is opened or closed; --best-effort counts those of other programs"


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan slices examples/slices.toml
  gpurt plan slices examples/slices.toml --best-effort 2 -o planned.toml
  gpurt apply planned.toml                 sets them for the processes that run on a Tegra

\b
Exit codes: 0 every task has a bound with these slices; 1 no slices were found; 2 wrong usage; 3 a file is wrong."""
)
@FILE
@click.option("--best-effort", "others", type=click.IntRange(0, MAX_FOREIGN_TSGS), default=0, show_default=True,
              metavar="NUMBER", help="TSGs of other programs, each with 1.024 ms at level low.")  # fmt: skip
@click.option("-o", "--output", type=Output(), metavar="OUT",
              help="Write the taskset file with its plan there, if every task has a bound.")  # fmt: skip
@JSON
def slices_command(file: Path, others: int, output: Path | None, as_json: bool) -> int:
    """Plan time slices and interleave levels of TSGs on a Tegra, so that every deadline holds (policy timesliced)."""
    loaded, text = analysable_text(file)
    if why := loaded.taskset.unplanned("the plan of slices"):
        raise UsageError(f"{filename(file)}: {why}")
    if output:
        check_writable(output)
    table, result, why = plan.answer_with_slices(plan.with_others(loaded.taskset, others))
    if table and output and not why:
        _write(file, loaded.taskset, text, table, output)
    notes = [TURNS_ASSUMED, BOUNDS]
    if (named := " and ".join(loaded.taskset.policies)) != SLICES_POLICY:
        notes.append(f"the plan is for policy {SLICES_POLICY}, the file is for {named}; -o writes {SLICES_POLICY}")
    tasks = _data(loaded.taskset, table, result) if table and result else {}
    data = {
        "file": loaded.path, "schedulable": not why, "why": why or None, "tasks": tasks,
        "files": [output] if output and not why else [], "notes": notes,
    }  # fmt: skip
    render.note(*notes, as_json=as_json)
    lines = [f"NOT PROVED: {why}" if why else "", _table(tasks) if tasks else ""]
    render.emit(data, as_json, "\n".join(filter(None, lines)))
    return 1 if why else 0


def _write(file: Path, taskset: Taskset, text: str, table: Runlist, output: Path) -> None:
    """Writes the file with the plan.  Its policy becomes `timesliced`, since the plan holds under no other policy."""
    made = with_partitions(file, with_policy(file, text, SLICES_POLICY), *plan.homes(taskset, table))
    with written(output) as target:
        target.write(made.encode())


def _data(taskset: Taskset, table: Runlist, result: Result) -> Document:
    entries = {task.name: entry for entry in table.entries for task in entry.tasks}
    whole: Document = {}
    for task in taskset:
        if not task.uses_gpu or task.name not in entries:
            continue
        entry = entries[task.name]
        whole[task.name] = {
            "slice_ns": entry.slice, "interleave": entry.level.word, "gap_ns": table.gap(entry),
            "wcrt_ns": result.wcrt(task.name), "deadline_ns": task.deadline,
        }  # fmt: skip
    return whole


def _table(tasks: DocumentView) -> str:
    rows = [
        (name, one["interleave"], bound(one["slice_ns"]), bound(one["gap_ns"]), bound(one["wcrt_ns"]),
         room(one["deadline_ns"]))
        for name, one in tasks.items()
    ]  # fmt: skip
    headers = ("task", "level", "slice ms", "longest wait ms", "bound ms", "deadline ms")
    return render.table(headers, rows)

# SPDX-License-Identifier: GPL-2.0
"""The command that plans time slices and interleave levels of TSGs: slices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pycontrol.commands import render
from pycontrol.commands.options import FILE, JSON, analysable
from pycontrol.commands.render import bound, room

if TYPE_CHECKING:  # at run time the imports take longer than --help needs
    from analysis.model import Taskset
    from analysis.rta.result import Result
    from analysis.slices.runlist import Runlist

#: How many TSGs of other programs can be counted.
MOST = 256


@click.command(
    epilog="""\b
Examples:
  gpurt slices examples/slices.toml
  gpurt slices examples/slices.toml --best-effort 2 --pessimistic

\b
Exit codes: 0 every task has a bound with these slices; 1 no slices were found; 2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--best-effort", "others", type=click.IntRange(0, MOST), default=0, show_default=True, metavar="NUMBER",
              help="TSGs of other programs, each with 1.024 ms at level low.")  # fmt: skip
@click.option("--pessimistic", is_flag=True,
              help="Slices of others may last 1.024 times as long: the unit of the timer is unknown.")  # fmt: skip
@JSON
def slices(file: Path, others: int, pessimistic: bool, as_json: bool) -> int:
    """Plan time slices and interleave levels of TSGs on a Tegra, so that every deadline holds (policy timesliced)."""
    from analysis.slices import plan

    loaded = analysable(file)
    taskset = plan.with_others(loaded.taskset, others)
    why, tasks, text = plan.refusal(taskset), dict[str, Any](), ""
    if not why and (found := plan.plan(taskset, pessimistic)) is None:
        why = "no slices and levels were found with which every task that uses the GPU has a bound"
    elif not why and found is not None:
        result = plan.verdict(taskset, found)
        why = str(result.failures[0]) if result.failures else ""
        tasks = _data(loaded.taskset, found, result)
        text = _table(tasks)
    notes = ["the bounds hold while no TSG is opened or closed; --best-effort counts those of other programs"]
    render.note(*notes, as_json=as_json)
    data = {"file": file, "schedulable": not why, "why": why or None, "tasks": tasks, "notes": notes}
    render.emit(data, as_json, "\n".join(filter(None, (f"NOT PROVED: {why}" if why else "", text))))
    return 1 if why else 0


def _data(taskset: Taskset, found: Runlist, result: Result) -> dict[str, Any]:
    users = [task for task in taskset if task.uses_gpu]
    entries = {task.name: entry for entry in found.entries for task in entry.tasks}
    return {
        task.name: {
            "slice_ns": entries[task.name].slice, "interleave": entries[task.name].level.word,
            "gap_ns": found.gap(entries[task.name]), "wcrt_ns": result.wcrt(task.name), "deadline_ns": task.deadline,
        }
        for task in users
    }  # fmt: skip


def _table(tasks: dict[str, Any]) -> str:
    rows = [
        (name, one["interleave"], bound(one["slice_ns"]), bound(one["gap_ns"]), bound(one["wcrt_ns"]),
         room(one["deadline_ns"]))
        for name, one in tasks.items()
    ]  # fmt: skip
    return render.table(("task", "level", "slice ms", "longest wait ms", "bound ms", "deadline ms"), rows)

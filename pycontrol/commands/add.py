# SPDX-License-Identifier: GPL-2.0
"""The command that finds a place for one more task: plan add."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.answers import coupled
from analysis.answers import partitions as plan
from analysis.partition.admit import Admission, How
from analysis.partition.admit import admit_task as place_for
from gpurt import files
from gpurt.errors import UsageError
from gpurt.text import filename
from pycontrol.act.plan.admission import extended, places_of_file, written_places
from pycontrol.act.plan.admitted import told_admission
from pycontrol.act.plan.division import COUPLED, check_inside, division_workload, unproved
from pycontrol.commands.options import FILE, JSON, command
from pycontrol.commands.plan_options import ANY_INSIDE, GPU_ONLY, MOST, OUT
from pycontrol.output import render


@command(
    computes=True,
    epilog="""\b
TASK is a file with one [[task]] as in a taskset file, and nothing else.

\b
Examples:
  gpurt plan add planned.toml task.toml
  gpurt plan add planned.toml task.toml --move -o planned.toml

\b
Exit codes: 0 the task is admitted; 1 it is not; 2 wrong usage; 3 a file is wrong."""
)
@FILE
@click.argument("task", type=click.Path(path_type=Path))
@click.option("--move", is_flag=True, help="If nothing else works, divide the GPU anew: other tasks move.")
@ANY_INSIDE
@MOST
@GPU_ONLY
@OUT
@JSON
def add_command(
    file: Path, task: Path, move: bool, inside: str, most: int | None, gpu_only: bool, output: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Find a place for one more task among the file's partitions, so that no other task loses its guarantee."""
    check_inside(inside, gpu_only)
    loaded, text, name = extended(file, task)
    if output:
        files.check_writable(output)
    taskset = loaded.taskset
    if not taskset.partitions:
        name = filename(file)
        raise UsageError(f"{name} has no [[partition]]; gpurt plan partitions {name} -o OUT makes them")
    given = division_workload(taskset, inside, None, None, most)
    index = next(at for at, item in enumerate(given.items) if item.name == name)
    lacking = unproved(given, "" if gpu_only or inside in COUPLED else plan.shared_cpus(taskset))
    places = places_of_file(taskset, given, name)
    if inside in COUPLED:
        answer = coupled.admit_coupled(taskset, given, places, index, move)
    else:
        answer = Admission(tuple(places), None, (lacking,)) if lacking else place_for(given, places, index, move)
    if answer.how is How.MOVED and (homeless := plan.homeless(taskset)):
        answer = Admission(tuple(places), None, (*answer.tried, f"{How.MOVED.value}: {homeless}"))
    notes = list(plan.conditions(taskset, inside))
    if output and answer.how:
        made, remarks = written_places(loaded, text, given, answer)
        notes += remarks
        with files.written(output) as out:
            out.write(made.encode())
    data, said = told_admission(file, name, given, answer, inside, notes)
    data["files"] = [output] if output and answer.how else []
    render.note(*notes, as_json=as_json)
    render.emit(data, as_json, said)
    return 0 if answer.how else 1

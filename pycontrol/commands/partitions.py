# SPDX-License-Identifier: GPL-2.0
"""The command that divides a GPU among tasks: plan partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from analysis.answers.loading import analysable_text
from analysis.answers.partitions import per_task
from analysis.partition.merge import Infeasible
from analysis.partition.variants import Allocation
from analysis.rta import Result
from gpurt import files
from gpurt.types import Document
from pycontrol.act.plan import division
from pycontrol.act.plan.division import Wish, check_output, divide, made, partition_names, refused
from pycontrol.commands.options import FILE, JSON, command
from pycontrol.commands.plan_options import ANY_INSIDE, MOST, OUT, SIZES, UNITS
from pycontrol.output import render
from pycontrol.output.render import bound, room

#: As in analysis.partition.mechanism (a test compares).
MECHANISMS = ("cu-mask", "mps", "mps-static", "tpc", "vgpu", "green-context")
MECHANISM = click.option("--mechanism", type=click.Choice(MECHANISMS),
                         help="What divides the GPU: it decides sizes, and OUT gets masks or percentages.")  # fmt: skip
GPU_OF_MECHANISM = click.option("--gpu", type=click.IntRange(0, 255), metavar="NUMBER",
                                help="The GPU that cu-mask or green-context reads sizes from.  "
                                     "[default: 0; cu-mask: the only one]")  # fmt: skip


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan partitions examples/partitions.toml
  gpurt plan partitions set.toml --sizes 8:8 --max-partitions 7 -o planned.toml

\b
Exit codes: 0 everything fits; 1 it does not; 2 wrong usage; 3 a file is wrong; 4 the mechanism's GPU is not there.""",
)
@FILE
@ANY_INSIDE
@UNITS
@SIZES
@MECHANISM
@GPU_OF_MECHANISM
@MOST
@OUT
@JSON
def partitions_command(file: Path, output: Path | None, as_json: bool, **wanted: Any) -> int:
    """Divide the GPU in partitions and allocate the tasks, so that each GPU job is done before its deadline."""
    wish = Wish(**wanted)
    loaded, text_of_file = analysable_text(file)
    if output:
        check_output(loaded, wish.units, output)
    divided = divide(loaded.taskset, wish)
    found, why = divided.found, divided.why
    data: Document = {
        "file": file, "test": wish.inside, "fits": not why, "why": why or None,
        "compute_units": divided.given.units, "used_units": None, "partitions": [], "tasks": {},
        "files": [], "notes": divided.notes,
    }  # fmt: skip
    text = [f"DOES NOT FIT: {why}" if why else ""]
    if not isinstance(found, Infeasible):
        data |= _data(found, divided.shared, divided.result)
        text = [_headline(found, why), *_tables(found, data)]
        if output and not why:
            text += _written(output, made(loaded, text_of_file, found, divided.parts), data)
    render.note(*data["notes"], as_json=as_json)
    render.emit(data, as_json, "\n".join(text))
    return 0 if data["fits"] else 1


def _written(output: Path, text: str, data: Document) -> list[str]:
    """Writes the file unless `gpurt analyze` says no about it; changes the document, and returns lines."""
    no = refused(output, text)
    if no:
        why = f"nothing was written: of that file gpurt analyze says: {no}"
        data |= {"fits": False, "why": why}
        return [f"NOT PROVED: {why}"]
    with files.written(output) as out:
        out.write(text.encode())
    data["files"] = [output]
    return []


def _data(found: Allocation, shared: str, result: Result | None = None) -> Document:
    told = per_task(found)
    homes = partition_names(found)
    bounds = {} if shared else division.division_bounds(found)
    if result:
        bounds = {name: result.wcrt(name) for name in told}
    return {
        "used_units": found.units,
        "partitions": [
            {"name": name, "compute_units": part.size, "members": [found.workload.items[i].name for i in part.tasks]}
            for name, part in zip(homes, found.parts, strict=True)
        ],
        "tasks": {
            item.name: {
                "partition": homes[told[item.name]["part"]], "execution_ns": told[item.name]["time"],
                "conflict": told[item.name]["conflict"], "deadline_ns": item.deadline, "wcrt_ns": bounds.get(item.name),
            }
            for item in found.workload.items
        },
    }  # fmt: skip


def _headline(found: Allocation, why: str) -> str:
    if found.fits and why:
        return f"NOT PROVED: {why}"
    if why:
        return f"DOES NOT FIT: {why} (the best found):"
    return f"fits in {found.units} of {found.workload.units} compute units ({found.workload.inside} inside)"


def _tables(found: Allocation, told: Document) -> list[str]:
    rows = []
    for part in told["partitions"]:
        for name in part["members"]:
            task = told["tasks"][name]
            times = bound(task["execution_ns"]), "yes" if task["conflict"] else "no", bound(task["wcrt_ns"])
            rows.append((part["name"], str(part["compute_units"]), name, *times, room(task["deadline_ns"])))
    headers = ("partition", "units", "task", "takes ms", "conflict", "done within ms", "deadline ms")
    return [render.table(headers, rows)]

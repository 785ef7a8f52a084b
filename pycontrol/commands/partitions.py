# SPDX-License-Identifier: GPL-2.0
"""The command that divides a GPU among tasks, and finds a place for one more: plan partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from analysis.answers import coupled
from analysis.answers import partitions as plan
from analysis.answers.loading import analysable_text
from analysis.answers.partitions import per_task
from analysis.partition.admit import Admission, How, Place
from analysis.partition.admit import admit_task as place_for
from analysis.partition.merge import Infeasible
from analysis.partition.variants import Allocation
from analysis.partition.workload import Workload
from analysis.rta import Result
from gpurt import files
from gpurt.errors import UsageError
from gpurt.text import filename
from gpurt.types import Document
from pycontrol.act.plan import division
from pycontrol.act.plan.admission import extended, named_task, places_of_file, written_places
from pycontrol.act.plan.division import (
    COUPLED,
    VARIANTS,
    Wish,
    check_inside,
    check_output,
    divide,
    division_workload,
    made,
    partition_names,
    refused,
    unproved,
)
from pycontrol.commands.options import FILE, JSON, command
from pycontrol.commands.plan_options import ANY_INSIDE, GPU_ONLY, MOST, OUT, SIZES, UNITS
from pycontrol.output import render
from pycontrol.output.render import bound, room

#: As analysis.partition.mechanism has them (a test compares).
MECHANISMS = ("cu-mask", "mps", "mps-static", "tpc", "vgpu", "green-context", "mig")
#: What may happen to the other tasks' partitions if one more task gets a place.
CHANGES = ("keep", "grow", "move")
MECHANISM = click.option("--mechanism", type=click.Choice(MECHANISMS),
                         help="What divides the GPU: it decides sizes, and OUT gets masks or percentages.")  # fmt: skip
GPU_OF_MECHANISM = click.option("--gpu", type=click.IntRange(0, 255), metavar="NUMBER",
                                help="The GPU that cu-mask, green-context or mig read sizes from.  "
                                     "[default: 0; cu-mask: the only one]")  # fmt: skip


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan partitions examples/partitions.toml
  gpurt plan partitions set.toml --sizes 8:8 --max-partitions 7 -o planned.toml
  gpurt plan partitions set.toml --variant exact
  gpurt plan partitions planned.toml task.toml --others move -o more.toml

\b
TASK is a file with one [[task]] as in a taskset file, and nothing else.  It gets a place among the file's partitions,
so that no other task loses its guarantee; --others, --inside, --max-partitions, --gpu-only and -o go with it.

\b
Exit codes: 0 everything fits, or the task is admitted; 1 it does not; 2 wrong usage; 3 a file is wrong; 4 the
mechanism's GPU is not there.""",
)
@FILE
@click.argument("task", type=click.Path(path_type=Path), required=False)
@click.option("--others", type=click.Choice(CHANGES), metavar="keep|grow|move",
              help="With TASK: partitions keep their sizes, as programs that run need it; one may grow; or, if nothing "
                   "else works, the GPU is divided anew.  [default: grow]")  # fmt: skip
@click.option("--variant", type=click.Choice(VARIANTS), default="best", show_default=True,
              help="Which heuristic, all, or the optimum, of up to 16 tasks.")  # fmt: skip
@click.option("--order", type=click.Choice(("dec", "inc")),
              help="Begin with the fullest or the emptiest partition; with one heuristic.")  # fmt: skip
@ANY_INSIDE
@UNITS
@SIZES
@MECHANISM
@GPU_OF_MECHANISM
@MOST
@GPU_ONLY
@OUT
@JSON
def partitions_command(
    file: Path, task: Path | None, others: str | None, output: Path | None, as_json: bool, **wanted: Any
) -> int:
    """Divide the GPU in partitions and allocate the tasks, so that each GPU job is done before its deadline.

    With TASK, find a place for one more task.
    """
    wish = Wish(**wanted)
    if task:
        if wish != Wish(inside=wish.inside, most=wish.most, gpu_only=wish.gpu_only):
            raise UsageError("with TASK: only --others, --inside, --max-partitions, --gpu-only and -o")
        with files.held_alone(file):  # OUT may be FILE, and the next admission has to know of this one
            return _add(file, task, others or "grow", wish, output, as_json)
    if others:
        raise UsageError("--others goes with TASK")
    loaded, text_of_file = analysable_text(file)
    if output:
        check_output(loaded, wish.units, output)
    divided = divide(loaded.taskset, wish)
    found, why = divided.found, divided.why
    data: Document = {
        "file": file, "test": wish.inside, "fits": not why, "why": why or None, "variant": wish.variant,
        "order": wish.order, "compute_units": divided.given.units, "used_units": None, "partitions": [], "tasks": {},
        "files": [], "notes": divided.notes,
    }  # fmt: skip
    text = [f"DOES NOT FIT: {why}" if why else ""]
    if not isinstance(found, Infeasible):
        data |= _data(found, divided.shared, divided.result)
        text = [_headline(found, why, divided.shared), *_tables(found, data)]
        if output and not why:
            text += _written(output, made(loaded, text_of_file, found, divided.parts), wish.gpu_only, data)
    render.note(*data["notes"], as_json=as_json)
    render.emit(data, as_json, "\n".join(text))
    return 0 if data["fits"] else 1


def _add(file: Path, task: Path, others: str, wish: Wish, output: Path | None, as_json: bool) -> int:
    """Prints the place of one more task among the file's partitions, and writes it.  Returns the exit code."""
    inside, gpu_only = wish.inside, wish.gpu_only
    check_inside(inside, gpu_only)
    loaded, text, name = extended(file, task)
    if output:
        files.check_writable(output)
    taskset = loaded.taskset
    if not taskset.partitions:
        name = filename(file)
        raise UsageError(f"{name} has no [[partition]]; gpurt plan partitions {name} -o OUT makes them")
    given = division_workload(taskset, inside, None, None, wish.most)
    index = next(at for at, item in enumerate(given.items) if item.name == name)
    lacking = unproved(given, "" if gpu_only or inside in COUPLED else plan.shared_cpus(taskset))
    places, changes = places_of_file(taskset, given, name), (others == "move", others != "keep")
    if inside in COUPLED:
        answer = coupled.admit_coupled(taskset, given, places, index, *changes)
    elif lacking:
        answer = Admission(tuple(places), None, (lacking,))
    else:
        answer = place_for(given, places, index, *changes)
    if answer.how is How.MOVED and (homeless := plan.homeless(taskset)):
        answer = Admission(tuple(places), None, (*answer.tried, f"{How.MOVED.value}: {homeless}"))
    notes = list(plan.conditions(taskset, inside))
    if output and answer.how:
        made, remarks = written_places(loaded, text, given, answer)
        notes += remarks
        with files.written(output) as out:
            out.write(made.encode())
    data, said = _told_admission(file, name, given, answer, inside, notes)
    data["files"] = [output] if output and answer.how else []
    render.note(*notes, as_json=as_json)
    render.emit(data, as_json, said)
    return 0 if answer.how else 1


def _written(output: Path, text: str, gpu_only: bool, data: Document) -> list[str]:
    """Writes the file, unless `gpurt analyze` says no of it; changes the document, and returns lines."""
    no = refused(output, text)
    if no and not gpu_only:
        why = f"nothing was written: of that file gpurt analyze says: {no}"
        data |= {"fits": False, "why": why}
        return [f"NOT PROVED: {why}"]
    data["notes"] += [f"of the written file gpurt analyze says: {no}"] if no else []
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
        "variant": found.variant, "order": found.order or None, "used_units": found.units,
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


def _headline(found: Allocation, why: str, shared: str) -> str:
    way = found.variant + (f", order {found.order}" if "-" in found.variant else "")
    if found.fits and why:
        return f"NOT PROVED: {why}"
    if why:
        return f"DOES NOT FIT: {why} (the best found, by {way}):"
    what = "GPU work alone fits" if shared else "fits"
    return f"{what} in {found.units} of {found.workload.units} compute units (by {way}; {found.workload.inside} inside)"


def _tables(found: Allocation, told: Document) -> list[str]:
    rows = []
    for part in told["partitions"]:
        for name in part["members"]:
            task = told["tasks"][name]
            times = bound(task["execution_ns"]), "yes" if task["conflict"] else "no", bound(task["wcrt_ns"])
            rows.append((part["name"], str(part["compute_units"]), name, *times, room(task["deadline_ns"])))
    headers = ("partition", "units", "task", "takes ms", "conflict", "done within ms", "deadline ms")
    return [render.table(headers, rows)]


def _told_admission(
    file: Path, name: str, given: Workload, answer: Admission, inside: str, notes: Sequence[str]
) -> tuple[Document, str]:
    """The answer for programs, and for people."""
    places = named_task(answer)
    homes = {index: place for place in places for index in place.tasks}
    index = next(at for at, item in enumerate(given.items) if item.name == name)
    home = homes.get(index)
    why = None if answer.how else "; ".join(answer.tried)
    tasks = {item.name: _placed(given, at, homes[at]) for at, item in enumerate(given.items) if at in homes}
    data: Document = {
        "file": file, "test": inside, "task": name, "admitted": answer.how is not None, "why": why,
        "way": answer.how, "partition": home.name if home else None, "tried": list(answer.tried),
        "compute_units": given.units, "used_units": sum(place.size for place in places),
        "partitions": [{"name": place.name, "compute_units": place.size,
                        "members": [given.items[at].name for at in place.tasks]} for place in places],
        "tasks": tasks, "files": [], "notes": notes,
    }  # fmt: skip
    if not home or not answer.how:
        return data, "\n".join([f"NOT ADMITTED: {name} has no place", *(f"  {reason}" for reason in answer.tried)])
    rows = [(name, task["partition"], str(homes[at].size), bound(task["execution_ns"]))
            for at, (name, task) in enumerate(tasks.items())]  # fmt: skip
    used = f"{data['used_units']} of {given.units} compute units are used"
    lines = [f"{name} is admitted to {home.name}: {answer.how.value}; {used}"]
    lines += [f"  not {reason}" for reason in answer.tried]
    return data, "\n".join([*lines, render.table(("task", "partition", "units", "takes ms"), rows)])


def _placed(given: Workload, index: int, place: Place) -> Document:
    flags = given.conflicts(place.tasks)
    conflict = flags[given.items[index].memory]
    return {"partition": place.name, "execution_ns": given.time(index, place.size, conflict), "conflict": conflict,
            "deadline_ns": given.items[index].deadline}  # fmt: skip

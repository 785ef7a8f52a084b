# SPDX-License-Identifier: GPL-2.0
"""The commands that divide a GPU among tasks: partition and admit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from analysis import taskset
from analysis.answers.loading import analysable_text
from analysis.model import Partition, Taskset
from analysis.partition import coupled, plan
from analysis.partition.admit import Admission, How
from analysis.partition.admit import admit as place_for
from analysis.partition.inside import response
from analysis.partition.mechanism import realised
from analysis.partition.merge import Infeasible, jobs
from analysis.partition.plan import per_task
from analysis.partition.variants import Allocation
from analysis.rta import Result
from analysis.taskset import TasksetFile, parse
from analysis.taskset.repartition import with_partitions
from analysis.verdict import answer
from gpurt import files
from gpurt.errors import TooLargeError, UsageError
from gpurt.text import filename
from pycontrol.commands.federated import BUSY_TEST, OBJECTIVES, TEST, federated, units_of
from pycontrol.commands.options import FILE, JSON, Given, Output
from pycontrol.output import render
from pycontrol.output.admitted import told
from pycontrol.output.render import bound, room
from pycontrol.plan import offered
from pycontrol.plan.admission import extended, places_of, written
from pycontrol.plan.offered import Offer

#: Tests where tasks of all partitions share CPUs, as analysis.partition.coupled has them (a test compares).
COUPLED = ("gcaps-suspend", "gcaps-busy")
#: Tests inside a partition, as analysis.partition.inside.TESTS and coupled have them.
INSIDE = ("fp", "edf", "np-fp", "np-edf", "density", *COUPLED)
#: Ways to plan, as analysis.partition has them.
VARIANTS = ("best", "exact", "1g", "sms-ina", "sms-act", "bf-ina", "bf-act", "fit-ina", "fit-act", "sav-ina", "sav-act")
MOST_UNITS = 4096

ANY_INSIDE = click.option("--inside", type=click.Choice(INSIDE), default="fp", show_default=True,
                          help="The test inside a partition; fp is for policies segment and boosted, gcaps-* for "
                               "policy segment and CPUs that tasks share.")  # fmt: skip
UNITS = click.option("--units", type=click.IntRange(1, MOST_UNITS), metavar="NUMBER",
                     help="Compute units of the GPU, instead of the file's.")  # fmt: skip
SIZES = click.option("--sizes", metavar="LEAST:STEP|LIST",
                     help="Sizes that a partition may have, such as 8:8 or 4,8,16, instead of the file's.")  # fmt: skip
MOST = click.option("--max-partitions", "most", type=click.IntRange(1, MOST_UNITS), metavar="NUMBER",
                    help="How many partitions the mechanism offers.")  # fmt: skip
OUT = click.option("-o", "--output", type=Output(), metavar="OUT",
                   help="Write the taskset file with its partitions there, if all fits.")  # fmt: skip
#: As analysis.partition.mechanism has them (a test compares).
MECHANISMS = ("cu-mask", "mps", "mps-static", "tpc", "vgpu", "green-context", "mig")
MECHANISM = click.option("--mechanism", type=click.Choice(MECHANISMS),
                         help="What divides the GPU: it decides sizes, and OUT gets masks or percentages.")  # fmt: skip
DEVICE = click.option("--device", type=click.IntRange(0, 255), metavar="NUMBER",
                      help="The GPU that cu-mask, green-context or mig read sizes from.  "
                           "[default: 0; cu-mask: the only one]")  # fmt: skip
GPU_ONLY = click.option("--gpu-only", is_flag=True,
                        help="Plan GPU work alone where tasks share CPUs; whole jobs are not proved.")  # fmt: skip
EXPLAIN = click.option("--explain", is_flag=True, help="Say how the partitions came about.")


@click.command(
    epilog="""\b
Examples:
  gpurt partition examples/partitions.toml --explain
  gpurt partition set.toml --sizes 8:8 --max-partitions 7 -o planned.toml
  gpurt partition set.toml --variant exact
  gpurt partition examples/federated.toml --federated --frontier

\b
Exit codes: 0 everything fits; 1 it does not; 2 wrong usage; 3 a file is wrong; 4 the mechanism's GPU is not there."""
)
@FILE
@click.option("--variant", type=click.Choice(VARIANTS), default="best", show_default=True,
              help="Which heuristic, all, or the optimum: of 20 tasks, or more of which few fit together.")  # fmt: skip
@click.option("--order", type=click.Choice(("dec", "inc")),
              help="Begin with the fullest or the emptiest partition; with one heuristic.")  # fmt: skip
@ANY_INSIDE
@UNITS
@SIZES
@MECHANISM
@DEVICE
@MOST
@GPU_ONLY
@EXPLAIN
@click.option("--federated", "owned", is_flag=True,
              help="A partition for each task with kernels, and one bus for copies (docs/rtgpu.md).")  # fmt: skip
@click.option("--test", "name", type=Given(), metavar="NAME",
              help=f"With --federated: the test.  [default: {TEST}; {BUSY_TEST} if tasks wait busily]")  # fmt: skip
@click.option("--objective", type=click.Choice(OBJECTIVES),
              help="With --federated: few units, or much slack, relative to deadlines.  [default: least]")  # fmt: skip
@click.option("--frontier", is_flag=True, help="With --federated: each task's bound by its units.")
@OUT
@JSON
@click.pass_context
def partition(
    context: click.Context, file: Path, variant: str, order: str | None, inside: str, units: int | None,
    sizes: str | None, mechanism: str | None, device: int | None, most: int | None, gpu_only: bool, explain: bool,
    owned: bool, name: str | None, objective: str | None, frontier: bool, output: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Divide the GPU in partitions and allocate the tasks, so that each GPU job is done before its deadline."""
    _check_options(context, owned)
    if gpu_only and inside in COUPLED:
        raise UsageError(f"--gpu-only goes with tests that look at GPU work alone; {inside} takes CPUs into account")
    if owned:
        return _federated(file, name, units, sizes, objective or OBJECTIVES[0], frontier, output, as_json)
    if order and "-" not in variant:
        raise UsageError(f"--order goes with one heuristic, such as --variant fit-ina, not with {variant}")
    loaded, text_of_file = analysable_text(file)
    if output:
        _check_output(loaded, units, output)
    taskset = replace(loaded.taskset, partitions=())  # whatever it has is divided anew
    offer = _offer(mechanism, device, sizes, taskset, units)
    given = _workload(taskset, inside, units, sizes, most)
    if offer:
        given = offered.limited(offer, given)
    found, result = _planned(taskset, given, variant, order)
    notes = list(plan.conditions(taskset, inside))
    why = plan.why_not(found, given) if isinstance(found, Infeasible) else plan.lacking(found)
    why = why or (result.why if result else "")
    shared = "" if inside in COUPLED else plan.shared_cpus(taskset)
    parts = _partitions(found)
    if offer and not why and parts:
        wanted = [(one.name or "", one.size or 0) for one in parts]
        parts, why = realised(offer.mechanism, given.units, wanted, offer.hardware)
        why = why or offered.unconfirmed(offer, [size for _, size in wanted])
    notes += offered.conditions(offer, [] if why else [one.size or 0 for one in parts]) if offer else []
    why = why or plan.homeless(taskset) or _unproved(given, "" if gpu_only else shared)
    data: dict[str, Any] = {
        "file": file, "test": inside, "fits": not why, "why": why or None, "variant": variant, "order": order,
        "compute_units": given.units, "used_units": None, "partitions": [], "tasks": {}, "merges": [], "files": [],
        "notes": notes,
    }  # fmt: skip
    text = [f"DOES NOT FIT: {why}" if why else ""]
    if not isinstance(found, Infeasible):
        data |= _data(found, shared, result)
        text = [_headline(found, why, shared), *_tables(found, data)]
        if explain:
            data["merges"] = [_step(step, given) for step in plan.steps(found)]
            text += ["", *_told(data["merges"], found)]
        if output and not why:
            made = _made(loaded, text_of_file, found, parts)
            refused = _refused(output, made)
            if refused and not gpu_only:
                why = f"nothing was written: of that file gpurt analyze says: {refused}"
                data |= {"fits": False, "why": why}
                text.append(f"NOT PROVED: {why}")
            else:
                notes += [f"of the written file gpurt analyze says: {refused}"] if refused else []
                with files.written(output) as out:
                    out.write(made.encode())
                data["files"] = [output]
    render.note(*notes, as_json=as_json)
    render.emit(data, as_json, "\n".join(text))
    return 1 if why else 0


def _offer(
    mechanism: str | None, device: int | None, sizes: str | None, taskset: Taskset, units: int | None
) -> Offer | None:
    """What the mechanism offers; None without one.  Raises UsageError, DeviceError."""
    if mechanism is None:
        if device is not None:
            raise UsageError("--device goes with --mechanism cu-mask, green-context or mig")
        return None
    if sizes:
        raise UsageError("--mechanism excludes --sizes: it has sizes of its own")
    return offered.read(mechanism, device, taskset, units)


def _planned(taskset: Taskset, given: Any, variant: str, order: str | None) -> tuple[Any, Result | None]:
    """The allocation, or why there is none, and the verdict on the whole file where tasks of partitions share CPUs."""
    if given.inside not in COUPLED:
        try:
            return plan.plan(given, variant, order), None
        except plan.Unplannable as error:
            raise TooLargeError(f"--variant {variant}: {error}") from None
    if variant == "exact":
        raise UsageError(f"--variant exact: not with {given.inside}, whose bounds depend on all partitions")
    found = coupled.plan(taskset, given, variant, order)
    if not isinstance(found, Allocation) or not found.fits:
        return found, None
    return found, coupled.verdict(taskset, given, coupled.places_of(found))


def _check_options(context: click.Context, owned: bool) -> None:
    """Raises UsageError for an option that does not go with --federated, or only with it."""
    ways = ("variant", "order", "inside", "mechanism", "device", "most", "gpu_only", "explain")
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and owned and option.name in ways:
            raise UsageError(f"{option.opts[-1]} does not go with --federated")
        if given and not owned and option.name in ("name", "objective", "frontier"):
            raise UsageError(f"{option.opts[0]} goes with --federated")


def _federated(
    file: Path, name: str | None, units: int | None, sizes: str | None, objective: str, frontier: bool,
    output: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """The units of tasks that own them."""
    text = taskset.read(file)
    loaded = taskset.parse(file, text)
    there = loaded.taskset.platform.compute_units if units is None else units
    given = units_of(loaded, units, None if sizes is None else _sizes(sizes, there))
    if output:
        _check_output(loaded, units, output)
    return federated(loaded, text, name, given, objective, frontier, output, as_json)


def _check_output(loaded: TasksetFile, units: int | None, output: Path) -> None:
    """Raises UsageError if the written file would have fewer units than its partitions may have, and FileError."""
    there = loaded.taskset.platform.compute_units
    if units and units > there:
        says = f"says compute_units = {there}" if there else "does not say compute_units"
        raise UsageError(
            f"--units {units}: [platform] of {filename(loaded.path)} {says}, and OUT would be the same; write "
            f"compute_units = {units} there, or leave -o out"
        )
    files.check_writable(output)


def _unproved(given: Any, shared: str) -> str:
    """Why nothing is proved of what fits; empty if it is."""
    if not given.items:
        return "no real-time task uses the GPU, so nothing was proved"
    return f"{shared}; --gpu-only plans the GPU work alone" if shared else ""


def _workload(taskset: Taskset, inside: str, units: int | None, sizes: str | None, most: int | None) -> Any:
    try:
        given = plan.workload(taskset, inside, units, (), most)
    except plan.Unplannable as error:
        raise UsageError(str(error)) from None
    if sizes is None:
        return given
    return plan.workload(taskset, inside, units, _sizes(sizes, given.units), most)


def _sizes(text: str, units: int) -> tuple[int, ...]:
    """The sizes of "4:2" (from 4 in steps of 2) or of a list.  Raises UsageError."""
    numbers = text.replace(":", ",", 1).split(",")
    if not all(number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= MOST_UNITS for number in numbers):
        raise UsageError(f"--sizes: expected LEAST:STEP such as 8:8, or a list such as 4,8,16, got {text[:40]!r}")
    values = [int(number) for number in numbers]
    if ":" not in text:
        return tuple(sorted(set(values)))
    if len(values) != 2:
        raise UsageError(f"--sizes: expected LEAST:STEP such as 8:8, or a list such as 4,8,16, got {text[:40]!r}")
    return tuple(range(values[0], max(units, values[0]) + 1, values[1]))


def _data(found: Allocation, shared: str, result: Result | None = None) -> dict[str, Any]:
    told = per_task(found)
    names = _names(found)
    bounds = {} if shared else _bounds(found)
    if result:
        bounds = {name: result.wcrt(name) for name in told}
    return {
        "variant": found.variant, "order": found.order or None, "used_units": found.units,
        "partitions": [
            {"name": name, "compute_units": part.size, "members": [found.workload.items[i].name for i in part.tasks]}
            for name, part in zip(names, found.parts, strict=True)
        ],
        "tasks": {
            item.name: {
                "partition": names[told[item.name]["part"]], "execution_ns": told[item.name]["time"],
                "conflict": told[item.name]["conflict"], "deadline_ns": item.deadline, "wcrt_ns": bounds.get(item.name),
            }
            for item in found.workload.items
        },
    }  # fmt: skip


def _names(found: Allocation) -> list[str]:
    return [f"p{at}" for at in range(1, len(found.parts) + 1)]


def _bounds(found: Allocation) -> dict[str, int | None]:
    """Bounds of response times, ns, of tests that compute them: fp."""
    bounds: dict[str, int | None] = {}
    for part in found.parts if found.workload.inside == "fp" else ():
        there = jobs(found.workload, part.tasks, part.size)
        for at, index in enumerate(part.tasks):
            bounds[found.workload.items[index].name] = response(there, at)
    return bounds


def _headline(found: Allocation, why: str, shared: str) -> str:
    way = found.variant + (f", order {found.order}" if "-" in found.variant else "")
    if found.fits and why:
        return f"NOT PROVED: {why}"
    if why:
        return f"DOES NOT FIT: {why} (the best found, by {way}):"
    what = "GPU work alone fits" if shared else "fits"
    return f"{what} in {found.units} of {found.workload.units} compute units (by {way}; {found.workload.inside} inside)"


def _tables(found: Allocation, told: dict[str, Any]) -> list[str]:
    rows = []
    for part in told["partitions"]:
        for name in part["members"]:
            task = told["tasks"][name]
            times = bound(task["execution_ns"]), "yes" if task["conflict"] else "no", bound(task["wcrt_ns"])
            rows.append((part["name"], str(part["compute_units"]), name, *times, room(task["deadline_ns"])))
    headers = ("partition", "units", "task", "takes ms", "conflict", "done within ms", "deadline ms")
    return [render.table(headers, rows)]


def _step(step: Any, given: Any) -> dict[str, Any]:
    def side(part: Any) -> dict[str, Any]:
        return {"members": [given.items[index].name for index in part.tasks], "compute_units": part.size}

    return {"merged": [side(step.one), side(step.other)], "into": side(step.merged)}


def _told(merges: Sequence[dict[str, Any]], found: Allocation) -> list[str]:
    if not merges:
        return ["no merge was needed" if "-" in found.variant else f"{found.variant} merges nothing step by step"]
    lines = ["merges, each of which saves units or, at the limit of partitions, makes one less:"]
    for merge in merges:
        one, other = (f"{{{', '.join(side['members'])}}}:{side['compute_units']}" for side in merge["merged"])
        lines.append(f"  {one} + {other} -> {merge['into']['compute_units']}")
    return lines


def _partitions(found: Any) -> list[Partition]:
    """The partitions as a file has them; none if nothing was found."""
    if isinstance(found, Infeasible):
        return []
    return [Partition(part.size, name=name) for name, part in zip(_names(found), found.parts, strict=True)]


def _made(loaded: TasksetFile, text: str, found: Allocation, parts: list[Partition]) -> str:
    """The text of the file with its partitions."""
    tasks = {task: told["partition"] for task, told in _data(found, "")["tasks"].items()}
    return with_partitions(loaded.path, text, parts, tasks)


def _refused(output: Path, text: str) -> str:
    """Why `gpurt analyze` says no of a file with that text; empty if it says yes."""
    return answer(parse(output, text).taskset).why


@click.command(
    epilog="""\b
TASK is a file with one [[task]] as in a taskset file, and nothing else.

\b
Examples:
  gpurt admit planned.toml task.toml
  gpurt admit planned.toml task.toml --move -o planned.toml

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
def admit(
    file: Path, task: Path, move: bool, inside: str, most: int | None, gpu_only: bool, output: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Find a place for one more task among the file's partitions, so that no other task loses its guarantee."""
    if gpu_only and inside in COUPLED:
        raise UsageError(f"--gpu-only goes with tests that look at GPU work alone; {inside} takes CPUs into account")
    loaded, text, name = extended(file, task)
    if output:
        files.check_writable(output)
    taskset = loaded.taskset
    if not taskset.partitions:
        raise UsageError(f"{filename(file)} has no [[partition]]; gpurt partition {filename(file)} -o OUT makes them")
    given = _workload(taskset, inside, None, None, most)
    index = next(at for at, item in enumerate(given.items) if item.name == name)
    unproved = _unproved(given, "" if gpu_only or inside in COUPLED else plan.shared_cpus(taskset))
    places = places_of(taskset, given, name)
    if inside in COUPLED:
        answer = coupled.admit(taskset, given, places, index, move)
    else:
        answer = Admission(tuple(places), None, (unproved,)) if unproved else place_for(given, places, index, move)
    if answer.how is How.MOVED and (homeless := plan.homeless(taskset)):
        answer = Admission(tuple(places), None, (*answer.tried, f"{How.MOVED.value}: {homeless}"))
    notes = list(plan.conditions(taskset, inside))
    if output and answer.how:
        made, remarks = written(loaded, text, given, answer)
        notes += remarks
        with files.written(output) as out:
            out.write(made.encode())
    data, said = told(file, name, given, answer, inside, notes)
    data["files"] = [output] if output and answer.how else []
    render.note(*notes, as_json=as_json)
    render.emit(data, as_json, said)
    return 0 if answer.how else 1

# SPDX-License-Identifier: GPL-2.0
"""The command that gives tasks units of the GPU which they own, and one bus: plan units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from analysis import taskset
from analysis.model import FEDERATED, Partition, Task, Taskset, Waiting
from analysis.rta import Bound, Reason, Result
from analysis.rta.registry import UNITS as OF_UNITS
from analysis.rtgpu import allocate, compiled
from analysis.rtgpu.analyse import System, Units, failed, on_units
from analysis.rtgpu.assumed import assumed
from analysis.rtgpu.method import METHODS
from analysis.rtgpu.verdict import mixed, other_mode
from analysis.taskset import TasksetFile
from analysis.taskset.repartition import with_partitions
from analysis.taskset.write import with_policy
from analysis.verdict import no_proof
from gpurt import files
from gpurt.errors import UsageError
from gpurt.text import filename
from pycontrol.commands.options import FILE, JSON, TestName, command
from pycontrol.commands.plan_options import OUT, SIZES, UNITS
from pycontrol.output import render
from pycontrol.output.render import bound, ms, room
from pycontrol.plan.division import check_output, sizes_of

OBJECTIVES = ("least", "slack")
#: The tests unless another one is named, for tasks that suspend and for those that wait busily.
TEST, BUSY_TEST = "rtgpu", "stgm"


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan units examples/federated.toml --frontier
  gpurt plan units set.toml --objective slack -o planned.toml

\b
Exit codes: 0 every task with units holds its deadline; 1 one does not; 2 wrong usage; 3 a file is wrong.""",
)
@FILE
@click.option("--test", "name", type=TestName(), metavar="NAME",
              help=f"The test.  [default: {TEST}; {BUSY_TEST} if tasks wait busily]")  # fmt: skip
@click.option("--objective", type=click.Choice(OBJECTIVES), default=OBJECTIVES[0], show_default=True,
              help="Few units, or much slack, relative to deadlines.")  # fmt: skip
@click.option("--frontier", is_flag=True, help="Show each task's bound by its units.")
@UNITS
@SIZES
@OUT
@JSON
def units(
    file: Path, name: str | None, objective: str, frontier: bool, units: int | None, sizes: str | None,
    output: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Give each task with kernels units of its own, and all of them one bus for copies (docs/rtgpu.md)."""
    text = taskset.read(file)
    loaded = taskset.parse(file, text)
    there = loaded.taskset.platform.compute_units if units is None else units
    given = units_of(loaded, units, None if sizes is None else sizes_of(sizes, there))
    if output:
        check_output(loaded, units, output)
    return _federated(loaded, text, name, given, objective, frontier, output, as_json)


def _federated(
    loaded: TasksetFile, text: str, name: str | None, units: Units, objective: str, frontier: bool, output: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Gives each task with kernels units of its own.  Returns the exit code.

    ``text``: of the file.  ``name``: the test; None: the one for the tasks' waiting mode.  ``units``: what there is to
    give.  ``objective``: few units, or much slack.  ``frontier``: also what more units of each task are worth.
    ``output``: where the file is written with the units as its partitions, if every task meets its deadline.  Raises
    UsageError for a test that is not about tasks that own units, and FileError if the file cannot be written.
    """
    name = name or _usual(loaded.taskset)
    if name not in OF_UNITS:
        raise UsageError(f"--test: {name!r} is not about tasks that own units; there are {', '.join(OF_UNITS)}")
    test, system = OF_UNITS[name], System(METHODS[name], loaded.taskset, loaded.taskset.platform.bus_chunk)
    if not units.total and any(system.users):
        raise UsageError("[platform] has no compute_units: say how many SMs or CUs the GPU has, or give --units")
    contradiction = mixed(loaded.taskset) or other_mode(test.waiting, loaded.taskset)
    result = failed(system, Reason.WAITING, contradiction) if contradiction else compiled.run(system, units)
    if result.schedulable and objective == "slack":
        best = allocate.most_slack(system, units, allocate.of(system, result))
        assert best is not None
        result = on_units(system, allocate.named(system, best))
    rows = allocate.frontier(system, units, allocate.of(system, result)) if frontier and result.schedulable else {}
    why = result.why or no_proof(test, loaded.taskset)
    notes = assumed(loaded.taskset)
    data = {
        "file": loaded.path, "test": name, "sound": test.sound, "fits": not why, "why": why or None,
        "variant": "federated", "order": None, "objective": objective, "compute_units": units.total,
        "notes": notes, "merges": [], "files": [output] if output and not why else [],
        "frontier": [{"task": task, "units": count, "wcrt_ns": wcrt}
                     for task, found in rows.items() for count, wcrt in found],
        **_allocation(system, result),
    }  # fmt: skip
    if output and not why:
        _write(loaded, text, output, system, result)
    render.note(*notes, as_json=as_json)
    render.emit(data, as_json, _text(data, rows))
    return 1 if why else 0


def _usual(taskset: Taskset) -> str:
    """The test for the mode in which tasks wait."""
    users = [task for task in taskset.real_time if task.uses_gpu]
    return BUSY_TEST if users and all(task.waiting is Waiting.BUSY for task in users) else TEST


def _places(system: System, result: Result) -> tuple[list[Partition], dict[str, str]]:
    """A partition for each task with kernels, and the partition of each task that uses the GPU.

    Tasks that only copy need no units; a file has no task that uses the GPU in no partition, so they are in the first.
    """
    given = result.units or {}
    users = [task for task in system.taskset if task.name in given]
    names = {task.name: f"p{at}" for at, task in enumerate(users, start=1)}
    parts = [Partition(given[task.name], name=names[task.name]) for task in users]
    copying: list[Task] = [task for task in system.tasks if task.uses_gpu and task.name not in given]
    return parts, {**names, **{task.name: "p1" for task in copying if parts}}


def _allocation(system: System, result: Result) -> dict[str, Any]:
    """The partitions and what each task has of them."""
    parts, names = _places(system, result)
    tasks = {}
    for task in system.taskset:
        verdict = result.verdicts[task.name]
        found = verdict if isinstance(verdict, Bound) else None
        tasks[task.name] = {
            "partition": names.get(task.name), "units": (result.units or {}).get(task.name),
            "deadline_ns": None if task.best_effort else task.deadline,
            "wcrt_ns": found and found.wcrt, "slack_ns": found and found.slack,
        }  # fmt: skip
    members = {part.name: [task for task, name in names.items() if name == part.name] for part in parts}
    return {
        "used_units": sum(result.units.values()) if result.units else None, "tasks": tasks,
        "partitions": [{"name": part.name, "compute_units": part.size, "members": members[part.name]}
                       for part in parts],
    }  # fmt: skip


def _write(loaded: TasksetFile, text: str, output: Path, system: System, result: Result) -> None:
    made = with_partitions(loaded.path, with_policy(loaded.path, text, FEDERATED), *_places(system, result))
    with files.written(output) as file:
        file.write(made.encode())


def units_of(loaded: TasksetFile, total: int | None, sizes: Sequence[int] | None) -> Units:
    """The units that tasks may have: the platform's, or ``total`` of them, in ``sizes``.  Raises UsageError."""
    platform = loaded.taskset.platform
    there = platform.compute_units if total is None else total
    known = platform.sizes if sizes is None else tuple(sizes)
    if sizes is None and len(known) > 1:
        known = tuple(range(known[0], there + 1, known[1] - known[0]))
    try:
        return Units.of(there, known)
    except ValueError as error:
        where = f"{filename(loaded.path)}: units" if sizes is None else "--sizes"
        raise UsageError(f"{where}: {error}; plan units takes such sizes only") from None


def _text(data: Mapping[str, Any], rows: Mapping[str, Sequence[tuple[int, int | None]]]) -> str:
    """A line for each task, and what the allocation is worth."""

    def shown(count: int | None) -> str:
        return "-" if count is None else str(count)

    cells = [
        (name, task["partition"] if task["units"] else "-", shown(task["units"]),
         shown(task["units"] and 2 * task["units"]), bound(task["wcrt_ns"]), ms(task["deadline_ns"]),
         room(task["slack_ns"]))
        for name, task in data["tasks"].items()
    ]  # fmt: skip
    lines = [render.table(("task", "partition", "units", "virtual SMs", "WCRT ms", "deadline ms", "slack ms"), cells)]
    if data["fits"]:
        lines.append(f"fits in {data['used_units'] or 0} of {data['compute_units']} compute units under {data['test']}")
    else:
        lines.append(f"DOES NOT FIT under {data['test']}: {data['why']}")
    if rows:
        table = [(name, str(count), bound(wcrt)) for name, found in rows.items() for count, wcrt in found]
        lines += ["", render.table(("task", "units", "WCRT ms"), table)]
    return "\n".join(lines)

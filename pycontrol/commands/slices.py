# SPDX-License-Identifier: GPL-2.0
"""The command that plans time slices and interleave levels of TSGs, and sets them: plan slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from analysis.answers import slices as plan
from analysis.answers.loading import analysable_text
from analysis.answers.slices import homes
from analysis.model import Taskset
from analysis.rta.result import Result
from analysis.slices.runlist import Runlist
from analysis.taskset import TasksetFile
from analysis.taskset.file import TURNS_ASSUMED
from analysis.taskset.repartition import with_partitions
from analysis.taskset.write import with_policy
from gpurt import files
from gpurt.enums import Policy
from gpurt.errors import RefusedError, UsageError
from gpurt.text import filename
from gpurt.types import Document, DocumentView
from gpurt.units import US
from pycontrol.act.plan import slicing
from pycontrol.act.plan.slicing import Planned
from pycontrol.commands.options import FILE, JSON, Output, command
from pycontrol.link.hints import Hints, SchedNode
from pycontrol.machine import procs
from pycontrol.observe.fit import fit
from pycontrol.output import render
from pycontrol.output.render import bound, room

#: How many TSGs of other programs can be counted.
MAX_FOREIGN_TSGS = 256
#: How long --watch waits for the driver's word before it looks by itself, seconds.
WORD_WAIT_S = 1.0
#: Under which slices and levels decide what the GPU executes.
SLICES_POLICY = Policy.TIMESLICED.word
BOUNDS = "the bounds hold while no TSG is opened or closed; --best-effort counts those of other programs"
ALONE = "the bounds hold until a program opens a TSG or changes its slice; --watch sees the one, and forbids the other"
WATCHED = "the bounds hold while this command runs, except from when a TSG is opened until a plan that has it is set"


@command(
    epilog="""\b
Examples:
  gpurt plan slices examples/slices.toml
  gpurt plan slices examples/slices.toml --best-effort 2 -o planned.toml
  gpurt plan slices examples/slices.toml --apply --watch

\b
With --apply, tasks are matched with processes by their command or name, and objected to as gpurt apply does. TSGs of
other programs count with the slices and levels that they have, and --best-effort counts those that may still come. All
is set, or nothing. --watch keeps the driver's node, so that programs cannot change their slices. It plans anew when a
TSG appears that is not in the plan, says so, and ends when nothing is proved any more; with --json, each plan is a
document on a line.

\b
Exit codes: 0 every task has a bound with these slices, and with --apply they are set (with --watch: until Ctrl-C);
1 no slices were found, the guarantee is gone, or tasks are not running; 2 wrong usage; 3 a file is wrong;
4 no such node, or another process has it open; 5 not permitted, or refused by the driver."""
)
@FILE
@click.option("--best-effort", "others", type=click.IntRange(0, MAX_FOREIGN_TSGS), default=0, show_default=True,
              metavar="NUMBER", help="TSGs of other programs, each with 1.024 ms at level low.")  # fmt: skip
@click.option("--apply", "applying", is_flag=True, help="Set them for the processes that run on this Tegra.")
@click.option("--watch", is_flag=True, help="With --apply: plan anew when a TSG appears that is not in the plan.")
@click.option("--ignore-missing", is_flag=True, help="With --apply: tasks that are not running are no failure.")
@click.option("-o", "--output", type=Output(), metavar="OUT",
              help="Write the taskset file with its plan there, if every task has a bound.")  # fmt: skip
@JSON
@click.pass_obj
def slices_command(
    device: str | None, file: Path, others: int, applying: bool, watch: bool,
    ignore_missing: bool, output: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Plan time slices and interleave levels of TSGs on a Tegra, so that every deadline holds (policy timesliced)."""
    for name, given in (("--watch", watch), ("--ignore-missing", ignore_missing)):
        if given and not applying:
            raise UsageError(f"{name} goes with --apply")
    if watch and output:
        raise UsageError("--watch goes without -o: the plan changes")
    loaded, text = analysable_text(file)
    if why := loaded.taskset.unplanned("the plan of slices"):
        raise UsageError(f"{filename(file)}: {why}")
    if output:
        files.check_writable(output)
    asked = _Asked(loaded, text, others, output, as_json)
    if not applying:
        return _plan(asked)

    if why := slicing.switched(device):
        _tell(asked, None, None, why)
        return 1
    with SchedNode() as node:
        return _watch(node, asked) if watch else _apply(node, asked, ignore_missing)


@dataclass(frozen=True)
class _Asked:
    """The user's request."""

    file: TasksetFile
    text: str
    others: int
    output: Path | None
    as_json: bool


def _plan(asked: _Asked) -> int:
    """Plans for the file alone."""
    table, result, why = plan.answer_with_slices(plan.with_others(asked.file.taskset, asked.others))
    if table:
        _write(asked, table, why)
    _tell(asked, table, result, why)
    return 1 if why else 0


def _write(asked: _Asked, table: Runlist, why: str) -> None:
    """Writes the file with the plan, if the user wants that and everything is proved.  Raises FileError.

    Its policy becomes `timesliced`: the plan says nothing of another.
    """
    if asked.output and not why:
        text = with_policy(asked.file.path, asked.text, SLICES_POLICY)
        made = with_partitions(asked.file.path, text, *homes(asked.file.taskset, table))
        with files.written(asked.output) as file:
            file.write(made.encode())


def _apply(node: SchedNode, asked: _Asked, ignore_missing: bool) -> int:
    """Plans for what runs, and sets it once."""
    def accept(found: Planned) -> None:
        if found.table:
            _write(asked, found.table, found.why)

    found = slicing.settle(node, asked.file, asked.others, accept)
    _tell(asked, found.table, found.result, found.why, found)
    return 1 if found.why or (found.missing and not ignore_missing) else 0


def _watch(node: SchedNode, asked: _Asked) -> int:
    """Plans for what runs until Ctrl-C, or until nothing is proved any more."""
    node.lock()
    try:
        found = slicing.settle(node, asked.file, asked.others)
        news: list[Hints] = []
        while True:
            _tell(asked, found.table, found.result, found.why, found, news)
            if found.why:
                return 1
            while not (news := slicing.unplanned(node, found)) and not _defeated(asked.file, found):
                node.opened(WORD_WAIT_S)
            try:
                found = slicing.settle(node, asked.file, asked.others)
            except RefusedError as error:
                raise RefusedError(f"the guarantee is gone: {error}", error.errno) from None
    except KeyboardInterrupt:
        return 0


def _defeated(file: TasksetFile, found: Planned) -> bool:
    """Whether processes, or this machine, are no longer as the file says."""
    return bool(fit.against(slicing.defeats(file, found.running.of)))


def _tell(
    asked: _Asked, table: Runlist | None, result: Result | None, why: str, found: Planned | None = None,
    opened: Sequence[Hints] | None = None,
) -> None:  # fmt: skip
    """Prints the plan, what it is for, and with --watch (``opened`` is given) what made it necessary."""
    tasks = _data(asked.file.taskset, table, result, found) if table and result else {}
    notes = [TURNS_ASSUMED, BOUNDS if not found else WATCHED if opened is not None else ALONE]
    if (named := " and ".join(asked.file.taskset.policies)) != SLICES_POLICY:
        notes.append(f"the plan is for policy {SLICES_POLICY}, the file is for {named}; -o writes {SLICES_POLICY}")
    if found:
        notes += [*found.running.notes, *(one for one in fit.lines(found.running.objections) if one != why)]
        notes += [f"{name} is not running; its TSG counts as planned" for name in found.missing]
    applied = found is not None and not why
    data = {
        "file": asked.file.path, "schedulable": not why, "why": why or None, "applied": applied, "tasks": tasks,
        "files": [asked.output] if asked.output and not why else [], "notes": notes,
    }  # fmt: skip
    lines = [f"NOT {'APPLIED' if found else 'PROVED'}: {why}" if why else "", _table(tasks) if tasks else ""]
    if found:
        data["others"] = [_opened(one) for one in found.running.others]
        data["objections"] = fit.data(found.running.objections)
    if opened is not None:
        data["opened"] = [_opened(one) for one in opened]
        lines[:0] = [f"TSG {one.tsg} of process {one.pid} ({_name(one.pid)}) is not as planned" for one in opened]
        if opened:
            lines.insert(len(opened), "THE GUARANTEE IS GONE" if why else "planned anew:")
    text = "\n".join(filter(None, lines))
    if opened is None:
        render.note(*notes, as_json=asked.as_json)
        render.emit(data, asked.as_json, text)
    elif asked.as_json:
        render.emit_line(data)
    else:
        render.note(*notes, as_json=False)
        render.say(text)


def _name(pid: int) -> str:
    stat = procs.stat(pid)
    return stat.comm if stat else "gone"


def _opened(one: Hints) -> Document:
    return {"pid": one.pid, "tsg": one.tsg, "slice_ns": one.slice_us * US, "interleave": one.level.name.lower()}


def _data(taskset: Taskset, table: Runlist, result: Result, found: Planned | None) -> Document:
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
        if found:
            whole[task.name]["pids"] = sorted(one.pid for one in found.running.of.get(task.name, ()))
    return whole


def _table(tasks: DocumentView) -> str:
    running = any("pids" in one for one in tasks.values())
    rows = [
        (name, one["interleave"], bound(one["slice_ns"]), bound(one["gap_ns"]), bound(one["wcrt_ns"]),
         room(one["deadline_ns"]), *((", ".join(map(str, one["pids"])) or "not running",) if running else ()))
        for name, one in tasks.items()
    ]  # fmt: skip
    headers = ("task", "level", "slice ms", "longest wait ms", "bound ms", "deadline ms", "pid")
    return render.table(headers[: None if running else -1], rows)

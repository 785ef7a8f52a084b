# SPDX-License-Identifier: GPL-2.0
"""`gpurt apply --admit`: one more task beside those that run, all of which keep their guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from analysis.answers import coupled
from analysis.answers import partitions as plan
from analysis.model import Partition, Task, Taskset
from analysis.partition.admit import Admission
from analysis.partition.admit import admit_task as place_for
from analysis.partition.workload import Workload
from analysis.taskset import TasksetFile, parse
from analysis.taskset.mechanisms import way_of
from gpurt import files
from gpurt.errors import RefusedError, UsageError
from gpurt.text import filename
from pycontrol.act.plan.admission import extended, places_of_file, written_places
from pycontrol.act.plan.admitted import told_admission
from pycontrol.link import applied
from pycontrol.link.control import Control, connect
from pycontrol.link.hints import SchedNode
from pycontrol.link.placed import partition_of, place_of
from pycontrol.link.settings import settings_of
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.fit import Host, Objection
from pycontrol.output import render


@dataclass(frozen=True)
class _Placed:
    """The file with the task in the place that was found: its text, and what it says."""

    name: str
    given: Workload
    answer: Admission
    text: str
    file: TasksetFile
    notes: list[str]


def admit(device: str | None, file: Path, task: Path, output: Path, as_json: bool) -> int:
    """Finds a place, looks whether the host is what the file says, and sets and writes all of it, or nothing."""
    with files.held_alone(file), ExitStack() as stack:
        found = _place(file, task)
        files.check_writable(output)
        control = stack.enter_context(connect(device))
        host = fit.ask(control, found.file)
        matched = fit.matched(found.file, host)
        objections = fit.objections(found.file, host.given(_priorities(matched)))
        why = fit.against(objections) or next(filter(None, map(_unconfined, _new(found, matched))), "")
        if found.answer.how and not why:
            _set(control, host, found, matched, output, stack)
    return _tell(file, found, matched, objections, why if found.answer.how else "", output, as_json)


def _priorities(matched: Mapping[int, Task]) -> dict[int, int]:
    """The GPU priorities that the file has for processes."""
    return {pid: task.segment_priority for pid, task in matched.items()}


def _place(file: Path, task: Path) -> _Placed:
    """The place that `gpurt plan partitions FILE TASK` finds while no partition changes its size."""
    loaded, text, name = extended(file, task)
    taskset = loaded.taskset
    if not taskset.partitions:
        name = filename(file)
        raise UsageError(f"{name} has no [[partition]]; gpurt plan partitions {name} -o OUT makes them")
    inside, shared = _test(taskset), plan.shared_cpus(taskset)
    try:
        given = plan.workload(taskset, inside)
    except plan.Unplannable as error:
        raise UsageError(f"{shared}; {error}" if shared else str(error)) from None
    places = places_of_file(taskset, given, name)
    index = next(at for at, item in enumerate(given.items) if item.name == name)
    if shared:
        answer = coupled.admit_coupled(taskset, given, places, index, move=False, grow=False)
    else:
        answer = place_for(given, places, index, grow=False)
    notes = list(plan.conditions(taskset, inside))
    if not answer.how:
        return _Placed(name, given, answer, text, loaded, notes)
    text, remarks = written_places(loaded, text, given, answer)
    return _Placed(name, given, answer, text, parse(file, text), [*notes, *remarks])


def _test(taskset: Taskset) -> str:
    """The test inside partitions: one that knows the other tasks of its CPU, where tasks share CPUs."""
    if not plan.shared_cpus(taskset):
        return "fp"
    spins = any(task.spins() for task in plan.members(taskset))
    return next(name for name, mode in plan.COUPLED.items() if mode.spins is spins)


def _new(found: _Placed, matched: Mapping[int, Task]) -> list[tuple[int, Partition]]:
    """The new task's processes."""
    return [(pid, task.partition) for pid, task in matched.items() if task.name == found.name and task.partition]


def _unconfined(one: tuple[int, Partition]) -> str:
    """Why a process that runs already is not in the partition that was found."""
    pid, part = one
    if way_of(part) is None or partition_of(pid) == place_of(part):
        return ""
    return (
        f"process {pid} was not started in partition {place_of(part)}, which cannot be given to a program that runs; "
        "end it, admit the task, and start it with gpurt run"
    )


def _set(
    control: Control, host: Host, found: _Placed, matched: Mapping[int, Task], output: Path, stack: ExitStack,
) -> None:  # fmt: skip
    """Gives processes their priorities, and writes the file.  Everything is as it was before if something fails."""
    settings = [] if all(gpu.emulated for gpu in host.gpus) else list(settings_of(found.file.path, matched))
    node = stack.enter_context(SchedNode()) if settings else None

    def confirm() -> None:
        known = {(one.gpu, one.pid) for one in host.clients}
        if new := [one for one in control.clients() if one.priority and (one.gpu, one.pid) not in known]:
            raise RefusedError(f"process {new[0].pid} ({new[0].comm}) came meanwhile; try again")
        with files.written(output) as out:
            out.write(found.text.encode())

    applied.apply_settings(control, host.clients, _priorities(matched), settings, node, confirm)


def _tell(
    file: Path, found: _Placed, matched: Mapping[int, Task], objections: Sequence[Objection], why: str, output: Path,
    as_json: bool,
) -> int:  # fmt: skip
    """Prints the answer; the exit code."""
    notes = [*found.notes, *(line for line in fit.lines(objections) if line != why)]
    data, text = told_admission(file, found.name, found.given, found.answer, found.given.inside, notes)
    admitted = bool(found.answer.how) and not why
    pids: dict[str, list[int]] = {}
    for pid, task in sorted(matched.items()):
        pids.setdefault(task.name, []).append(pid)
    by_name = {task.name: task for task in found.file.taskset}
    for name, one in data["tasks"].items():
        one |= {"gpu_priority": by_name[name].segment_priority, "pids": pids.get(name, [])}
    if why:
        data |= {"why": why, "way": None, "partition": None}
        text = f"NOT ADMITTED: {found.name}: {why}"
    elif admitted and not pids.get(found.name):
        text += f"\n{found.name} is not running yet: start it, and gpurt apply {filename(output)} gives it its priority"
    data |= {
        "policy": found.file.taskset.platform.policy, "schedulable": admitted, "applied": admitted,
        "admitted": admitted, "files": [output] if admitted else [], "objections": fit.data(objections),
    }  # fmt: skip
    render.note(*notes, as_json=as_json)
    render.emit(data, as_json, text)
    return 0 if admitted else 1

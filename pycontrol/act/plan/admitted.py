# SPDX-License-Identifier: GPL-2.0
"""The output about a task that asked for a place among partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.partition.admit import Admission, Place
from analysis.partition.workload import Workload
from gpurt.types import Document
from pycontrol.act.plan.admission import named_task
from pycontrol.output import render
from pycontrol.output.render import bound


def told_admission(
    file: Path, name: str, given: Workload, answer: Admission, inside: str, notes: Sequence[str]
) -> tuple[Document, str]:
    """The answer for programs, and for people."""
    places = named_task(answer)
    homes = {index: place for place in places for index in place.tasks}
    index = next(at for at, item in enumerate(given.items) if item.name == name)
    home = homes.get(index)
    why = None if answer.how else "; ".join(answer.tried)
    tasks = {item.name: _task(given, at, homes[at]) for at, item in enumerate(given.items) if at in homes}
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


def _task(given: Workload, index: int, place: Place) -> Document:
    flags = given.conflicts(place.tasks)
    conflict = flags[given.items[index].memory]
    return {"partition": place.name, "execution_ns": given.time(index, place.size, conflict), "conflict": conflict,
            "deadline_ns": given.items[index].deadline}  # fmt: skip

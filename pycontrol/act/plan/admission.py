# SPDX-License-Identifier: GPL-2.0
"""A taskset file with one more task, and the place that was found for it: `gpurt plan partitions FILE TASK`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from analysis.answers import partitions as plan
from analysis.answers.loading import refuse_file
from analysis.model import Partition, Taskset
from analysis.model.platform import YIELD
from analysis.partition.admit import Admission, How, Place
from analysis.partition.merge import Merger
from analysis.partition.workload import Workload
from analysis.rta.partition_order import NO_HOME, home, locked, not_isolated
from analysis.taskset import TasksetFile, parse, read_text
from analysis.taskset.lines import lines_of
from analysis.taskset.mechanisms import SIZED, way_of
from analysis.taskset.repartition import with_partitions
from analysis.taskset.text import document_of
from gpurt.errors import Problem, TasksetError

#: Why no task can be placed if a partition's size is unknown.
UNSIZED = "partition {} has no compute_units: how much of the GPU it is for is not known; gpurt plan partitions says it"
#: Why no task can be placed beside tasks of one TSG.
ONE_TSG = "partition {}: its tasks share one TSG, and no test inside partitions is about that"


def extended(file: Path, task: Path) -> tuple[TasksetFile, str, str]:
    """The taskset file with the task of the other file at its end, its text, and the task's name.

    Raises TasksetError for mistakes, each with the file and line where it is.
    """
    old, new = read_text(file), read_text(task)
    parse(file, old)
    _check_only_task(task, new)
    text = f"{old}\n{new}"
    before = old.count("\n") + 1
    try:
        loaded = parse(file, text, unplaced=True)
    except TasksetError as error:
        raise TasksetError(task, [replace(p, line=max(p.line - before, 1)) for p in error.problems]) from None
    refuse_file(loaded)
    for at, one in enumerate(loaded.taskset.tasks[:-1]):
        if one.best_effort and one.uses_gpu and home(one) is None:
            raise TasksetError(file, [Problem(lines_of(old)["task", at], NO_HOME.format(one.name))])
    for at, part in enumerate(loaded.taskset.partitions):
        if part.size is None:
            raise TasksetError(file, [Problem(lines_of(old)["partition", at], UNSIZED.format(part.name))])
        if part.shared:
            raise TasksetError(file, [Problem(lines_of(old)["partition", at], ONE_TSG.format(part.name))])
    added = loaded.taskset.tasks[-1]
    if added.best_effort or not added.uses_gpu:
        raise TasksetError(task, [Problem(1, f"{added.name}: only a real-time task with a GPU segment needs a place")])
    return loaded, text, added.name


def _check_only_task(path: Path, text: str) -> None:
    """Raises TasksetError unless the file has one [[task]], which names no partition, and nothing else."""
    tables = document_of(path, text)[0]
    tasks = tables.get("task")
    if tables.keys() != {"task"} or not isinstance(tasks, list) or len(tasks) != 1:
        raise TasksetError(path, [Problem(1, "expected one [[task]] as in a taskset file, and nothing else")])
    if isinstance(tasks[0], dict) and "partition" in tasks[0]:
        raise TasksetError(path, [Problem(1, "partition: is what admit finds; leave it out")])


def places_of_file(taskset: Taskset, given: Workload, name: str) -> list[Place]:
    """The file's partitions as places; all tasks except the new one are in them."""
    inside: dict[str | None, list[int]] = {partition.name: [] for partition in taskset.partitions}
    homes = {task.name: task.partition.name for task in taskset if task.partition}
    for index, item in enumerate(given.items):
        if item.name != name:
            inside[homes[item.name]].append(index)
    return [Place(one.name, one.size or 0, tuple(inside[one.name])) for one in taskset.partitions]


def standing_places(taskset: Taskset, why: str) -> str:
    """Why a file does not hold as it is, which ``why`` says; empty if each of its partitions passes admission's test.

    Admission's test, `fp`, needs a CPU for each task; it also is for policy boosted.  Tasks without GPU work are no
    part of the test and have to be in time by themselves.
    """
    sized = all(part.size is not None for part in taskset.partitions)
    if not sized or not any(part.own_gpu for part in taskset.partitions) or plan.shared_cpus(taskset):
        return why
    if taskset.platform.begin == YIELD or any(part.shared for part in taskset.partitions):
        return why
    if unknown := not_isolated(taskset) or locked(taskset):
        return unknown
    if without := plan.without_gpu(taskset).why:
        return without
    try:
        given = plan.workload(taskset, "fp")
    except plan.Unplannable as error:
        return str(error)
    merger = Merger(given)
    for place in places_of_file(taskset, given, ""):
        if place.tasks and not merger.passes(place.tasks, place.size):
            return f"partition {place.name} misses deadlines on its {place.size} units"
    return ""


def named_task(answer: Admission) -> list[Place]:
    """The places, each with a name: new ones are called p1, p2 and so on, as far as that is free."""
    taken = {place.name for place in answer.places}
    free = (f"p{at}" for at in range(1, 2 * len(answer.places) + 2) if f"p{at}" not in taken)
    return [place if place.name else replace(place, name=next(free)) for place in answer.places]


def written_places(loaded: TasksetFile, text: str, given: Workload, answer: Admission) -> tuple[str, list[str]]:
    """The file's text with the task in its place, and remarks: a partition that grows loses its mask."""
    old: Mapping[str | None, Partition] = {one.name: one for one in loaded.taskset.partitions}
    places, notes, partitions = named_task(answer), [], []
    if answer.how is How.MOVED:
        lost = {entry.name for one in old.values() for entry in fields(one) if getattr(one, entry.name) is not None}
        if lost := lost - {"name", "compute_units"}:
            notes.append(f"the partitions are new: {', '.join(sorted(lost))} of the old ones were left out")
        old = {}
    for place in places:
        before = old.get(place.name, Partition(name=place.name))
        way = way_of(before) if place.size != before.size else None
        if way in SIZED:
            notes.append(f"{place.name} grows: its {way} was left out, because it is for fewer units")
            before = replace(before, **{way: None})
        partitions.append(before if place.size == before.size else replace(before, compute_units=place.size))
    homes = {given.items[at].name: place.name or "" for place in places for at in place.tasks}
    return with_partitions(loaded.path, text, partitions, homes), notes

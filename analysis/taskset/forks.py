# SPDX-License-Identifier: GPL-2.0
"""Workers of tasks in a taskset file: a segment names them, and each is a [[task]] without releases of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.model import Fork, Task
from analysis.taskset import schema
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted
from analysis.taskset.segments import WORKERS_KEY
from gpurt.types import Document

#: The keys whose values a worker takes from its task, and the keys that a worker cannot have.
GIVEN = ("period", "deadline", "group")
NOT_OF_WORKERS = (
    *GIVEN, "jitter", "releases", "max_period", "gpu_priority", "offset", "thread", "rank", "kind", "partition"
)  # fmt: skip


def spelt_out(document: Document, report: Mistakes) -> Document:
    """The tables of a file, in which each worker has the period, the deadline and the group of its task.

    Reports keys that a worker cannot have, and tasks that have no period although they are no workers.
    """
    _check_names(document, report)
    parents = {name: one for _, one in _tables(document) for name in names_in(one)}
    if not isinstance(document.get("task"), list):
        return document
    threads = document.get("thread")
    levels = {str(one.get("name")): one.get("priority") for one in (threads if isinstance(threads, list) else [])
              if isinstance(one, dict)}  # fmt: skip
    tasks = [
        _spelt_out(one, at, parents, 0 in (one.get("priority"), levels.get(str(one.get("thread")))), report)
        if isinstance(one, dict) else one
        for at, one in enumerate(document["task"])
    ]
    return {**document, "task": tasks}


def _spelt_out(one: Document, at: int, parents: Document, idle: bool, report: Mistakes) -> Document:
    """``idle``: the task is best effort, so that no bound counts its jobs."""
    path: Where = ("task", at)
    name = one.get("name")
    parent = parents.get(name) if isinstance(name, str) else None
    if parent is None or parent is one:
        if not idle and "period" not in one and schema.RATES.isdisjoint(map(str.lower, one)):
            report.add(path, f'task[{at + 1}]: "period" is missing: minimum time between releases')
        return {"period": "1s", **one}
    for key in NOT_OF_WORKERS:
        if key in one:
            report.add((*path, key), f"{key}: {name} is a worker of {_shown(parent)}: leave it out")
    given = {key: parent[key] for key in GIVEN if _right(key, parent)}
    return {**{key: value for key, value in one.items() if key not in NOT_OF_WORKERS}, "period": "1s", **given}


def _right(key: str, parent: Document) -> bool:
    """Whether the task's own value is right; if not, the mistake is reported for the task's table."""
    if key not in parent:
        return False
    return key == "group" or schema.time(1).read(parent[key], (key,), Mistakes()) is not None


def _shown(parent: Document) -> str:
    return parent["name"] if isinstance(parent.get("name"), str) else "another task"


def _tables(document: Document) -> list[tuple[int, Document]]:
    entries = document.get("task", [])
    return [(at, one) for at, one in enumerate(entries if isinstance(entries, list) else []) if isinstance(one, dict)]


def names_in(task: Document) -> Iterator[str]:
    """The names of workers in the segments of a [[task]], which may have mistakes."""
    segments = task.get("segments")
    for segment in segments if isinstance(segments, list) else []:
        named = segment.get(WORKERS_KEY) if isinstance(segment, dict) else None
        yield from (name for name in (named if isinstance(named, list) else []) if isinstance(name, str))


def before(segments: Sequence[Document]) -> list[Document] | None:
    """The segments before the segment that starts workers; None if no segment does."""
    at = next((at for at, segment in enumerate(segments) if WORKERS_KEY in segment), None)
    return None if at is None else list(segments[:at])


def read_forks(rows: Sequence[tuple[int, Document, int]], tasks: Sequence[Task], report: Mistakes) -> tuple[Fork, ...]:
    """The forks of [[task]] tables whose fields are right; reports contradictions between forks and tasks.

    ``rows``: for each table its index, its fields, and the number of its segments before its workers.
    """
    best_effort = {task.name for task in tasks if task.best_effort}
    found: list[Fork] = []
    for at, values, after in rows:
        path, name = ("task", at, "segments"), values["name"]
        starting = [segment for segment in values["segments"] if WORKERS_KEY in segment]
        if len(starting) > 1:
            report.add(path, f"workers: {name} starts workers more than once in a job: no bound is known")
        if "group" not in values:
            report.add(path, f'workers: {name} and its workers own the GPU as a group: name it, group = "{name}"')
        for one in (name, *starting[0][WORKERS_KEY]):
            if one in best_effort:
                report.add(path, f"workers: {one} is best effort: only real-time tasks have or are workers")
        fork = Fork(name, after, tuple(starting[0][WORKERS_KEY]), starting[0].get("hold", False))
        if why := _level(fork, tasks):
            report.add(("task", at), why)
        found.append(fork)
    return tuple(found)


def _level(fork: Fork, tasks: Sequence[Task]) -> str:
    """Why the group's GPU priority is not the one that hosts give it, if the file does not state one."""
    members = {task.name: task for task in tasks if task.name in fork.members}
    parent, highest = members.get(fork.task), max((task.priority for task in members.values()), default=0)
    if parent is None or parent.gpu_priority is not None or parent.priority == highest:
        return ""
    why = f"hosts give a group the highest priority of its members, {highest}, and {fork.task} has {parent.priority}"
    return f"gpu_priority: {why}: state it, gpu_priority = {highest}"


def _check_names(document: Document, report: Mistakes) -> None:
    """Each worker is the [[task]] of one parent, has no workers, and is in no chain; checked despite other mistakes."""
    known = {one["name"]: one for _, one in _tables(document) if isinstance(one.get("name"), str)}
    taken: dict[str, str] = {}
    for at, one in _tables(document):
        for worker in names_in(one):
            if why := _wrong(worker, one, known, taken):
                report.add(("task", at, "segments"), f"workers: {why}")
            taken.setdefault(worker, _shown(one))
    chains = document.get("chain", [])
    for at, chain in enumerate(chains if isinstance(chains, list) else []):
        named = chain.get("tasks") if isinstance(chain, dict) else None
        for name in named if isinstance(named, list) else []:
            if isinstance(name, str) and name in taken:
                report.add(("chain", at, "tasks"), f"tasks: {name} is a worker of {taken[name]}: name that task")


def _wrong(worker: str, task: Document, known: dict[str, Document], taken: dict[str, str]) -> str:
    if worker not in known:
        return f"no [[task]] is called {quoted(worker)}"
    if worker == task.get("name"):
        return f"{worker} cannot be its own worker"
    if worker in taken:
        return f"{worker} is a worker of {taken[worker]} already"
    if next(names_in(known[worker]), None):
        return f"{worker} has workers itself: no bound is known for nested forks"
    return ""


def joined(tasks: Sequence[Task], forks: Sequence[Fork]) -> tuple[Task, ...]:
    """The tasks, in which each member of a group has the GPU priority of the task that starts the group's workers."""
    levels = {name: task.segment_priority for task in tasks for f in forks if f.task == task.name for name in f.members}
    return tuple(replace(task, gpu_priority=levels.get(task.name, task.gpu_priority)) for task in tasks)

# SPDX-License-Identifier: GPL-2.0
"""Resources of a taskset file, each held by one task at a time, and their critical sections."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.model import Protocol, Resource, Section, Task
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted
from gpurt.types import Document


def read_resources(
    tables: Sequence[tuple[int, Document]], tasks: Sequence[Task], report: Mistakes
) -> tuple[Resource, ...]:  # fmt: skip
    """The resources of tables whose fields are right; reports contradictions between resources and tasks."""
    known = {task.name: task for task in tasks}
    found = []
    for at, values in tables:
        one = Resource(values["name"], Protocol(values["protocol"]), tuple(
            Section(section["task"], section["time"], section.get("times", 1)) for section in values["sections"]
        ))  # fmt: skip
        _check(one, known, ("resource", at, "sections"), report)
        found.append(one)
    for task in tasks:
        _check_room(task, found, report)
    return tuple(found)


def _check(one: Resource, known: dict[str, Task], path: Where, report: Mistakes) -> None:
    """Each section names a task and fits into one of its CPU segments; all are on one CPU unless tasks spin."""
    cpus: dict[int, str] = {}
    for at, section in enumerate(one.sections):
        where, name = (*path, at), section.task
        if name not in known:
            report.add(where, f"sections: no [[task]] is called {quoted(name)}")
            continue
        cpus.setdefault(known[name].cpu, name)
        longest = max((s.time.worst for s in known[name].cpu_segments), default=0)
        if section.time > longest:
            report.add(where, f"sections: a section is a part of a CPU segment, and {name} has none that is so long")
    if len(cpus) > 1 and one.protocol is not Protocol.SPIN:
        first, other = list(cpus.values())[:2]
        why = f"{first} and {other} are on different CPUs"
        report.add(path, f'sections: {why}: protocol {one.protocol.value} is for one CPU, "spin" for several')


def _check_room(task: Task, resources: Sequence[Resource], report: Mistakes) -> None:
    total = sum(s.time * s.times for one in resources for s in one.sections if s.task == task.name)
    if total > task.cpu_time:
        report.add(("resource",), f"sections of {task.name} take longer together than its CPU segments")

# SPDX-License-Identifier: GPL-2.0
"""Chains of tasks in a taskset file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.model import Chain, Task
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted

LIMITS = ("max_reaction", "max_age", "max_age_at_output")
#: The links that no bound is about, and what to write instead.
TRIGGERED = (
    'links: no bound is built for "triggered" links; a task with releases of its own, which reads the last value, '
    'has a link "sampled"'
)


def read(tables: Sequence[tuple[int, dict[str, Any]]], tasks: Sequence[Task], report: Mistakes) -> tuple[Chain, ...]:
    """The chains of tables whose fields are right; reports what these say wrong of the tasks."""
    known = {task.name: task for task in tasks}
    return tuple(made for at, values in tables if (made := _made(values, known, ("chain", at), report)))


def _made(values: dict[str, Any], known: dict[str, Task], path: Where, report: Mistakes) -> Chain | None:
    before, names = len(report.problems), values["tasks"]
    _check_tasks(names, known, path, report)
    links = values.get("links", ["sampled"] * (len(names) - 1))
    if len(links) != len(names) - 1:
        report.add((*path, "links"), f"links: {len(names)} tasks have {len(names) - 1} links, got {len(links)}")
    if "triggered" in links:
        report.add((*path, "links"), TRIGGERED)
    if len(report.problems) > before:
        return None
    event = values.get("stimulus") == "event"
    ages = any(values.get(limit) for limit in ("max_age", "max_age_at_output"))
    for name in names[1:] if event and not ages else names:
        if known[name].longest_gap is None:
            needed = 'its [[task]] needs releases = "periodic" or max_period'
            report.add(path, f"{name} is sporadic, and may be silent for ever: {needed}")
    limits = [values.get(limit) for limit in LIMITS]
    return None if len(report.problems) > before else Chain(values["name"], tuple(names), event, *limits)


def _check_tasks(names: list[str], known: dict[str, Task], path: Where, report: Mistakes) -> None:
    """A chain is of real-time tasks, each once: what goes in a circle has no end."""
    where = (*path, "tasks")
    if len(names) < 2:
        report.add(where, "tasks: a chain has at least two tasks")
    for at, name in enumerate(names):
        if name not in known:
            report.add(where, f"tasks: no [[task]] is called {quoted(name)}")
        elif name in names[:at]:
            report.add(where, f"tasks: {name} is in the chain twice: a loop has no end, write a chain for each round")
        elif known[name].best_effort:
            report.add(where, f"tasks: {name} is best effort: nothing is known of when it ends")

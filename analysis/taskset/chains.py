# SPDX-License-Identifier: GPL-2.0
"""Chains of tasks in a taskset file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from analysis.model import Chain, Task
from analysis.model.relations import beginnings, releases
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted, time
from gpurt.types import Document, TomlValue
from gpurt.units import exact_ms

LIMITS = ("max_reaction", "max_age", "max_age_at_output")
#: The keys of spans in segments; partitions.placed_in treats the spans of copies and kernels.
SPANS = ("cpu", "misc", "gpu")


def with_least_times(document: Document) -> Document:
    """The tables of a file.  A task whose end releases another task gets the best case 0 where the file states none.

    With the worst case as its best case, the released task's jobs would seem further apart than they can be.
    """
    chains = [one for one in _list(document, "chain") if isinstance(one, dict)]
    links = [pair for one in chains for pair in zip(_list(one, "tasks"), _list(one, "links"), strict=False)]
    producers = [name for name, link in links if link == "triggered"]
    tasks = [_unhurried(one) if isinstance(one, dict) and one.get("name") in producers else one
             for one in _list(document, "task")]  # fmt: skip
    return {**document, "task": tasks} if producers and tasks else document


def _unhurried(task: Document) -> Document:
    segments = [{key: _span(key, value) for key, value in one.items()} if isinstance(one, dict) else one
                for one in _list(task, "segments")]  # fmt: skip
    return {**task, "segments": segments} if segments else task


def _span(key: str, value: TomlValue) -> TomlValue:
    if key not in SPANS or (isinstance(value, dict) and value.keys() != {"worst"}):
        return value
    worst = value["worst"] if isinstance(value, dict) else value
    return value if time().read(worst, (), Mistakes()) is None else {"worst": worst, "best": "0ns"}


def _list(table: Document, key: str) -> list[TomlValue]:
    value = table.get(key)
    return value if isinstance(value, list) else []


def read_chains(tables: Sequence[tuple[int, Document]], tasks: Sequence[Task], report: Mistakes) -> tuple[Chain, ...]:
    """The chains of tables whose fields are right; reports contradictions between chains and tasks."""
    known = {task.name: task for task in tasks}
    made = [(at, one) for at, values in tables if (one := _made(values, known, ("chain", at), report))]
    chains = tuple(one for _, one in made)
    _check_together(chains, [at for at, _ in made], known, report)
    return chains


def _made(values: Document, known: dict[str, Task], path: Where, report: Mistakes) -> Chain | None:
    before, names = len(report.problems), values["tasks"]
    _check_tasks(names, known, path, report)
    links = values.get("links", ["sampled"] * (len(names) - 1))
    if len(links) != len(names) - 1:
        report.add((*path, "links"), f"links: {len(names)} tasks have {len(names) - 1} links, got {len(links)}")
    if len(report.problems) > before:
        return None
    triggered = tuple(name for name, link in zip(names[1:], links, strict=True) if link == "triggered")
    for producer, consumer in pairwise(names):
        if consumer in triggered:
            _check_trigger(known[producer], known[consumer], path, report)
    limits = {limit: values.get(limit) for limit in LIMITS}
    if len(report.problems) > before:
        return None
    return Chain(values["name"], tuple(names), values.get("stimulus") == "event", triggered=triggered, **limits)


def _check_trigger(producer: Task, consumer: Task, path: Where, report: Mistakes) -> None:
    """Each job of the producer releases one of the consumer, so both have one period; the consumer has no arrivals."""
    where, what = (*path, "links"), f"{consumer.name} is released by the end of {producer.name}"
    if consumer.period != producer.period:
        report.add(where, f"links: {what}, and so has its period, {exact_ms(producer.period)}")
    if consumer.jitter or consumer.max_period is not None:
        report.add(where, f"links: {what}, which says when: it has neither jitter nor releases nor max_period")


def _check_together(
    chains: Sequence[Chain], at: Sequence[int], known: dict[str, Task], report: Mistakes
) -> None:  # fmt: skip
    """All chains agree on triggered links; these form no circle, and all that lead to one task begin with one task."""
    released = releases(chains)
    roots = beginnings(released)
    for number, chain in zip(at, chains, strict=True):
        path: Where = ("chain", number)
        for producer, consumer in pairwise(("", *chain.tasks)):
            of = released.get(consumer, ())
            if consumer not in chain.triggered and of and producer in ("", *of):
                text = f"links: {consumer} is released by {of[0]}, so that its link is triggered here, too"
                report.add((*path, "links"), text)
            if consumer in chain.triggered and consumer in roots[consumer]:
                report.add((*path, "links"), f"links: {consumer} is released by itself: a loop has no end")
            elif consumer in chain.triggered and len(roots[consumer]) > 1:
                first, *_, last = sorted(roots[consumer])
                why = f"{consumer} is released by jobs that begin with {first} and with {last}, which come as they like"
                report.add((*path, "links"), f'links: {why}: all but those of one are "sampled"')
        first_counts = not chain.event or chain.max_age is not None or chain.max_age_at_output is not None
        for name in chain.tasks if first_counts else chain.tasks[1:]:
            root = min(roots.get(name, {name}))
            if name not in chain.triggered and known[root].longest_gap is None:
                needed = 'its [[task]] needs releases = "periodic" or max_period'
                report.add(path, f"{root} is sporadic, and may be silent for ever: {needed}")


def _check_tasks(names: list[str], known: dict[str, Task], path: Where, report: Mistakes) -> None:
    """A chain consists of real-time tasks, each named once: a circle would have no end."""
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

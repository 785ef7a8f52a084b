# SPDX-License-Identifier: GPL-2.0
"""Chains of tasks in a taskset file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from analysis.model import Chain, Task
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Mistakes, quoted
from gpurt.types import Document
from gpurt.units import exact_ms

LIMITS = ("max_reaction", "max_age", "max_age_at_output")

def read(tables: Sequence[tuple[int, Document]], tasks: Sequence[Task], report: Mistakes) -> tuple[Chain, ...]:
    """The chains of tables whose fields are right; reports what these say wrong of the tasks."""
    known = {task.name: task for task in tasks}
    made = [(at, one) for at, values in tables if (one := _made(values, known, ("chain", at), report))]
    chains = tuple(one for _, one in made)
    _check_together(chains, [at for at, _ in made], report)
    return chains


def _made(values: Document, known: dict[str, Task], path: Where, report: Mistakes) -> Chain | None:
    before, names = len(report.problems), values["tasks"]
    _check_tasks(names, known, path, report)
    links = values.get("links", ["sampled"] * (len(names) - 1))
    if len(links) != len(names) - 1:
        report.add((*path, "links"), f"links: {len(names)} tasks have {len(names) - 1} links, got {len(links)}")
    if len(report.problems) > before:
        return None
    event = values.get("stimulus") == "event"
    ages = any(values.get(limit) for limit in ("max_age", "max_age_at_output"))
    triggered = tuple(name for name, link in zip(names[1:], links, strict=True) if link == "triggered")
    for name in names[1:] if event and not ages else names:
        if name not in triggered and known[name].longest_gap is None:
            needed = 'its [[task]] needs releases = "periodic" or max_period'
            report.add(path, f"{name} is sporadic, and may be silent for ever: {needed}")
    for producer, consumer in pairwise(names):
        if consumer in triggered:
            _check_trigger(known[producer], known[consumer], path, report)
    limits = {limit: values.get(limit) for limit in LIMITS}
    if len(report.problems) > before:
        return None
    return Chain(values["name"], tuple(names), event, triggered=triggered, **limits)


def _check_trigger(producer: Task, consumer: Task, path: Where, report: Mistakes) -> None:
    """A job for each of the producer's: its period, and no arrivals of its own."""
    where, what = (*path, "links"), f"{consumer.name} is released by the end of {producer.name}"
    if consumer.period != producer.period:
        report.add(where, f"links: {what}, and so has its period, {exact_ms(producer.period)}")
    if consumer.jitter or consumer.max_period is not None:
        report.add(where, f"links: {what}, which says when: it has neither jitter nor releases nor max_period")


def _check_together(chains: Sequence[Chain], at: Sequence[int], report: Mistakes) -> None:
    """One task releases another one, in all chains alike, and no tasks release each other."""
    released: dict[str, str] = {}
    for number, chain in zip(at, chains, strict=True):
        where = ("chain", number, "links")
        for producer, consumer in pairwise(chain.tasks):
            if consumer in chain.triggered and released.setdefault(consumer, producer) != producer:
                both = f"{released[consumer]} and {producer} both release {consumer}"
                report.add(where, f"links: {both}: no bound is known")
            elif consumer in chain.triggered and [*released.values()].count(producer) > 1:
                report.add(where, f"links: {producer} releases several tasks: no bound is known")
    for number, chain in zip(at, chains, strict=True):
        for name in chain.tasks:
            if name in released and name not in chain.triggered:
                text = f"links: {name} is released by {released[name]}, so that its link is triggered here, too"
                report.add(("chain", number, "links"), text)
        at_, seen = chain.tasks[-1], set[str]()
        while at_ in released and at_ not in seen:
            seen.add(at_)
            at_ = released[at_]
        if at_ in seen:
            report.add(("chain", number, "links"), f"links: {at_} is released by itself: a loop has no end")


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

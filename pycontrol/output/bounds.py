# SPDX-License-Identifier: GPL-2.0
"""Bounds as text: a table for each test, and the parts of a bound."""

from __future__ import annotations

from analysis.answers.verdict import beyond, no_proof, unlike_the_file
from analysis.model import Taskset
from analysis.rta import BestEffort, Bound, Failure, Result, Test
from pycontrol.output import render
from pycontrol.output.render import bound, ms, room


def _headed(test: Test, result: Result, system: Taskset) -> str:
    """The verdict of one test: the file's system counts as schedulable only if the test proves that."""
    if not result.schedulable:
        return "NOT PROVED"
    doubts = no_proof(test, system) or beyond(test, system, result) or unlike_the_file(test, system)
    return "every task is in time" if doubts else "schedulable"


def tabulated(test: Test, result: Result, system: Taskset) -> str:
    """A line for each task, and why tasks have no bound."""
    rows = []
    for name, verdict in result.verdicts.items():
        if isinstance(verdict, Bound):
            rows.append((name, bound(verdict.wcrt), ms(verdict.deadline), room(verdict.slack), "yes"))
        elif isinstance(verdict, Failure):
            rows.append((name, "-", ms(verdict.deadline), "-", "not proved"))
        else:
            rows.append((name, "-", "-", "-", "best effort"))
    lines = [f"{test.name} ({test.title}; {test.source}): {_headed(test, result, system)}"]
    if test.doubt:
        lines.append(f"  {test.doubt}")
    lines.append(render.table(("task", "WCRT ms", "deadline ms", "slack ms", "in time"), rows))
    if result.units:
        lines.append("  units of the GPU: " + ", ".join(f"{name} {units}" for name, units in result.units.items()))
    return "\n".join([*lines, *_causes(result)])


def _causes(result: Result) -> list[str]:
    """Why tasks have no bound: each cause once, with the tasks whose bounds depend on it."""
    lines = []
    for cause in result.causes:
        lines.append(f"  {cause}")
        if after := [one.task for one in result.failures if one is not cause and result.root(one) is cause]:
            lines.append(f"  no bound of {', '.join(after)} either, because {cause.task} has none")
    return lines


def explained(test: Test, result: Result, task: str) -> str:
    """The parts of a task's bound."""
    verdict = result.verdicts[task]
    if isinstance(verdict, Failure) and not verdict.terms:
        return f"{test.name}: {verdict}"
    if isinstance(verdict, BestEffort):
        return f"{test.name}: {task} is best effort: nothing is guaranteed to it"
    rows = [(term.kind.value, term.source or "", bound(term.amount), term.lemma) for term in verdict.terms]
    if isinstance(verdict, Bound):
        head, total = task, verdict.wcrt
        left = f"deadline {ms(verdict.deadline)}, slack {room(verdict.slack)}"
    else:
        head, total = str(verdict), sum(term.amount for term in verdict.terms)
        left = f"in a window as long as the deadline, {ms(verdict.deadline)}"
    rows.append(("total", "", bound(total), left))
    warning = f"{test.doubt}\n" if test.doubt else ""
    return f"{test.name}: {head}\n{warning}" + render.table(("part", "caused by", "ms", "from"), rows)



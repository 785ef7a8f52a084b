# SPDX-License-Identifier: GPL-2.0
"""Proofs about another system than the file's: never a yes, but useful to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.answers.verdict import beyond, no_proof, passed, unlike_the_file
from analysis.model import Taskset
from analysis.model.conflicts import under
from analysis.rta import Result, Test
from gpurt.enums import Policy


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A system in which every deadline would hold.  ``cure``: how to make the file describe it; empty if unknown."""

    test: str
    system: str
    cure: str


def of_test(test: Test, taskset: Taskset) -> Elsewhere | None:
    """The test's system if it differs from the file's; else None."""
    how = unlike_the_file(test, taskset)
    return Elsewhere(test.name, how, ", ".join(_cures(test, taskset))) if how else None


def named_elsewhere(results: Sequence[tuple[Test, Result]], taskset: Taskset) -> tuple[str, list[Elsewhere]]:
    """Why none of these results proves the file's system (empty if one does), and the other systems that some prove."""
    reasons: list[str] = []
    others: list[Elsewhere] = []
    for test, result in results:
        why = no_proof(test, taskset) or result.why or beyond(test, taskset, result)
        if not why and (other := of_test(test, taskset)):
            others.append(other)
            why = another(test, other.system)
        reasons.append(why)
    return "" if "" in reasons else "; ".join(dict.fromkeys(reasons)), others


def another(test: Test, how: str) -> str:
    """The sentence that a test is for another system than the file's."""
    return f"{test.name} is about {how}: the file's system is another one"


def of_policies(taskset: Taskset) -> Iterator[Elsewhere]:
    """The other policies of the hosts under which the unchanged taskset is schedulable."""
    for policy in Policy.words():
        if policy == taskset.platform.policy or (one := under(taskset, policy)) is None:
            continue
        if (test := passed(one)) is not None:
            yield Elsewhere(test.name, f"policy {policy}", ", ".join((_says(policy), *_plans(taskset))))


def _says(policy: str) -> str:
    return f'policy = "{policy}" in [platform]'


def _cures(test: Test, taskset: Taskset) -> Iterator[str]:
    """The statements that make the file describe the test's system; none if no file can describe it."""
    if taskset.policies != (test.policy,):
        yield _says(test.policy)
    users = [task for task in taskset.real_time if task.uses_gpu]
    if test.waiting and any(task.waiting is not test.waiting for task in users):
        yield f'waiting = "{test.waiting.value}" of each task'
    if test.assigns and not taskset.forks:
        yield "gpurt plan priorities --write"
    if not (test.rules.units or test.rules.jobs):
        yield from _plans(taskset)


def _plans(taskset: Taskset) -> Iterator[str]:
    """The plan command that writes the statement into the file, unless plans refuse such files."""
    if not taskset.forks:
        yield "or gpurt plan modes --write"

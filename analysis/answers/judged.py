# SPDX-License-Identifier: GPL-2.0
"""Whether every deadline of a taskset holds: the document of `gpurt analyze`, partly repeated by `gpurt report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from analysis.answers import compiled
from analysis.answers.beside import Beside, beside
from analysis.answers.chosen import about_others
from analysis.answers.elsewhere import named_elsewhere as of_tests
from analysis.answers.verdict import Answer, answer, beyond
from analysis.chains.bounds import Bounded, bound_of
from analysis.model import Assumed, Taskset
from analysis.rta import BestEffort, Bound, Result, Test, Verdict, yielding
from analysis.taskset import assumed
from gpurt.types import Document

#: Tests with their results.
Results: TypeAlias = list[tuple[Test, Result]]


class Answered(NamedTuple):
    """The answer about a taskset, with everything that is proved of it.

    ``data``: the command's document.  ``results``: the results in the document.  ``verdict``: None if tests were named.
    ``beside``: the known facts beside a no.  ``chains``: the bounds of chains by the test that the answer rests on.
    ``assumes``: facts that the file leaves out and that can make a yes wrong.
    """

    data: Document
    results: Results
    verdict: Answer | None
    beside: Beside
    chains: Sequence[Bounded] = ()
    assumes: Sequence[Assumed] = ()


def judge(
    file: Path, system: Taskset, named: Sequence[Test] = (), notes: Sequence[str] = (), *, terms: bool = True,
) -> Answered:  # fmt: skip
    """Whether every deadline of the taskset holds, by the named tests; by the file's policy if no test is named.

    ``notes``: remarks at the beginning of the document.  ``terms``: whether the document has the terms of each bound;
    there are about as many terms as pairs of tasks.
    """
    remarks, verdict = [*notes, *about_others(named, system)], None
    remarks += [system.unseen] if system.unseen else []
    remarks += yielding.remarks(system)
    if named:
        results = [(test, compiled.run_compiled(test, system)) for test in named]
        why, _ = of_tests(results, system)
    else:
        verdict = answer(system)
        why = verdict.why
        results = [(verdict.test, verdict.result)] if verdict.test and verdict.result else []
    found = beside(system, why, results, bool(named), "analyze")
    bounded = of_chains(system, results)
    assumes = assumed.of_tests(system, [test.waiting for test, _ in results] or [None])
    data = {
        "file": file, "policy": " and ".join(system.policies), "notes": remarks, "schedulable": not why,
        "why": why or None, "assumes": assumed.assumed_data(assumes), **found.data(),
        "tests": data_of(results) if terms else [], "chains": {one.chain.name: _chain(one) for one in bounded},
    }  # fmt: skip
    return Answered(data, results, verdict, found, bounded, assumes)


def of_chains(system: Taskset, results: Results) -> Sequence[Bounded]:
    """The chains' bounds by the first test by which all holds; else the first that bounds all tasks; else the first."""
    if not system.chains or not results:
        return [Bounded(chain, {}, "no test bounds its tasks") for chain in system.chains]
    bounding = [one for one in results if not one[0].doubt and one[1].schedulable] or results
    _, result = next((one for one in bounding if not beyond(one[0], system, one[1])), bounding[0])
    return [bound_of(chain, system, result) for chain in system.chains]


def _chain(one: Bounded) -> Document:
    return {
        "chain_tasks": one.chain.tasks, "holds": one.holds, "why": one.objection or None,
        **{
            key: {
                "bound_ns": latency.bound, "allowed_ns": latency.limit,
                "terms": [{"task": p.task, "amount_ns": p.amount, "lemma": p.lemma} for p in latency.parts],
            }
            for key, latency in one.latencies.items()
        },
    }  # fmt: skip


def data_of(results: Results) -> list[Document]:
    """The verdicts of tests as data."""
    return [_result(test, result) for test, result in results]


def _result(test: Test, result: Result) -> Document:
    return {
        "test": test.name, "policy": test.policy, "sound": test.sound, "note": test.note or None,
        "schedulable": result.schedulable, "units_by_task": result.units,
        "tasks": {name: _task(verdict) for name, verdict in result.verdicts.items()},
    }  # fmt: skip


def _task(verdict: Verdict) -> Document:
    """The verdict of a test on a task as data.  All keys are present; None: the verdict has no such value."""
    data = dict.fromkeys(("deadline_ns", "wcrt_ns", "slack_ns", "in_time", "reason", "why", "terms"))
    if isinstance(verdict, BestEffort):
        return {"best_effort": True, **data}
    terms = [{"part": t.kind, "caused_by": t.source, "amount_ns": t.amount, "lemma": t.lemma} for t in verdict.terms]
    data |= {"deadline_ns": verdict.deadline, "terms": terms or None}
    if isinstance(verdict, Bound):
        data |= {"wcrt_ns": verdict.wcrt, "slack_ns": verdict.slack, "in_time": True}
    else:
        data |= {"in_time": False, "reason": verdict.reason, "why": str(verdict)}
    return {"best_effort": False, **data}

# SPDX-License-Identifier: GPL-2.0
"""The command that judges the trace of a run: trace check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from analysis import taskset
from analysis.answers.chosen import about_others, beside_of, covering_test, tests
from analysis.answers.loading import analysable
from analysis.taskset import TasksetFile
from analysis.trace import Trace, load
from analysis.verdict import answer
from pycontrol.commands.options import FILE, JSON, TestName, command
from pycontrol.live import fit
from pycontrol.output import documents, observed, render
from pycontrol.run.check import TaskCheck, against, unbounded
from pycontrol.run.compared import compared
from pycontrol.run.subject import beyond_the_bounds


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt trace check run.json examples/case-study.toml --test gcaps-suspend

\b
Exit codes: 0 jobs of every real-time task were seen, each met its deadline and its bound, and nothing else was found;
1 otherwise, also if events were lost or the bounds do not speak of the run; 2 wrong usage; 3 a file is wrong, or the
trace is of another taskset."""
)
@click.argument("trace", type=click.Path(path_type=Path))
@FILE
@click.option("--test", "name", type=TestName(), metavar="NAME", help="Compare with the bounds of this test, too.")
@JSON
def check(trace: Path, file: Path, name: str | None, as_json: bool) -> int:
    """Compare a trace's response times with the deadlines, and with a test's bounds.

    The answer is yes only if nothing in the trace speaks against it.  Lost events, a jump of the clock, and whatever
    the file rules out (docs/watching.md) make the answer no.  A response above a bound of the file's, as `gpurt
    analyze` has it, makes the answer no, too.

    A trace of `gpurt trace record` names processes.  Process camera-13441 is the task whose name, or whose command's
    program, is camera.
    """
    test = tests((name,))[0] if name else None
    loaded = analysable(file, [test]) if test else taskset.load(file)
    recorded = load(trace)
    beyond = beyond_the_bounds(recorded, loaded, test) if test else ""
    seen, remarks = compared(trace, recorded, loaded, None if beyond else test)
    remarks = [*(about_others([test], loaded.taskset) if test else []), *remarks]
    lines = seen.lines
    found = fit.objections(loaded, fit.of_trace(recorded, loaded))
    proof = covering_test(loaded.taskset, name).why if name else ""
    apart = f"not compared with the bounds of {name}: {beyond}" if beyond else ""
    remarks = [*remarks, *([apart] if apart else []), *fit.lines(found)]
    missing = unbounded(lines, test) if test and not beyond else ""
    why = against(seen) or apart or fit.against(found) or proof or missing
    if not why and not name:
        why = _above(recorded, loaded, lines)
    known = beside_of(loaded.taskset, test, proof or missing, name, "check")
    render.note(*remarks, as_json=as_json)
    whole = {
        "file": file, "trace": trace, "test": name, "in_time": not why, "why": why or None, "comparable": not beyond,
        "tasks": observed.data(lines), "objections": fit.data(found), "notes": remarks,
        "findings": list(map(documents.finding, seen.findings)), **known.data(),
    }  # fmt: skip
    text = observed.text(lines, bounds=test is not None and not beyond)
    render.emit(whole, as_json, "\n".join([text, *([f"NO: {why}"] if why else []), *known.lines()]))
    return 1 if why else 0


def _above(recorded: Trace, loaded: TasksetFile, lines: Sequence[TaskCheck]) -> str:
    """The response above a bound of the file's, in words, where no test was named: `report` says no to it, too."""
    known = None if loaded.lacks else answer(loaded.taskset)
    if not known or not known.test or not known.result or beyond_the_bounds(recorded, loaded, known.test):
        return ""
    bounded = [replace(one, bound=known.result.wcrt(one.task)) for one in lines if not one.best_effort]
    above = next((one.task for one in bounded if one.above_bound), None)
    return f"{above} exceeded its bound of {known.test.name}" if above else ""



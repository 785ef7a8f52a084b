# SPDX-License-Identifier: GPL-2.0
"""The command that judges the trace of a run: trace check."""

from __future__ import annotations

from pathlib import Path

import click

from analysis import taskset
from analysis.answers.chosen import beside_of, tests
from analysis.answers.loading import analysable
from analysis.traces.trace import load_trace
from pycontrol.commands.options import FILE, JSON, TEST_NAME, command
from pycontrol.observe.judge.verdict import verdict
from pycontrol.output import render


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt trace check run.json examples/case-study.toml --test gcaps-suspend

\b
Exit codes: 0 jobs of every real-time task were seen, each met its deadline and its bound, and nothing else was found;
1 otherwise, also if events were lost or the bounds do not apply to the run; 2 wrong usage; 3 a file is wrong, or the
trace is of another taskset."""
)
@click.argument("trace", type=click.Path(path_type=Path))
@FILE
@click.option("--test", "name", type=TEST_NAME, metavar="NAME",
              help="Compare with the bounds of this test, not those of the file's policy.")  # fmt: skip
@JSON
def check_command(trace: Path, file: Path, name: str | None, as_json: bool) -> int:
    """Compare a trace's response times with the deadlines, and with a test's bounds.

    The answer is yes only if nothing in the trace speaks against it.  Lost events, a jump of the clock, and whatever
    the file rules out (docs/watching.md) make the answer no.  A response above a bound of the file's, as `gpurt
    analyze` has it, or of --test in its place, makes the answer no, too.

    A trace of `gpurt trace record` names processes.  Process camera-13441 is the task whose name, or whose command's
    program, is camera.
    """
    chosen = tests((name,)) if name else []
    seen = load_trace(trace)  # first, since it detects swapped files
    loaded = analysable(file, chosen, workers=True) if name else taskset.load(file)
    found = verdict(trace, seen, loaded, name)
    known = beside_of(loaded.taskset, next(iter(chosen), None), found.doubt, name, "check")
    render.note(*found.remarks, as_json=as_json)
    whole = {"file": file, "trace": trace, **found.data(), "notes": found.remarks, **known.data()}
    render.emit(whole, as_json, "\n".join([found.text(), *known.lines()]))
    return 1 if found.why else 0

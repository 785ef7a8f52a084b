# SPDX-License-Identifier: GPL-2.0
"""The command that bounds a file's tasks by any test, including tests that repeat papers: experiment bounds."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.answers import compiled
from analysis.answers.judged import data_of
from analysis.answers.loading import analysable
from analysis.papers import registry
from gpurt.errors import UsageError
from pycontrol.commands.options import FILE, JSON, TASK_NAME, Word, command
from pycontrol.output import render
from pycontrol.output.bounds import explained, tabulated


def _tests() -> dict[str, str | None]:
    return {name: test.title for name, test in registry.TESTS.items()}


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt experiment bounds examples/case-study.toml --test gcaps-suspend-printed
  gpurt experiment bounds examples/case-study.toml --test mpcp-suspend --explain dxtc

\b
No answer of `gpurt analyze` rests on a test that only a paper has.

\b
Exit codes: 0 each test bounds every task within its deadline; 1 one does not; 2 wrong usage; 3 the file is wrong.""",
)
@FILE
@click.option("--test", "names", type=Word("test", _tests), multiple=True, metavar="NAME",
              help="This test, not all of them; repeatable.")  # fmt: skip
@click.option("--explain", type=TASK_NAME, metavar="TASK", help="Show the parts of a task's bound.")
@JSON
def bounds_command(file: Path, names: tuple[str, ...], explain: str | None, as_json: bool) -> int:
    """Bound a file's tasks by tests of papers, printed, published or repaired (docs/readings.md)."""
    try:
        tests = [registry.find(name) for name in names] or list(registry.TESTS.values())
    except ValueError as error:
        raise UsageError(f"--test: {error}") from None
    system = analysable(file, tests, workers=True).taskset
    if explain is not None and explain not in {task.name for task in system}:
        raise UsageError(f"--explain: the file has no task {explain!r}")
    results = [(test, compiled.run_compiled(test, system)) for test in tests]
    shown = [explained(*one, explain) if explain else tabulated(*one, system) for one in results]
    render.emit({"file": file, "tests": data_of(results)}, as_json, "\n\n".join(shown))
    return 0 if all(result.schedulable for _, result in results) else 1

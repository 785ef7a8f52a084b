# SPDX-License-Identifier: GPL-2.0
"""The command that finds GPU priorities: plan priorities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

import click

from analysis.answers import compiled
from analysis.answers.beside import Beside
from analysis.answers.chosen import beside_of, covering_test
from analysis.answers.loading import rewritable
from analysis.answers.verdict import beyond
from analysis.rta import Test
from analysis.taskset.write import write_values
from gpurt.errors import TooLargeError, UsageError
from gpurt.text import filename
from gpurt.types import Document, DocumentView
from pycontrol.commands.options import FILE, JSON, TEST_NAME, command
from pycontrol.output import render


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan priorities set.toml
  gpurt plan priorities set.toml --test boosted-busy --write

\b
Exit codes: 0 the taskset is schedulable, with the priorities printed if any; 1 no assignment makes it so;
2 wrong usage; 3 the file is wrong."""
)
@FILE
@click.option("--test", "name", type=TEST_NAME, metavar="NAME",
              help="The test to pass; one for the file's policy and waiting modes.")  # fmt: skip
@click.option("--write", is_flag=True, help="Write the priorities into the file and change nothing else in it.")
@JSON
def priorities_command(file: Path, name: str | None, write: bool, as_json: bool) -> int:
    """Find GPU priorities by Audsley's method where the file's own fail the test."""
    loaded = rewritable(file, write).taskset
    test, why, notes = covering_test(loaded, name.removesuffix("+gpu-priority") if name else None)
    if test and not test.assignable and (name or not why):
        if name:
            raise UsageError(f"{test.name} assigns no GPU priorities; use --test with another, such as boosted-suspend")
        raise UsageError(
            f"{filename(file)}: policy is {test.policy}, for which no test assigns GPU priorities; "
            "`gpurt analyze` has the verdict, `gpurt plan modes` compares policies"
        )
    render.note(*notes, as_json=as_json)


    def refused(why: str, text: str) -> int:
        """Says why no priorities prove anything; returns the exit code."""
        found = beside_of(loaded, test, why, name, "plan priorities")
        data = {**_assigned(file, test, notes, why=why), **found.data()}
        render.emit(data, as_json, "\n".join([text, *found.lines()]))
        return 1

    if why or test is None:
        return refused(why, f"NOT PROVED: {why}")
    if (own := compiled.run_compiled(test, loaded)).schedulable:
        if why := beyond(test, loaded, own):
            return refused(why, f"NOT PROVED under {test.name}: {why}")
        text = f"schedulable under {test.name} with the priorities in the file: nothing to assign"
        render.emit(_assigned(file, test, notes), as_json, text)
        return 0
    try:
        found = test.assign(loaded)
    except ValueError as error:
        raise TooLargeError(f"{filename(file)}: {error}") from None
    if found.priorities is None:
        lines = [f"NOT PROVED under {test.name}: {found.why}", *(f"  {failure}" for failure in found.blocked)]
        return refused(str(found), "\n".join(lines))
    changed = loaded.with_gpu_priorities(found.priorities)
    result = compiled.run_compiled(test, changed)
    if why := result.why or beyond(test, changed, result):
        return refused(why, f"NOT PROVED under {test.name}: {why}")  # such as tasks of one priority that spin for ever
    if write:
        write_values(file, {"gpu_priority": found.priorities})
    tasks = {task.name: {"priority": task.priority, "gpu_priority": found.priorities[task.name]}
             for task in loaded if task.name in found.priorities}  # fmt: skip
    before = {task.name: task.segment_priority for task in loaded}
    rows = [(name, str(one["priority"]), str(before[name]), str(one["gpu_priority"])) for name, one in tasks.items()]
    text = "\n".join([
        f"schedulable under {test.name} with the GPU priorities in the last column",
        render.table(("task", "priority", "GPU priority now", "GPU priority"), rows),
        f"written to {filename(file)}" if write else "--write puts them into the file",
    ])  # fmt: skip
    render.emit(_assigned(file, test, notes, tasks, [file] if write else []), as_json, text)
    return 0


def _assigned(
    file: Path, test: Test | None, notes: Sequence[str], tasks: DocumentView = MappingProxyType({}),
    files: Sequence[Path] = (), why: str = "",
) -> Document:
    """The JSON document: ``tasks`` are those with a new GPU priority; ``files`` are the written files."""
    return {
        "file": file, "test": test.name if test else None, "schedulable": not why, "why": why or None, "tasks": tasks,
        "files": files, "notes": notes, **Beside().data(),
    }  # fmt: skip

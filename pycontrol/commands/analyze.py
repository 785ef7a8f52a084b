# SPDX-License-Identifier: GPL-2.0
"""The command that answers whether every deadline holds: analyze."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from analysis.answers.chosen import tests
from analysis.answers.judged import Results, judge
from analysis.answers.loading import analysable, modelled
from analysis.answers.verdict import Answer
from analysis.model import Taskset
from analysis.taskset.assumed import assumption_lines
from gpurt.errors import FileError, TasksetError, UsageError
from gpurt.text import filename, visible
from gpurt.types import Document
from pycontrol.commands.options import JSON, TASK_NAME, TEST_NAME, TIME, Given, command
from pycontrol.observe.fit.objection import Objection, against
from pycontrol.observe.fit.objection import data as data_of
from pycontrol.output import chains, render
from pycontrol.output.bounds import explained, tabulated


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt analyze examples/case-study.toml
  gpurt analyze examples/case-study.toml --test gcaps-busy --explain dxtc
  gpurt analyze examples/case-study.toml --region 400us
  gpurt analyze robot.toml --measured               with the cost of updates on this machine
  gpurt analyze robots/*.toml                       a line for each file; with --json a document a line

\b
Of several files the highest exit code counts.

\b
Exit codes: 0 every deadline holds under the file's policy and waiting modes (with --test: by a sound one of these);
1 that is not proved; 2 wrong usage; 3 the file is wrong; 4 no host, or one that has measured nothing.""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--test", "names", type=TEST_NAME, multiple=True, metavar="NAME",
              help="Run this test instead of those for the file's policy; repeatable.")  # fmt: skip
@click.option("--explain", type=TASK_NAME, metavar="TASK",
              help="Show the parts of a task's bound, and the lemma of each part.")  # fmt: skip
@click.option("--region", type=TIME, metavar="TIME",
              help="The longest thread block or copy chunk, which every preemption of the GPU may have to wait for, "
              "not the file's region.")  # fmt: skip
@click.option(
    "--measured",
    is_flag=True,
    help="Use as alpha the longest runlist update that the host has measured, and the file's theta.",
)
@click.option("--margin", type=Given(), metavar="PERCENT",
              help="With --measured: what to add to the longest update; 20% unless given, and then the host must have "
              "timed 1000 updates of each GPU.")  # fmt: skip
@JSON
@click.pass_obj
def analyze_command(
    device: str | None, files: tuple[Path, ...], names: tuple[str, ...], explain: str | None,
    region: int | None, measured: bool, margin: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Bound every task's worst-case response time, and say whether every deadline holds.

    The answer is for the policy in the file's [platform] and for the tasks' waiting modes.
    """
    if margin is not None and not measured:
        raise UsageError("--margin goes with --measured")
    if len(files) > 1 and explain:
        raise UsageError("--explain goes with one file")
    answered = partial(_answered, device=device, names=names, explain=explain, region=region, measured=measured,
                       margin=margin, terms=as_json)  # fmt: skip
    if len(files) == 1:
        data, text = answered(files[0])
        render.note(*data["notes"], as_json=as_json)
        render.emit(data, as_json, text)
        return 0 if data["schedulable"] else 1
    return max(_briefly(file, answered, as_json) for file in files)


def _briefly(file: Path, answered: Callable[[Path], tuple[Document, str]], as_json: bool) -> int:
    """Prints one line about one of several files; returns that file's exit code."""
    try:
        data, _ = answered(file)
    except (TasksetError, FileError) as error:
        render.say(f"gpurt: {error if isinstance(error, TasksetError) else visible(error)}", err=True)
        return error.exit_code
    if as_json:
        render.emit_line(data)
    else:
        said = "schedulable" if data["schedulable"] else f"NOT PROVED: {data['why']}"
        render.say(f"{filename(file)}: {said}")
    return 0 if data["schedulable"] else 1


def _answered(
    file: Path, *, device: str | None, names: Sequence[str], explain: str | None, region: int | None, measured: bool,
    margin: str | None, terms: bool,
) -> tuple[Document, str]:  # fmt: skip
    """The document about a file, with or without the bounds' ``terms``, and the same in words.  Raises GpurtError."""
    chosen = tests(names)
    loaded = modelled(file, workers=True) if measured else analysable(file, chosen, workers=True)
    if explain is not None and explain not in {one.name for one in (*loaded.taskset, *loaded.taskset.chains)}:
        raise UsageError(f"--explain: {filename(file)} has no task and no chain {explain!r}")
    notes, objections = list(loaded.notes), list[Objection]()
    if measured:
        # The import takes a third of an analysis's time, and only this option needs it.
        from pycontrol.measure import updates

        loaded, objections, remarks = updates.with_measured(loaded, device, margin)
        notes += remarks
    system = loaded.taskset
    if region is not None:
        system = replace(system, platform=replace(system.platform, region=region))
    with render.progress(0, "analyzing"):  # covers the search for a cure, which takes longer than a no
        data, results, verdict, found, bounded, assumes = judge(file, system, chosen, notes, terms=terms)
    if measured:
        data = _of_this_host(data, objections)
    named_chain = next((one for one in bounded if one.chain.name == explain), None)
    if named_chain and explain not in {t.name for t in loaded.taskset}:
        text = chains.explained_chain(named_chain)
    elif verdict is None:
        text, why = _shown(results, explain, system), data["why"]
        said = why and any(result.schedulable for _, result in results)  # a test that fails says why in its table
        text += f"\nNOT PROVED: {why}" if said else ""
    else:
        text = _shown(results, explain, system) if results else _said(verdict)
        passed = bool(verdict.why and verdict.result and verdict.result.schedulable)
        text += "\n" + _said(verdict) if passed else ""
    text += "" if explain or not bounded else "\n" + chains.tabulated_chains(bounded, text)
    text += f"\nNOT PROVED of this host: {doubt}" if (doubt := against(objections)) else ""
    text = "\n".join(
        [text, *found.lines(), *(assumption_lines(assumes) if data["schedulable"] and not explain else ())]
    )
    return data, text


def _of_this_host(data: Document, objections: Sequence[Objection]) -> Document:
    """The document if alpha is measured: nothing is proved if an objection defeats the bounds."""
    doubt = against(objections)
    return {
        **data, "schedulable": data["schedulable"] and not doubt, "why": data["why"] or doubt or None,
        "objections": data_of(objections),
    }  # fmt: skip


def _shown(results: Results, explain: str | None, system: Taskset) -> str:
    """A table for each test, or the parts of a task's bound."""
    if explain:
        return "\n\n".join(explained(test, result, explain) for test, result in results)
    return "\n\n".join(tabulated(test, result, system) for test, result in results)


def _said(verdict: Answer) -> str:
    """The verdict in one line."""
    if verdict.schedulable:
        return f"schedulable under policy {verdict.policy}"
    return f"NOT PROVED under policy {verdict.policy}: {verdict.why}"

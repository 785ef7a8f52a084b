# SPDX-License-Identifier: GPL-2.0
"""The command that gives running processes the priorities of a taskset file: apply."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from analysis import taskset
from analysis.answers.loading import refuse
from analysis.model import Taskset
from analysis.verdict import answer
from gpurt.errors import RefusedError, UsageError
from pycontrol.commands.options import FILE, JSON, Output, command
from pycontrol.live import applied, fit
from pycontrol.live.control import connect
from pycontrol.live.hints import SchedNode
from pycontrol.live.objection import Objection
from pycontrol.live.settings import settings_of
from pycontrol.output import render
from pycontrol.plan.admission import standing
from pycontrol.plan.admit import admit


@command(
    epilog="""\b
Examples:
  gpurt apply set.toml
  gpurt apply set.toml --ignore-missing        when the machine starts, before the programs do
  gpurt apply set.toml --admit task.toml -o set.toml

\b
With --admit, TASK is a file with one [[task]],
as for gpurt plan add.  It gets a place beside the tasks of FILE if all of
them keep their guarantees on this host as it is: no partition changes its size.  Then OUT gets FILE with the task, and
processes get their priorities.  Start the task's program before or after that.

\b
Exit codes: 0 every real-time GPU task was found and set, with --admit: the task is admitted; 1 it is not, or some
were not running, or nothing was set: the taskset is not schedulable, or the host is not what the file says (the table
of objections in docs/output.md); 2 wrong usage; 3 a file is wrong, or has slices that nvgpu does not take;
4 no host; 5 not permitted."""
)
@FILE
@click.option("--force", is_flag=True,
              help="Also if it is not proved that every deadline holds on this host.")  # fmt: skip
@click.option("--ignore-missing", is_flag=True, help="Tasks that are not running are no failure.")
@click.option("--admit", "task", type=click.Path(path_type=Path), metavar="TASK",
              help="Admit one more task to what runs; goes with -o.")  # fmt: skip
@click.option("-o", "--output", type=Output(), metavar="OUT",
              help="With --admit: write the taskset file with the task there, which may be FILE.")  # fmt: skip
@JSON
@click.pass_obj
def apply(
    device: str | None, file: Path, force: bool, ignore_missing: bool, task: Path | None, output: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Give running processes the GPU priorities of a taskset file, matched by the task's command or name.

    On a Tegra also the slices and interleave levels of their partitions.  All of it is set, or nothing.
    """
    if task or output:
        return _admit(device, file, task, output, force or ignore_missing, as_json)
    loaded = taskset.load(file)
    _check_domains(loaded.taskset)
    if not force:
        refuse(loaded)
    verdict = answer(loaded.taskset)
    proof = verdict.why and standing(loaded.taskset, verdict.why)
    why = f"under policy {verdict.policy}, {proof}" if proof else ""
    if why and not force:
        return _refuse(file, verdict.policy, proof, f"not applied: {why}", [], as_json)
    with connect(device) as control, ExitStack() as stack:
        host = fit.ask(control, loaded)
        matched = fit.matched(loaded, host)
        priorities = {pid: task.segment_priority for pid, task in matched.items()}
        found = fit.objections(loaded, host.given(priorities))
        other = fit.against(found)
        if other and not force:
            return _refuse(file, verdict.policy, other, f"not applied: {other}", found, as_json)
        settings = [] if all(gpu.emulated for gpu in host.gpus) else list(settings_of(file, matched))
        node = stack.enter_context(SchedNode()) if settings else None
        applied.apply(control, host.clients, priorities, settings, node)
    users = [task for task in loaded.taskset if task.uses_gpu]
    pids = {task.name: sorted(pid for pid, one in matched.items() if one is task) for task in users}
    rows = [(task.name, str(task.segment_priority), ", ".join(map(str, pids[task.name])) or "not running")
            for task in users]  # fmt: skip
    lines = [render.table(("task", "GPU priority", "pid"), rows) if rows else "no task uses the GPU: nothing to set"]
    lines += [f"applied by force, without a proof: {reason}" for reason in (why, other) if reason]
    doubt = proof or other or None
    data = {task.name: {"gpu_priority": task.segment_priority, "pids": pids[task.name]} for task in users}
    notes = fit.lines(found)
    render.note(*notes, as_json=as_json)
    whole = {
        "file": file, "policy": verdict.policy, "schedulable": not doubt, "why": doubt, "applied": True,
        "tasks": data, "objections": fit.data(found), "notes": notes,
    }  # fmt: skip
    render.emit(whole, as_json, "\n".join(lines))
    return 0 if ignore_missing or all(pids[task.name] for task in users if not task.best_effort) else 1


def _admit(
    device: str | None, file: Path, task: Path | None, output: Path | None, others: bool, as_json: bool
) -> int:  # fmt: skip

    if not task or not output:
        raise UsageError("--admit and -o go together: the next admission has to know of this one")
    if others:
        raise UsageError("--admit goes without --force and --ignore-missing")
    return admit(device, file, task, output, as_json)


def _check_domains(taskset: Taskset) -> None:
    """Raises RefusedError for a file with scheduling domains: only a process itself can put its TSGs into one."""
    for part in taskset.partitions:
        if part.domain is not None:
            why = "TSGs of a running program cannot be put into a domain from outside; start it with `gpurt run`"
            raise RefusedError(f"partition {part.name}: domain {part.domain}: {why}")


def _refuse(file: Path, policy: str, why: str, text: str, found: Sequence[Objection], as_json: bool) -> int:
    """Says why nothing was applied; the exit code.  ``found``: all objections to the host, if it was asked."""
    notes = [one for one in fit.lines(found) if one != why]
    whole: dict[str, Any] = {"schedulable": False, "why": why, "applied": False, "tasks": {}, "notes": notes}
    render.note(*notes, as_json=as_json)
    whole |= {"file": file, "policy": policy, "objections": fit.data(found)}
    render.emit(whole, as_json, f"{text}\nuse --force to apply it anyway")
    return 1

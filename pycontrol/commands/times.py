# SPDX-License-Identifier: GPL-2.0
"""The command that measures the times of a program's segments: measure times."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from gpurt.errors import FileError, RuntimeFailure, UsageError
from gpurt.files import check_writable, regular, written
from gpurt.text import visible
from gpurt.types import Document
from pycontrol.act.run import preload
from pycontrol.commands.options import JSON, TIME, Output, command
from pycontrol.ending import raised_signals
from pycontrol.link.control import connect
from pycontrol.machine import clocks
from pycontrol.machine.placement import fifo_permitted
from pycontrol.machine.rights import fifo_refusal
from pycontrol.measure.campaign import measure_program
from pycontrol.measure.conditions import Condition, Here, about, choose, left_out
from pycontrol.measure.entry import Account, entry, percent, run_remarks
from pycontrol.measure.plan import PLACE, plan_runs
from pycontrol.measure.run import ProfileOptions
from pycontrol.measure.summary import MeasuredTime as Seen
from pycontrol.measure.summary import chances, read_margin
from pycontrol.measure.summary import summary_times as seen_times
from pycontrol.output import render

STDERR = 2
CONDITIONS = ("quiet", "cold", "cpu", "gpu", "beside")


@command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  gpurt measure times --priority 20 -- ./detector --frames 100
  gpurt measure times --runs 60 --input day.bin --input night.bin -o detector.toml -- ./detector --frames 100 {}
  gpurt measure times --auto --beside './mapper --loop' -- ./unmodified-cuda-program

\b
Exit codes: 0 all runs were made; 2 wrong usage; 3 the entry cannot be written; 4 no host;
5 the priority, or a condition that was named, cannot be had here;
6 a run failed, had no GPU segment, or has segments that correspond to no others'; 130 Ctrl-C or SIGHUP; 143 SIGTERM.
If a run fails after complete ones, or at such a signal, the entry of those that were complete is written.""",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--runs", type=click.IntRange(1), metavar="N",
              help="How often to run it; 20 unless given, or once for each input under each condition.")  # fmt: skip
@click.option("--input", "inputs", multiple=True, metavar="TEXT",
              help="Put this for each {} of the command, in some of the runs; may be repeated.")  # fmt: skip
@click.option("--condition", "named", multiple=True, type=click.Choice(CONDITIONS),
              help="Only runs under this condition; may be repeated. All that can be made unless given.")  # fmt: skip
@click.option("--beside", metavar="COMMAND", help="A program to run beside it: condition beside.")
@click.option("--margin", default="20%", show_default=True, metavar="PERCENT",
              help="Write the largest observed time and so much more; the smallest likewise less.")  # fmt: skip
@click.option("--priority", type=click.IntRange(1, 99), help="SCHED_FIFO priority of the program, not its own.")
@click.option("--auto", is_flag=True, help="An unmodified program: its GPU work becomes segments (gpurt run --auto).")
@click.option("--segments", "per_job", type=click.IntRange(1), metavar="N",
              help="GPU segments of each job, for a program that announces no jobs; 1 unless given.")  # fmt: skip
@click.option("--task", metavar="NAME", help="Of a program that announces jobs of several tasks: which one.")
@click.option("--duration", type=TIME, metavar="TIME", help="End each run after so long by SIGINT.")
@click.option("--period", metavar="TIME", type=TIME,
              help="Period to write into the entry; from the releases that were seen unless given.")  # fmt: skip
@click.option("-o", "--output", type=Output(), help="Write the entry to this file instead of stdout.")
@JSON
@click.pass_obj
def times_command(
    device: str | None, command: tuple[str, ...], runs: int | None, inputs: tuple[str, ...], named: tuple[str, ...],
    beside: str | None, margin: str, priority: int | None, auto: bool, per_job: int | None,
    task: str | None, duration: int | None, period: int | None,
    output: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run a program many times, with inputs and conditions varied, and write its segments' observed times as a task.

    Observed times are no bound: docs/manual/measure-times.md.  The program's own stdout goes to stderr, unless all that
    is printed goes to a file (-o without --json).
    """
    _check(command, inputs, duration, period)
    share = read_margin(margin)
    if output:
        _check_output(output)
    here = _here(device, priority, beside)
    conditions, without = choose(named, here)
    planned = plan_runs(runs, inputs, conditions)
    theta = max(gpu.theta_ns for gpu in here.gpus) if all(gpu.emulated for gpu in here.gpus) else None
    with raised_signals():
        options = ProfileOptions(
            command, device, theta, duration, _library(command[0]) if auto else "", priority or 0,
            task, per_job, None if output and not as_json else STDERR,
        )  # fmt: skip
        with render.progress(len(planned), "measuring") as bar:
            measured = measure_program(planned, options, here, bar.update)
    account = Account(
        measured.results[0].jobs.task or Path(command[0]).name, period, command, planned, measured.results,
        measured.stopped, share, here, without, clocks.look(), clocks.nvidia_now(),
    )  # fmt: skip
    found = seen_times(measured.results, share)
    text = entry(account, found) + "\n"
    if output:
        _check_output(output)  # another command may have written it meanwhile
        with written(output) as file:
            file.write(text.encode())
    notes = _notes(account, found)
    render.note(*notes, as_json=as_json)
    code = measured.interrupted or (RuntimeFailure.exit_code if measured.stopped else 0)
    if as_json or not output:
        data = {**_data(account, found, bool(measured.interrupted)), "exit_code": code, "entry": text, "notes": notes,
                "files": [output] if output else []}  # fmt: skip
        render.emit(data, as_json, text.rstrip("\n"))
    return code


def _check_output(output: Path) -> None:
    """Raises FileError if the entry cannot be written to that file, or would replace something."""
    check_writable(output)
    if regular(output) and output.exists() and output.stat().st_size:
        name = visible(output)
        raise FileError(f"{name}: has something, which would be lost; name another file with -o, or remove it")


def _check(command: Sequence[str], inputs: Sequence[str], duration: int | None, period: int | None) -> None:
    """Raises UsageError if the options make no sense together."""
    if inputs and not any(PLACE in word for word in command):
        raise UsageError(f"--input needs a {PLACE} in the command, where the input goes")
    for option, time in (("--duration", duration), ("--period", period)):
        if time == 0:
            raise UsageError(f"{option}: a time of 0 makes no sense")


def _here(device: str | None, priority: int | None, beside: str | None) -> Here:
    """What conditions depend on.  Raises DeviceError: no host; RefusedError: no such priority; UsageError."""
    try:
        words = shlex.split(beside or "")
    except ValueError as error:
        raise UsageError(f"--beside: {error}") from None
    if beside is not None and not words:
        raise UsageError("--beside names no program")
    with connect(device) as control:
        gpus = control.gpus()
    if priority and not fifo_permitted(priority):
        raise fifo_refusal(priority)
    return Here(gpus, priority, words, clocks.look())


def _library(program: str) -> str:
    """The value of LD_PRELOAD for a program under the preload library."""
    library = preload.find_preload()
    preload.warn(program, library)
    return preload.environment(library, None)["LD_PRELOAD"]


def _notes(account: Account, found: Sequence[Seen]) -> list[str]:
    """Remarks: what is missing, and which times still grow."""
    runs = len(account.results)
    return [
        *([f"{account.stopped}; complete runs, of which the entry is: {runs}"] if account.stopped else []),
        *(f"not measured: {one}" for one in left_out(account.without)), *run_remarks(account), chances(runs),
        *(warning for one in found for warning in one.warnings),
    ]  # fmt: skip


def _data(account: Account, found: Sequence[Seen], interrupted: bool) -> Document:
    """For JSON: what was planned, done and seen."""
    results = account.results
    extremes = {
        f"{what}_{which}_ns": most(getattr(one, which) for one in found if one.what == what)
        for what in {one.what for one in found if one.segment} for which, most in (("worst", max), ("best", min))
    }  # fmt: skip
    conditions = [
        {"name": one.value, "runs": sum(run.planned.condition is one for run in results),
         "about": about(one, account.here), "reason": account.without.get(one)} for one in Condition
    ]  # fmt: skip
    executions = [
        {"run_number": one.planned.number, "under": one.planned.condition, "argument": one.planned.given,
         "jobs": len(one.jobs.jobs), "segments": len(one.segments), "cpu_ns": one.cpu, "wall_ns": one.wall}
        for one in results
    ]  # fmt: skip
    return {
        "program": account.command, "task": account.name, "complete": not account.stopped, "interrupted": interrupted,
        "why": account.stopped or None,
        "runs": len(results), "planned_runs": len(account.plan),
        "margin": percent(account.margin), "segments": sum(len(one.segments) for one in results),
        "jobs": sum(len(one.jobs.jobs) for one in results), "cpu_ns": sum(one.cpu for one in results),
        "wall_ns": sum(one.wall for one in results), **extremes, "observed": [one.as_dict() for one in found],
        "clocks": account.clocks.text(),
        "conditions": conditions, "executions": executions,
    }  # fmt: skip

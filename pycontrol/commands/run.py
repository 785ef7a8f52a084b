# SPDX-License-Identifier: GPL-2.0
"""The command that runs a taskset's tasks as real processes, or one unmodified program: run."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from analysis import taskset
from analysis.model import FEDERATED, Waiting
from analysis.partial import Partial
from analysis.trace import HOST
from gpurt.enums import Policy
from gpurt.errors import DeviceError, FileError, RefusedError, RuntimeFailure, UsageError
from gpurt.files import check_writable
from gpurt.text import filename, visible
from pycontrol.commands.options import JSON, Output, PolicyName, Time, apart, command
from pycontrol.ending import raised
from pycontrol.live import fit
from pycontrol.live.control import connect
from pycontrol.live.fit_policy import owned
from pycontrol.live.nvs import Nvs, domains_of
from pycontrol.output import observed, render
from pycontrol.run import crew, launch, preload
from pycontrol.run.check import in_time, judged, missing, notes
from pycontrol.run.confine import confine
from pycontrol.run.placement import place

#: Stand-ins take less than the worst case: what a machine adds of its own makes them late otherwise.
SHARE = 80


@command(
    epilog="""\b
Examples:
  gpurt run set.toml --duration 30s -o run.json
  gpurt trace check run.json set.toml --test boosted-suspend
  gpurt run --auto -- ./detector --frames 100      an unmodified program, automatic segments

\b
Exit codes: 0 jobs of every real-time task were seen and met their deadlines; 1 otherwise, or there is no such task,
or events were lost that tell of the jobs of some, or the host or the run is not what the file says (the table of
objections in docs/output.md); 2 wrong usage;
3 the file is wrong, or the trace cannot be written; 4 no host, or it has gone; 5 the policy is refused;
6 a task failed; 130 Ctrl-C or SIGHUP; 143 SIGTERM.
With --auto: the program's own; 126 it cannot be executed; 127 it is not found."""
)
@click.argument("what", nargs=-1, required=True, metavar="FILE | -- COMMAND...")
@click.option("--auto", is_flag=True, help="Run an unmodified program: its GPU work becomes real-time segments.")
@click.option("--priority", type=click.IntRange(1, 99), help="With --auto: SCHED_FIFO priority of the program.")
@click.option("--duration", metavar="TIME", type=Time(), default="10s", show_default=True, help="Length of the run.")
@click.option("--waiting", type=click.Choice(["busy", "suspend"]), help="Waiting mode of all tasks, not the file's.")
@click.option("--policy", type=PolicyName(), metavar="NAME", help="Set the host's policy first; federated: timesliced.")
@click.option("--share", type=click.IntRange(1, 100), default=SHARE, show_default=True, metavar="PERCENT",
              help="How much of each worst case the stand-ins take that run for tasks without a command.")  # fmt: skip
@click.option("--tell", is_flag=True, help="Tell `gpurt watch` and other readers of the jobs of the file's own tasks.")
@click.option("-o", "--output", "trace_path", type=Output(), help="Write the run as a trace.")
@JSON
@click.pass_obj
def run(
    device: str | None, what: tuple[str, ...], auto: bool, priority: int | None, duration: int,
    waiting: str | None, policy: str | None, share: int, tell: bool,
    trace_path: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run a taskset's tasks as real processes, pinned and prioritised, and report their response times.

    Whatever ends the run early (Ctrl-C, SIGTERM, SIGHUP, a task that fails, a host that goes), what was seen until then
    is reported, and written to the trace.  While the run goes on, FILE.partial of -o has the host's events.

    With --auto, execute any program with the preload library: docs/unpatched.md.
    """
    if auto:
        _refuse_options_of_tasksets()
        preload.execute(what, device, priority)
    if len(what) != 1 or priority:
        raise UsageError("name one taskset file, or give --auto -- COMMAND; --priority goes with --auto")
    apart([trace_path], Path(what[0]))
    loaded = taskset.load(Path(what[0]))
    crew.CrewOptions(duration / 1e9)  # raises UsageError before anything is changed
    if trace_path:
        check_writable(trace_path)
    federated = _federated(loaded)
    if policy == FEDERATED:
        if not federated:
            raise UsageError("--policy federated: the file is about another policy; "
                             f"gpurt plan units {filename(loaded.path)} -o OWN writes one about it")  # fmt: skip
        policy = Policy.TIMESLICED.word  # nobody orders the GPU
    with connect(device) as control:
        mode = Waiting(waiting) if waiting else None
        host = _permitted(control, loaded, mode, policy)  # raises DeviceError before anything is changed
        confined = confine(loaded, all(gpu.emulated for gpu in host.gpus), gpus=len(host.gpus))
        if policy:
            control.set_policy(policy)
    found = fit.objections(loaded, host)
    runs = host.gpus[0].policy.word
    used = FEDERATED if federated and owned(loaded.taskset, host) else runs
    options = crew.CrewOptions(duration / 1e9, device, used, mode, managed=runs not in ("timesliced", "job"),
                           environments=confined.environments, tell=tell, host=fit.saved(host),
                           share=share)  # fmt: skip
    about = {"source": "runtime", "clock": "CLOCK_MONOTONIC", "policy": used, HOST: options.host}
    partial = Partial(trace_path, about) if trace_path else None
    seen, domains, unsaved = _recorded(loaded, options, confined.domains, partial, trace_path)
    judgement = judged(seen.trace, loaded)
    lines, blind = judgement.lines, missing(judgement, [name for name, one in seen.reports.items() if one.complete])
    remarks = [*_stood_in(loaded, share), *fit.lines(found), *confined.notes, *domains, *seen.notes,
               *notes(lines, seen.trace),
               *([blind] if blind else []), *([partial.failed] if partial and partial.failed else [])]  # fmt: skip
    render.note(*remarks, as_json=as_json)
    doubt = fit.against(found)
    passed = not (seen.interrupted or seen.failed or unsaved) and in_time(lines) and not blind and not doubt
    whole = {
        "file": loaded.path, "policy": used, "in_time": passed, "interrupted": bool(seen.interrupted),
        "failed": seen.failed or None, "tasks": observed.data(lines), "objections": fit.data(found), "notes": remarks,
        "files": [trace_path] if trace_path and not unsaved else [],
    }  # fmt: skip
    text = observed.text(lines, bounds=False)
    render.emit(whole, as_json, f"{text}\nNO: {doubt}" if doubt else text)
    if unsaved:
        raise unsaved
    if seen.failed:
        raise DeviceError(seen.failed) if seen.gone else RuntimeFailure(seen.failed)
    return seen.interrupted or (0 if passed else 1)


def _federated(loaded: taskset.TasksetFile) -> bool:
    """Whether tasks own units.  Raises UsageError if some have none."""
    if loaded.taskset.policies != (FEDERATED,):
        return False
    if without := [task.name for task in loaded.taskset if task.uses_gpu and not task.partition]:
        raise UsageError(f"{filename(loaded.path)}: {visible(without[0])} has no units of its own: "
                         "gpurt plan units FILE -o OWN gives each task some")  # fmt: skip
    return True


def _stood_in(loaded: Any, share: int) -> list[str]:
    """A remark on stand-ins: what a no means although they take less than the file permits."""
    if all(name in loaded.launch and loaded.launch[name].command for name in (task.name for task in loaded.taskset)):
        return []
    return [
        f"stand-ins take {share} % of each worst case (--share): if one is late all the same, this machine lent its "
        "CPUs to others, or the host is not the file's"
    ]


def _recorded(
    loaded: Any, options: Any, domains: dict[str, int], partial: Any, path: Path | None
) -> tuple[Any, list[str], FileError | None]:  # fmt: skip
    """The run, remarks on it, and why its trace is not whole on disk; None if it is."""
    try:
        seen, remarks = _launched(loaded, options, domains, partial)
    except BaseException:
        if partial and not partial.count:
            partial.over()
        raise
    try:
        if path:
            seen.trace.save(path)
            partial.over()
    except FileError as error:
        return seen, remarks, partial.kept(error)
    return seen, remarks, None


def _launched(loaded: Any, options: Any, domains: dict[str, int], partial: Any) -> tuple[Any, list[str]]:
    """The run, in these domains (slices in ns by name), and remarks on them."""
    with ExitStack() as stack:
        stack.enter_context(raised())
        remarks = stack.enter_context(domains_of(stack.enter_context(Nvs()), domains)) if domains else []
        with render.progress(int(options.seconds * 10), "running") as bar:
            seen = launch.launch(loaded, options, lambda passed: bar.reach(int(passed * 10)), partial)
    return seen, remarks


def _permitted(control: Any, loaded: Any, mode: Any, policy: str | None) -> Any:
    """What is known of the host, under the policy that it is to have.

    Raises RefusedError if the host would refuse the tasks' segments.
    """
    host = fit.ask(control, loaded, policy)
    try:
        host = host.under(policy) if policy else host
    except ValueError as error:
        raise UsageError(f"policy {error}") from None
    host = replace(host, ran=fit.Ran(mode, place(loaded.taskset).folded))
    if why := fit.against(fit.objections(loaded, host), fit.Defeats.RUN):
        raise RefusedError(why)
    return host


def _refuse_options_of_tasksets() -> None:
    """Raises UsageError if the user gave an option that --auto would ignore."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name not in ("what", "auto", "priority"):
            raise UsageError(f"{option.opts[0]} goes with a taskset file, not with --auto")

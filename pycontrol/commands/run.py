# SPDX-License-Identifier: GPL-2.0
"""The command that runs a taskset's tasks as real processes, or one unmodified program: run."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import click
from click.core import ParameterSource

from analysis import taskset
from analysis.answers.loading import without_workers
from analysis.model import Waiting
from gpurt import Client
from gpurt.errors import DeviceError, RefusedError, RuntimeFailure, UsageError
from gpurt.files import check_writable
from gpurt.text import filename, visible
from pycontrol.act.run import crew, preload
from pycontrol.act.run.of_file import SHARE_PERCENT, Wished, of_file
from pycontrol.commands.options import GROUP, JSON, POLICY_NAME, TIME, Output, command, files_apart
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  gpurt run set.toml --duration 30s -o run.json
  gpurt trace check run.json set.toml --test boosted-suspend
  gpurt run --auto -- ./detector --frames 100      an unmodified program, automatic segments
  gpurt run --group llm -- ./engine --workers 4    it and what it starts own the GPU together

\b
Exit codes: 0 `gpurt trace check` says yes to the run (docs/watching.md, "When the answer is yes"); 1 it says no;
2 wrong usage;
3 the file is wrong, or the trace cannot be written; 4 no host, or it has gone; 5 the policy is refused;
6 a task failed; 130 Ctrl-C or SIGHUP; 143 SIGTERM.
With --auto or --group: the program's own; 126 it cannot be executed; 127 it is not found.
With --group also 5: the host has no groups, or no place in this one."""
)
@click.argument("what", nargs=-1, required=True, metavar="FILE | -- COMMAND...")
@click.option("--auto", is_flag=True, help="Run an unmodified program: its GPU work becomes real-time segments.")
@click.option("--priority", type=click.IntRange(1, 99), help="With --auto, --group: the program's SCHED_FIFO priority.")
@click.option("--group", type=GROUP, metavar="NAME",
              help="Run a program whose processes own the GPU together, as a group.")  # fmt: skip
@click.option("--duration", metavar="TIME", type=TIME, default="10s", show_default=True, help="Length of the run.")
@click.option("--waiting", type=click.Choice([mode.value for mode in Waiting]),
              help="Waiting mode of all tasks, not the file's.")
@click.option("--policy", type=POLICY_NAME, metavar="NAME", help="Set the host's policy first; federated: timesliced.")
@click.option("--share", type=click.IntRange(1, 100), default=SHARE_PERCENT, show_default=True, metavar="PERCENT",
              help="How much of each worst case the stand-ins take that run for tasks without a command.")  # fmt: skip
@click.option("--tell", is_flag=True, help="Tell `gpurt watch` and other readers of the jobs of the file's own tasks.")
@click.option("-o", "--output", "trace_path", type=Output(), help="Write the run as a trace.")
@JSON
@click.pass_obj
def run_command(
    device: str | None, what: tuple[str, ...], auto: bool, priority: int | None, group: str | None, duration: int,
    waiting: str | None, policy: str | None, share: int, tell: bool,
    trace_path: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run a taskset's tasks as real processes, pinned and prioritised, and report their response times.

    Ctrl-C, SIGTERM, SIGHUP, a task that fails, or a host that goes ends the run early.  The command then reports
    everything seen until then, and writes it to the trace.  While the run goes on, FILE.partial of -o has the host's
    events.

    With --auto, execute any program with the preload library: docs/unpatched.md.  With --group, execute a program whose
    processes need one another: docs/manual/waiting.md.
    """
    if auto or group is not None:
        _refuse_options_of_tasksets()
        if group is not None:
            _check_group(device, group)
        preload.execute(what, device, priority, group, auto)
    if what and priority:
        raise UsageError("--priority goes with --auto or --group")
    if len(what) != 1:
        raise UsageError("name one taskset file, or give --auto or --group NAME, and -- COMMAND")
    if Path(what[0]).suffix != ".toml" and os.path.isfile(what[0]) and os.access(what[0], os.X_OK):
        raise UsageError(
            f"{filename(what[0])} is a program, no taskset: `gpurt run --auto -- {visible(what[0])}` makes segments "
            "of its GPU work; started without, it runs unmanaged unless it marks its own"
        )
    files_apart([trace_path], Path(what[0]))
    loaded = without_workers(taskset.load(Path(what[0])))
    crew.CrewOptions(duration / 1e9)  # raises UsageError before any change
    if trace_path:
        check_writable(trace_path)
    wished = Wished(device, duration / 1e9, Waiting(waiting) if waiting else None, policy, share, tell, trace_path)
    done = of_file(loaded, wished)
    render.note(*done.remarks, as_json=as_json)
    seen = done.seen
    whole = {
        "file": loaded.path, "policy": done.policy, **done.verdict.data(), "in_time": not done.why,
        "why": done.why or None, "interrupted": bool(seen.interrupted), "failed": seen.failed or None,
        "notes": done.remarks,
        "files": [trace_path] if trace_path and not done.unsaved else [],
    }  # fmt: skip
    render.emit(whole, as_json, done.verdict.text())
    if done.unsaved:
        raise done.unsaved
    if seen.failed:
        raise DeviceError(seen.failed) if seen.gone else RuntimeFailure(seen.failed)
    return seen.interrupted or (1 if done.why else 0)


def _refuse_options_of_tasksets() -> None:
    """Raises UsageError for an option that --auto and --group would ignore."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name not in ("what", "auto", "priority", "group"):
            raise UsageError(f"{option.opts[0]} goes with a taskset file, not with --auto or --group")


def _check_group(device: str | None, name: str) -> None:
    """Joins the group for a moment, as the program will.

    Raises:
        DeviceError: there is no host.
        RefusedError: the host has no groups, or no place in this group.
    """
    os.environ.pop("GPURT_GROUP", None)  # the group of a surrounding program, which this group replaces
    try:
        client = Client(device)
    except OSError as error:
        raise DeviceError(error.strerror or str(error)) from None
    with client:
        try:
            client.join(name)
        except OSError as error:
            raise _refused(name, error.errno or 0) from None


def _refused(name: str, code: int) -> RefusedError:
    if code == errno.EOPNOTSUPP:
        return RefusedError("this host has no groups")
    if code == errno.EDQUOT:
        return RefusedError(f"group {name} has no place: too many groups or members, or another budget")
    return RefusedError(f"group {name}: {errno.errorcode.get(code, code)}")

# SPDX-License-Identifier: GPL-2.0
"""The commands with rules about processes, which are named by pid, name or cgroup: set exempt and set bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gpurt.errors import RefusedError, UsageError
from gpurt.text import visible
from gpurt.types import Document
from pycontrol.commands.options import JSON, Pid, command
from pycontrol.link.control import Control, connect
from pycontrol.link.rules import possible
from pycontrol.observe import documents
from pycontrol.observe.clients import listed
from pycontrol.output import render

#: How processes are named.
NAME_ONE = "name exactly one of --pid, --name and --cgroup"


def naming(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that name processes."""
    for option in reversed((
        click.option("--pid", type=Pid(1), metavar="PID", help="A process."),
        click.option("--name", "comm", help="All processes of that name, later ones too."),
        click.option("--cgroup", metavar="PATH", help="All processes of a cgroup v2 path and below, later ones too."),
    )):  # fmt: skip
        command = option(command)
    return command


def _named(pid: int | None, comm: str | None, cgroup: str | None, *, adding: bool) -> tuple[Document, str]:
    """How the user names the processes: for JSON documents, and in words.

    Raises:
        UsageError: none or several are given, or no process can match.
    """
    if sum(value is not None for value in (pid, comm, cgroup)) != 1:
        raise UsageError(NAME_ONE)
    possible(comm, cgroup, adding=adding)
    rule = {key: value for key, value in (("pid", pid), ("name", comm), ("cgroup", cgroup)) if value is not None}
    what = f"process {pid}" if pid else f"processes named {comm}" if comm else f"processes of cgroup {cgroup}"
    return rule, what


def _there(control: Control, exempt: bool, pid: int | None, comm: str | None, cgroup: str | None) -> None:
    """Raises RefusedError unless there is that rule, which is to go."""
    if not any((one.exempt, one.pid, one.comm, one.cgroup) == (exempt, pid, comm, cgroup) for one in control.rules()):
        raise RefusedError(f"there is no such rule about {visible(pid or comm or cgroup)}: see `gpurt status rules`")


@command(
    extra=NAME_ONE,
    epilog="""\b
Examples:
  gpurt set exempt --pid 1234
  gpurt set exempt --name Xorg
  gpurt set exempt --cgroup /system.slice/display-manager.service
  gpurt set exempt --name Xorg --off

\b
A rule ends with the host; docs/deploying.md has how a service makes it again.

\b
Exit codes: 0 done; 2 wrong usage, or a rule that no process can match; 4 no host; 5 not permitted,
or no such process or rule."""
)
@naming
@click.option("--off", is_flag=True, help="End the exemption.")
@JSON
@click.pass_obj
def exempt_command(
    device: str | None, pid: int | None, comm: str | None, cgroup: str | None, off: bool, as_json: bool
) -> int:
    """Exempt processes, such as the display server: they stay on the runlist whichever task runs.

    Processes that start later are under the rule as well; `gpurt status rules` lists the rules.
    """
    rule, what = _named(pid, comm, cgroup, adding=not off)
    with connect(device) as control:
        if off:
            _there(control, True, pid, comm, cgroup)
        control.set_exempt(not off, pid=pid, comm=comm, cgroup=cgroup)
        found = [one for one in control.clients() if one.exempt]
    text = f"{what}: {'no longer exempt' if off else 'exempt'}\nexempt clients now: {listed(found)}"
    render.emit({"exempt": not off, **rule, "clients": list(map(documents.client, found))}, as_json, text)
    return 0


@command(
    extra=NAME_ONE,
    epilog="""\b
Examples:
  gpurt set bar --cgroup /user.slice
  gpurt set bar --pid 1234
  gpurt set bar --pid 1234 --off

\b
Under policy boosted, a real-time segment of a barred process is refused (EPERM), and a thread that the host has raised
is lowered.  A process counts by the cgroup that it is in when it opens the GPU, or when a rule changes.  A rule
ends with the host.

\b
Exit codes: 0 done; 2 wrong usage, or a rule that no process can match; 4 no host; 5 not permitted,
or no such process or rule."""
)
@naming
@click.option("--off", is_flag=True, help="Let them be raised again, if they have the right to it.")
@JSON
@click.pass_obj
def bar_command(
    device: str | None, pid: int | None, comm: str | None, cgroup: str | None, off: bool, as_json: bool
) -> int:
    """Bar processes from being raised: policy boosted does not put their threads above other tasks.

    Processes that start later are under the rule as well; `gpurt status rules` lists the rules.
    """
    rule, what = _named(pid, comm, cgroup, adding=not off)
    with connect(device) as control:
        if off:
            _there(control, False, pid, comm, cgroup)
        control.set_barred(not off, pid=pid, comm=comm, cgroup=cgroup)
        found = [one for one in control.clients() if one.barred]
    text = f"{what}: {'no longer barred' if off else 'barred from being raised'}\nbarred clients now: {listed(found)}"
    render.emit({"barred": not off, **rule, "clients": list(map(documents.client, found))}, as_json, text)
    return 0

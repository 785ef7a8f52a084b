# SPDX-License-Identifier: GPL-2.0
"""Commands with rules about processes, which are named by pid, name or cgroup: exempt, bar."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from gpurt.errors import UsageError
from pycontrol.commands.options import JSON, Pid
from pycontrol.live.control import RuleInfo, connect
from pycontrol.live.rules import possible
from pycontrol.output import documents, render


def naming(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that name processes."""
    for option in reversed((
        click.option("--pid", type=Pid(1), metavar="PID", help="A process."),
        click.option("--name", "comm", help="All processes of that name, later ones too."),
        click.option("--cgroup", metavar="PATH", help="All processes of a cgroup v2 path and below, later ones too."),
    )):  # fmt: skip
        command = option(command)
    return command


def _named(pid: int | None, comm: str | None, cgroup: str | None, *, adding: bool) -> tuple[dict[str, Any], str]:
    """What names the processes, as in documents, and in words.

    Raises:
        UsageError: none or several are given, or no process can match.
    """
    if sum(value is not None for value in (pid, comm, cgroup)) != 1:
        raise UsageError("name exactly one of --pid, --name and --cgroup")
    possible(comm, cgroup, adding=adding)
    rule = {key: value for key, value in (("pid", pid), ("name", comm), ("cgroup", cgroup)) if value is not None}
    what = f"process {pid}" if pid else f"processes named {comm}" if comm else f"processes of cgroup {cgroup}"
    return rule, what


def _list(device: str | None, exempt: bool, as_json: bool) -> int:
    """Shows the rules that exempt processes, or that bar them, and the clients that are exempt or barred now."""
    with connect(device) as control:
        rules = [one for one in control.rules() if one.exempt == exempt]
        found = [one for one in control.clients() if (one.exempt if exempt else one.barred)]
    data = {"rules": list(map(documents.rule, rules)), "clients": list(map(documents.client, found))}
    word = "exempt" if exempt else "barred"
    rows = [(_ruled(one), _since(one)) for one in rules]
    text = render.table((word, "since"), rows) if rows else f"no rule: no process is {word}"
    render.emit(data, as_json, f"{text}\n{word} clients now: {_listed(found)}")
    return 0


def _ruled(one: RuleInfo) -> str:
    """Which processes a rule is for, in words."""
    if one.pid is not None:
        return f"process {one.pid}" if one.pid else "another user's process"
    if one.comm is not None:
        return f"processes named {one.comm}" if one.comm else "processes of a name that only root is told"
    return f"processes of cgroup {one.cgroup}" if one.cgroup else "processes of a cgroup that only root is told"


def _since(one: RuleInfo) -> str:
    """When a rule was made, by this machine's clock."""
    made = time.time() - (time.monotonic_ns() - one.since_ns) / 1e9
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(made))


def _listed(found: list[Any]) -> str:
    return ", ".join(f"{one.pid} ({one.comm})" for one in found) or "none"


@click.command(
    epilog="""\b
Examples:
  gpurt exempt                        list the rules that are in force
  gpurt exempt --pid 1234
  gpurt exempt --name Xorg
  gpurt exempt --cgroup /system.slice/display-manager.service
  gpurt exempt --name Xorg --off

\b
Exit codes: 0 done; 2 wrong usage, or a rule that no process can match; 4 no host; 5 not permitted,
or no such process."""
)
@naming
@click.option("--off", is_flag=True, help="End the exemption.")
@JSON
@click.pass_obj
def exempt(
    device: str | None, pid: int | None, comm: str | None, cgroup: str | None, off: bool, as_json: bool
) -> int:
    """Exempt processes, such as the display server: they stay on the runlist whichever task runs.

    Without options it lists the rules, which processes that start later are under as well.
    """
    if (pid, comm, cgroup, off) == (None, None, None, False):
        return _list(device, True, as_json)
    rule, what = _named(pid, comm, cgroup, adding=not off)
    with connect(device) as control:
        control.set_exempt(not off, pid=pid, comm=comm, cgroup=cgroup)
        found = [one for one in control.clients() if one.exempt]
    text = f"{what}: {'no longer exempt' if off else 'exempt'}\nexempt clients now: {_listed(found)}"
    render.emit({"exempt": not off, **rule, "clients": list(map(documents.client, found))}, as_json, text)
    return 0


@click.command(
    epilog="""\b
Examples:
  gpurt bar                           list the rules that are in force
  gpurt bar --cgroup /user.slice
  gpurt bar --pid 1234
  gpurt bar --pid 1234 --off

\b
Under policy boosted, a real-time segment of a barred process is refused (EPERM), and a thread that the host has raised
is lowered.  A process counts by the cgroup that it is in when it opens the GPU, or when a rule changes.

\b
Exit codes: 0 done; 2 wrong usage, or a rule that no process can match; 4 no host; 5 not permitted,
or no such process."""
)
@naming
@click.option("--off", is_flag=True, help="Let them be raised again, if they have the right to it.")
@JSON
@click.pass_obj
def bar(
    device: str | None, pid: int | None, comm: str | None, cgroup: str | None, off: bool, as_json: bool
) -> int:
    """Bar processes from being raised: policy boosted does not put their threads above other tasks.

    Without options it lists the rules, which processes that start later are under as well.
    """
    if (pid, comm, cgroup, off) == (None, None, None, False):
        return _list(device, False, as_json)
    rule, what = _named(pid, comm, cgroup, adding=not off)
    with connect(device) as control:
        control.set_barred(not off, pid=pid, comm=comm, cgroup=cgroup)
        found = [one for one in control.clients() if one.barred]
    text = f"{what}: {'no longer barred' if off else 'barred from being raised'}\nbarred clients now: {_listed(found)}"
    render.emit({"barred": not off, **rule, "clients": list(map(documents.client, found))}, as_json, text)
    return 0



# SPDX-License-Identifier: GPL-2.0
"""The command that makes rules for processes, given by pid, name or cgroup: set rule."""

from __future__ import annotations

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

#: How processes may be named.
NAME_ONE = "name exactly one of --pid, --name and --cgroup"


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
    """Raises RefusedError unless the rule exists that is to be removed."""
    if not any((one.exempt, one.pid, one.comm, one.cgroup) == (exempt, pid, comm, cgroup) for one in control.rules()):
        raise RefusedError(f"there is no such rule about {visible(pid or comm or cgroup)}: see `gpurt status rules`")


@command(
    extra=NAME_ONE,
    epilog="""\b
Examples:
  gpurt set rule exempt --name Xorg
  gpurt set rule exempt --cgroup /system.slice/display-manager.service
  gpurt set rule bar --pid 1234
  gpurt set rule bar --pid 1234 --off

\b
exempt: they stay on the runlist whichever task runs, such as the display server.
bar: policy boosted does not put their threads above other tasks.  A real-time segment of a barred process is refused
(EPERM), and a thread that the host has raised is lowered.

\b
A process counts by the cgroup that it is in when it opens the GPU, or when a rule changes.  A rule ends with the host;
docs/deploying.md has how a service makes it again.

\b
Exit codes: 0 done; 2 wrong usage, or a rule that no process can match; 4 no host; 5 not permitted,
or no such process or rule."""
)
@click.argument("effect", type=click.Choice(["exempt", "bar"]), metavar="exempt|bar")
@click.option("--pid", type=Pid(1), metavar="PID", help="A process.")
@click.option("--name", "comm", help="All processes of that name, later ones too.")
@click.option("--cgroup", metavar="PATH", help="All processes of a cgroup v2 path and below, later ones too.")
@click.option("--off", is_flag=True, help="End the rule.")
@JSON
@click.pass_obj
def rule_command(
    device: str | None, effect: str, pid: int | None, comm: str | None, cgroup: str | None, off: bool, as_json: bool
) -> int:
    """Exempt processes from being taken off the GPU, or bar them from being raised on their CPUs.

    Processes that start later are under the rule as well; `gpurt status rules` lists the rules.
    """
    rule, what = _named(pid, comm, cgroup, adding=not off)
    exempt = effect == "exempt"
    word = "exempt" if exempt else "barred"
    with connect(device) as control:
        if off:
            _there(control, exempt, pid, comm, cgroup)
        (control.set_exempt if exempt else control.set_barred)(not off, pid=pid, comm=comm, cgroup=cgroup)
        found = [one for one in control.clients() if getattr(one, word)]
    text = f"{what}: {'no longer ' if off else ''}{word}\n{word} clients now: {listed(found)}"
    render.emit({word: not off, **rule, "clients": list(map(documents.client, found))}, as_json, text)
    return 0

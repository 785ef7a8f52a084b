# SPDX-License-Identifier: GPL-2.0
"""The command that makes processes members of a group: set group."""

from __future__ import annotations

import click

from gpurt.errors import RefusedError, UsageError
from pycontrol.commands.options import GROUP, JSON, clients, command
from pycontrol.link.control import connect
from pycontrol.link.membership import group_of
from pycontrol.link.rules import possible
from pycontrol.machine import procs
from pycontrol.observe import documents
from pycontrol.output import render


@command(
    epilog="""\b
Examples:
  gpurt set group llm 1234 1240       also where 1234 waits inside its segment for 1240
  gpurt set group llm --cgroup /system.slice/llm.service
  gpurt run --group llm -- ./engine   better: from the start, with all that it starts

\b
A process stays in its group until it ends, even if its cgroup is removed.  The present clients of a cgroup, and of
cgroups below, join.  Later processes must join by themselves: GPURT_GROUP.

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, no such client, processes of several users, or one cannot
join: those before it on the line have joined."""
)
@click.argument("name", type=GROUP, metavar="NAME")
@clients(required=False)
@click.option("--cgroup", "cgroups", multiple=True, metavar="PATH", help="The clients of a cgroup v2 path and below.")
@JSON
@click.pass_obj
def group_command(device: str | None, name: str, pids: tuple[int, ...], cgroups: tuple[str, ...], as_json: bool) -> int:
    """Make processes members of a group, which own the GPU together: the cure where one waits for another."""
    if not pids and not cgroups:
        raise UsageError("name a process or a --cgroup")
    for path in cgroups:
        possible(None, path, adding=True)
    with connect(device) as control:
        known = {one.pid for one in control.clients() if one.pid}
        if missing := set(pids) - known:
            raise RefusedError(f"process {min(missing)} is no client of the GPU; `gpurt status clients` lists them")
        inside = {pid for pid in known if any(procs.in_cgroup(procs.cgroup(pid), path) for path in cgroups)}
        if not pids and not inside:
            raise RefusedError(f"no client of the GPU is in cgroup {', '.join(cgroups)}")
        asked = (*pids, *sorted(inside - {*pids}))
        users = {user for pid in asked if (user := procs.user(pid))}
        if len(users) > 1:
            named = ", ".join(sorted(users, key=int))
            raise RefusedError(f"these are processes of users {named}, and a group is of one user; nothing was changed")
        for pid in asked:
            control.set_group(pid, name)
        homes = {group_of(name, pid) for pid in asked}
        found = [one for one in control.clients() if group_of(one.group, one.pid) in homes]
    rows = [(str(one.pid), one.comm, str(one.gpu), one.state.word, str(one.priority)) for one in found]
    whose = f" of user {users.pop()}" if users else ""
    text = f"group {name}{whose}\n" + render.table(("pid", "name", "GPU", "state", "priority"), rows)
    render.emit({"group": name, "clients": list(map(documents.client, found))}, as_json, text)
    return 0

# SPDX-License-Identifier: GPL-2.0
"""The command that makes processes members of a group: set group."""

from __future__ import annotations

import click

from gpurt.errors import RefusedError
from pycontrol.commands.options import JSON, PIDS, command
from pycontrol.live.control import connect
from pycontrol.output import documents, render


@command(
    epilog="""\b
Examples:
  gpurt set group llm 1234 1240       also where 1234 waits inside its segment for 1240
  gpurt run --group llm -- ./engine   better: from the start, with all that it starts

\b
A process stays in its group until it ends.  Processes that it starts later join by themselves: GPURT_GROUP.

\b
Exit codes: 0 done; 2 wrong usage; 4 no host; 5 not permitted, no such client, or it cannot join: those before it on the
line have joined."""
)
@click.argument("name", metavar="NAME")
@PIDS
@JSON
@click.pass_obj
def group(device: str | None, name: str, pids: tuple[int, ...], as_json: bool) -> int:
    """Make processes members of a group, which own the GPU together: the cure where one waits for another."""
    with connect(device) as control:
        before = control.clients()
        missing = set(pids) - {one.pid for one in before}
        if missing:
            raise RefusedError(f"process {min(missing)} is no client of the GPU; `gpurt status clients` lists them")
        for pid in pids:
            control.set_group(pid, name)
        found = [one for one in control.clients() if one.group == name]
    rows = [(str(one.pid), one.comm, str(one.gpu), one.state.word, str(one.priority)) for one in found]
    text = f"group {name}\n" + render.table(("pid", "name", "GPU", "state", "priority"), rows)
    render.emit({"group": name, "clients": list(map(documents.client, found))}, as_json, text)
    return 0

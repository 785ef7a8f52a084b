# SPDX-License-Identifier: GPL-2.0
"""The clients of a host as a table that fits the terminal, with a bar for each client's share."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence

from gpurt.types import Document
from pycontrol.link.control import HOST_WITHOUT_GPU, ClientInfo, told_fields
from pycontrol.link.sampling import Sample
from pycontrol.machine import procs
from pycontrol.observe import documents
from pycontrol.output import render
from pycontrol.output.render import ms

#: The columns from left to right, and how soon each is left out where the terminal is narrow; 0: never.  Those of
#: SOME are there if a client has something in them, or is another user's.
COLUMNS = {"GPU": 3, "pid": 0, "user": 5, "name": 0, "state": 2, "priority": 1, "share": 0, "owned ms": 5,
           "segments": 6, "preempted": 4, "depth": 8, "TSGs": 7, "form": 10, "raised": 11, "group": 2,
           "": 9}  # fmt: skip
SOME = ("user", "group", "")
CLIENT_FLAGS = ("exempt", "demoted", "barred")

#: Shortest and longest bar for the part that a client owned; a terminal without room for the shortest shows none.
BAR = (10, 60)


def clients_text(seen: Sample, width: int | None, height: int | None) -> str:
    """A line for the GPUs, then the clients, within these columns and lines if they are given."""
    gpus = ", ".join(f"GPU {one.gpu} {one.policy.word}" for one in seen.gpus) or HOST_WITHOUT_GPU
    cells = [_cells(one, _percent(seen, one)) for one in seen.ordered()]
    lines, _ = _table(_columns(cells), cells, width)
    lines = lines if width is None else _with_bars(lines, seen, width)
    lines = [f"{gpus}; {len(seen.clients)} clients", *lines]
    if height is not None and len(lines) > height:
        lines[height - 1 :] = [f"... and {len(lines) - height + 1} more"]
    return "\n".join(line if width is None or len(line) <= width else line[: width - 1] + "~" for line in lines)


def clients_table(clients: list[ClientInfo]) -> str:
    """The clients without what they owned of a time, as the command `clients` shows them."""
    if not clients:
        return "no client uses the GPU"
    cells = [_cells(one, "-") for one in clients]
    lines, left = _table([name for name in _columns(cells) if name != "share"], cells, width := render.columns())
    return "\n".join([*lines, *[f"no room in {width} columns for {', '.join(left)} (--json)"] * bool(left)])


def _columns(cells: list[dict[str, str]]) -> list[str]:
    own = {"user": _user(os.geteuid())}
    return [name for name in COLUMNS if name not in SOME or any(one[name] not in ("", own.get(name)) for one in cells)]


def _user(number: int | str) -> str:
    """The name of a user, else the number; empty: the user is not known."""
    try:
        return pwd.getpwuid(int(number)).pw_name if number != "" else ""
    except KeyError:
        return str(number)


def _percent(seen: Sample, one: ClientInfo) -> str:
    """A part that is estimated begins with a tilde."""
    share = seen.share(one)
    if share is None:
        return "-"
    return f"{'~' if seen.shared.get((one.gpu, one.client)) else ''}{100 * share:.1f}%"


def _named(one: ClientInfo) -> dict[str, str]:
    """What the host does not name has pid 0."""
    return {"pid": str(one.pid), "name": one.comm} if one.pid else {"pid": "-", "name": "another user's"}


def _cells(one: ClientInfo, share: str) -> dict[str, str]:
    flags = " ".join(word for word in CLIENT_FLAGS if getattr(one, word))
    flags += " no-yield" * (one.yields is False and one.segments > 0)
    return {
        "GPU": str(one.gpu), **_named(one), "user": _user(procs.user(one.pid)),
        "state": one.state.word, "priority": str(one.priority), "share": share,
        "owned ms": ms(one.held_ns), "segments": str(one.segments), "preempted": str(one.preemptions),
        "depth": str(one.depth), "TSGs": str(one.tsgs), "form": one.form.word,
        "raised": f"to {one.raised}" if one.raised else "-", "group": one.group, "": flags,
    }  # fmt: skip


def _table(columns: list[str], cells: list[dict[str, str]], width: int | None) -> tuple[list[str], list[str]]:
    """The lines of the table, and the columns that are left out for it to fit."""
    for name in ["", *sorted(filter(None, COLUMNS), key=lambda name: -COLUMNS[name])]:
        kept = [one for one in columns if not name or not COLUMNS[one] or COLUMNS[one] < COLUMNS[name]]
        lines = render.table(kept, [[one[name] for name in kept] for one in cells], blocks=False).split("\n")
        if width is None or max(map(len, lines)) <= width:
            break
    return lines, [one or ", ".join([*CLIENT_FLAGS, "no-yield"]) for one in columns if one not in kept]


def _with_bars(lines: list[str], seen: Sample, width: int) -> list[str]:
    """The table with a bar beside each client, if there is room."""
    used = max(map(len, lines)) + 2
    room = min(width - used, BAR[1])
    if room < BAR[0] or not seen.shares:
        return lines
    bars = ["#" * round(room * (seen.share(one) or 0)) for one in seen.ordered()]
    return [*lines[:2], *(f"{line:{used}}{bar}".rstrip() for line, bar in zip(lines[2:], bars, strict=True))]


def clients_data(seen: Sample) -> Document:
    """For JSON."""
    clients = [
        documents.client(one) | {"share": seen.share(one), "shared": seen.shared.get((one.gpu, one.client), 0.0)}
        for one in seen.ordered()
    ]
    return {"gpus": list(map(told_fields, seen.gpus)), "clients": clients}


def listed(clients: Sequence[ClientInfo]) -> str:
    """The clients in a line."""
    return ", ".join(f"{one.pid} ({one.comm})" if one.pid else _named(one)["name"] for one in clients) or "none"


def budgets(clients: Sequence[ClientInfo]) -> str:
    """The table of clients with their budgets."""
    if not clients:
        return "no client has a budget"
    rows = [
        (*_named(one).values(), str(one.gpu), ms(one.budget_ns or None), ms(one.period_ns or None),
         one.on_overrun.word if one.on_overrun is not None else "-", str(one.overruns))
        for one in clients
    ]  # fmt: skip
    return render.table(("pid", "name", "GPU", "budget ms", "period ms", "on overrun", "overruns"), rows)

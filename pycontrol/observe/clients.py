# SPDX-License-Identifier: GPL-2.0
"""The clients of a host as a table that fits the terminal."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence

from pycontrol.link.control import ClientInfo
from pycontrol.machine import procs
from pycontrol.output import render
from pycontrol.output.render import ms

#: The columns from left to right, and in which order they are omitted if the terminal is narrow; 0: never.  A column of
#: SOME is shown only if a client has a value in it, or is another user's.
COLUMNS = {"GPU": 3, "pid": 0, "user": 5, "name": 0, "state": 2, "priority": 1, "owned ms": 5,
           "segments": 6, "preempted": 4, "depth": 8, "TSGs": 7, "form": 10, "raised": 11, "group": 2,
           "": 9}  # fmt: skip
SOME = ("user", "group", "")
CLIENT_FLAGS = ("exempt", "demoted", "barred")


def clients_table(clients: list[ClientInfo]) -> str:
    """The clients, as `gpurt status clients` shows them."""
    if not clients:
        return "no client uses the GPU"
    cells = [_cells(one) for one in clients]
    lines, left = _table(_columns(cells), cells, width := render.columns())
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


def _named(one: ClientInfo) -> dict[str, str]:
    """A client's pid and name; the host gives pid 0 if this user may not know the process."""
    return {"pid": str(one.pid), "name": one.comm} if one.pid else {"pid": "-", "name": "another user's"}


def _cells(one: ClientInfo) -> dict[str, str]:
    flags = " ".join(word for word in CLIENT_FLAGS if getattr(one, word))
    flags += " no-yield" * (one.yields is False and one.segments > 0)
    return {
        "GPU": str(one.gpu), **_named(one), "user": _user(procs.user(one.pid)),
        "state": one.state.word, "priority": str(one.priority),
        "owned ms": ms(one.held_ns), "segments": str(one.segments), "preempted": str(one.preemptions),
        "depth": str(one.depth), "TSGs": str(one.tsgs), "form": one.form.word,
        "raised": f"to {one.raised}" if one.raised else "-", "group": one.group, "": flags,
    }  # fmt: skip


def _table(columns: list[str], cells: list[dict[str, str]], width: int | None) -> tuple[list[str], list[str]]:
    """The lines of the table, and the columns that are omitted so that it fits."""
    for name in ["", *sorted(filter(None, COLUMNS), key=lambda name: -COLUMNS[name])]:
        kept = [one for one in columns if not name or not COLUMNS[one] or COLUMNS[one] < COLUMNS[name]]
        lines = render.table(kept, [[one[name] for name in kept] for one in cells], blocks=False).split("\n")
        if width is None or max(map(len, lines)) <= width:
            break
    return lines, [one or ", ".join([*CLIENT_FLAGS, "no-yield"]) for one in columns if one not in kept]


def listed(clients: Sequence[ClientInfo]) -> str:
    """The clients, in one line."""
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

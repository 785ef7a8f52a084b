# SPDX-License-Identifier: GPL-2.0
"""Which group a client is in: users may have groups of one name (kmod/uapi/gpurt.h, "Groups")."""

from __future__ import annotations

from typing import TypeAlias

from pycontrol.machine import procs

#: A group's name, and its user's number as text; both "" if this process may not know them.
Home: TypeAlias = tuple[str, str]


def group_of(name: str, pid: int) -> Home:
    """A process's group, as the group's name and user; without a name: no group."""
    return (name, procs.user(pid)) if name else ("", "")

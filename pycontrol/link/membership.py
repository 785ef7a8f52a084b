# SPDX-License-Identifier: GPL-2.0
"""Which group a client is in: a name is one group for each user (kmod/uapi/gpurt.h, "Groups")."""

from __future__ import annotations

from typing import TypeAlias

from pycontrol.machine import procs

#: The name of a group, and the number of its user; "" where it may not be known.
Home: TypeAlias = tuple[str, str]


def group_of(name: str, pid: int) -> Home:
    """The group in which a process is, by the group's name and user; without a name, in none."""
    return (name, procs.user(pid)) if name else ("", "")

# SPDX-License-Identifier: GPL-2.0
"""The partition that a process is in, from what `gpurt run` wrote into its environment."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pycontrol.link.control import ClientInfo
from pycontrol.machine import procs

#: The name in a program's environment.
PARTITION_VARIABLE = "GPURT_PARTITION"


def partition_of(pid: int) -> str | None:
    """The name of its partition; None if it has none, or if this process may not look at its environment."""
    for entry in (procs.read_proc(pid, "environ") or b"").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == PARTITION_VARIABLE.encode() and value:
            return os.fsdecode(value)
    return None


def clients_by_partition(clients: Iterable[ClientInfo]) -> dict[str, dict[int, str]]:
    """The processes of these clients by partition: the name of each by its pid."""
    found: dict[str, dict[int, str]] = {}
    for pid, name in sorted({(one.pid, one.comm) for one in clients if one.pid}):
        home = partition_of(pid)
        if home is not None:
            found.setdefault(home, {})[pid] = name
    return found

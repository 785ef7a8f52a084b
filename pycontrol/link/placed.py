# SPDX-License-Identifier: GPL-2.0
"""A process's partition and its size at the start, from what `gpurt run` wrote into the process's environment."""

from __future__ import annotations

import os
from collections.abc import Iterable

from analysis.model import Partition
from analysis.taskset.mechanisms import way_of
from pycontrol.link.control import ClientInfo
from pycontrol.machine import procs

#: The variable's name in a program's environment.
PARTITION_VARIABLE = "GPURT_PARTITION"


def place_of(part: Partition) -> str:
    """The partition's name, size and confinement.  A running program stays in the partition that it was started in."""
    words = [part.name, part.size]
    if way := way_of(part):
        value = getattr(part, way)
        words.append(f"{way}={value:#x}" if way == "cu_mask" else f"{way}={value}")
    return " ".join(str(word) for word in words if word is not None)


def partition_of(pid: int) -> str | None:
    """A process's `place_of`; None if it has none, or if this process may not read its environment."""
    for entry in (procs.read_proc(pid, "environ") or b"").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == PARTITION_VARIABLE.encode() and value:
            return os.fsdecode(value)
    return None


def clients_by_partition(clients: Iterable[ClientInfo]) -> dict[str, dict[int, str]]:
    """The processes of these clients by partition: each process's name by its pid."""
    found: dict[str, dict[int, str]] = {}
    for pid, name in sorted({(one.pid, one.comm) for one in clients if one.pid}):
        home = partition_of(pid)
        if home is not None:
            found.setdefault(home.partition(" ")[0], {})[pid] = name
    return found

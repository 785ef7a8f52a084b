# SPDX-License-Identifier: GPL-2.0
"""Rules and policies that a host may be given, as far as its clients' processes permit."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.model import POLICIES
from gpurt._gpurt import lib
from gpurt.enums import Form
from gpurt.errors import RefusedError, UsageError
from gpurt.text import visible
from pycontrol.machine import procs
from pycontrol.machine.procs import NAME_BYTES

if TYPE_CHECKING:
    from pycontrol.link.control import ClientInfo, Control


def possible(comm: str | None, cgroup: str | None, *, adding: bool) -> None:
    """Raises UsageError for a rule that no process can match.

    ``adding``: the cgroup must exist.  A rule may be removed although its cgroup is gone.
    """
    if comm is not None and not 0 < len(os.fsencode(comm)) <= NAME_BYTES:
        known = os.fsdecode(os.fsencode(comm)[:NAME_BYTES]) or "Xorg"
        raise UsageError(f"--name: a process's name has 1 to {NAME_BYTES} bytes; give those, such as {known}")
    if cgroup is not None and (not cgroup.startswith("/") or ".." in cgroup.split("/")):
        raise UsageError(f"--cgroup: {cgroup} is no cgroup's path, such as /user.slice; /proc/PID/cgroup has one")
    if cgroup is not None and adding and not is_cgroup(cgroup):
        raise UsageError(f"--cgroup: there is no cgroup {cgroup}; /proc/PID/cgroup has the one of a process")


def is_cgroup(path: str) -> bool:
    """Whether this cgroup v2 exists.  Also true if this process cannot see cgroups."""
    folder = procs.cgroup_folder(path)
    return folder is None or os.path.isdir(folder)  # Path.is_dir() raises if the name is too long


def all_raisable(control: Control, gpu: int | None, policy: str = "", given: Collection[ClientInfo] = ()) -> None:
    """Raises RefusedError if policy boosted would refuse a real-time client's next segment: that ends most programs.

    ``policy``: the GPUs' future policy; empty: the present one.  ``given``: the clients in their future state.  Barred
    clients do not count: their refusal is intended.
    """
    normal = {one.gpu: one.normal_priorities for one in control.status() if gpu in (None, one.gpu)
              and one.normal_priorities and (known := POLICIES.get(policy or one.policy.word)) and known.raises
    }  # fmt: skip
    clients = [one for one in given or control.clients(gpu)
               if one.pid and one.priority and one.gpu in normal and not one.barred]  # fmt: skip
    module = Path(control.device).is_char_device()
    if lacks := sorted({why for one in clients for why in _unraisable(one, normal[one.gpu], module)}):
        raise RefusedError(f"policy boosted would refuse the segments of {', '.join(lacks)}; nothing was changed")


def _unraisable(one: ClientInfo, normal: int, module: bool) -> Iterator[str]:
    """The client, and what its thread lacks to be raised (gpurt_boost_refusal(), gpurt_boost_right()).

    RLIMIT_RTPRIO counts.  With the capability (module), or for root (user-space host), any priority is permitted.
    """
    who = f"{visible(one.comm)}-{one.pid}"
    needed, has = lib.gpurt_boost_right(normal, Form.OWNER if one.kept else one.form, one.priority), 0
    with suppress(procs.Unreadable):
        able = procs.has_sys_nice(one.pid) if module else procs.user(one.pid) == "0"
        has = lib.GPURT_MAX_PRIORITY if able else procs.rt_limit(one.pid)
    if lib.gpurt_boost_refusal(normal, one.own_priority, one.priority):
        yield f"{who} (needs SCHED_FIFO and GPU priorities 1 to {normal}, has {one.own_priority} and {one.priority})"
    elif has < needed:
        yield f"{who} (needs RLIMIT_RTPRIO {needed}, has {has}: prlimit --pid {one.pid} --rtprio={needed})"

# SPDX-License-Identifier: GPL-2.0
"""Rules about processes that a host may be given."""

from __future__ import annotations

import os

from gpurt.errors import UsageError
from pycontrol.machine import procs
from pycontrol.machine.procs import NAME_BYTES


def possible(comm: str | None, cgroup: str | None, *, adding: bool) -> None:
    """Raises UsageError for a rule that no process can match.

    A rule may be removed although its cgroup is gone, so whether there is one counts only for ``adding``.
    """
    if comm is not None and not 0 < len(os.fsencode(comm)) <= NAME_BYTES:
        known = os.fsdecode(os.fsencode(comm)[:NAME_BYTES]) or "Xorg"
        raise UsageError(f"--name: a process's name has 1 to {NAME_BYTES} bytes; give those, such as {known}")
    if cgroup is not None and (not cgroup.startswith("/") or ".." in cgroup.split("/")):
        raise UsageError(f"--cgroup: {cgroup} is no cgroup's path, such as /user.slice; /proc/PID/cgroup has one")
    if cgroup is not None and adding and not _is_cgroup(cgroup):
        raise UsageError(f"--cgroup: there is no cgroup {cgroup}; /proc/PID/cgroup has the one of a process")


def _is_cgroup(path: str) -> bool:
    """Whether there is such a cgroup v2, or none can be seen from here."""
    folder = procs.cgroup_folder(path)
    return folder is None or os.path.isdir(folder)  # Path's raises if the name is too long

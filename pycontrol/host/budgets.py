# SPDX-License-Identifier: GPL-2.0
"""The administrator's budgets of the user-space host: which there are, and which client is under which."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any

from gpurt._gpurt import ffi, lib
from pycontrol.host.peer import Peer, cgroup_of
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs


@dataclass(eq=False)
class Group:
    """The clients under one budget: of a process and those that it made, or of a cgroup and those below it.

    `start` is the process's start time, so that a reused pid does not match; 0 for a cgroup.
    """

    what: int | str
    start: int = 0
    raw: dict[int, Any] = field(default_factory=dict)  # the core's budget, by GPU

    def budget(self, gpu: int) -> Any:
        """The core's budget on that GPU."""
        if gpu not in self.raw:
            self.raw[gpu] = ffi.new("struct gpurt_budget *")
        return self.raw[gpu]

    @property
    def used(self) -> bool:
        """Whether there is a budget on any GPU."""
        return any(budget.limit for budget in self.raw.values())


class Budgets:
    """All groups; they hold for clients to come as well."""

    def __init__(self) -> None:
        """No budgets yet."""
        self.groups: dict[int | str, Group] = {}

    def named(self, what: int | str, make: bool) -> Group | None:
        """The group of a process or of a cgroup; None: there is none, and none was to be made.

        Raises:
            Refusal: no such process, a cgroup that is no absolute path, or too many budgets.
        """
        start = 0
        if isinstance(what, int):
            stat = procs.process(what)
            if stat is None:
                raise Refusal(errno.ESRCH, f"no process with pid {what}")
            start = stat.start
        elif not what.startswith("/"):
            raise Refusal(errno.EINVAL, "attribute GPURT_A_CGROUP must be a path that begins with /")
        found = self.groups.get(what)
        if found and found.start == start:
            return found
        if not make:
            return None
        if len(self.groups) >= lib.GPURT_MAX_RULES:
            raise Refusal(errno.ENOBUFS, f"there are {lib.GPURT_MAX_RULES} budgets already; remove some first")
        self.groups[what] = made = Group(what, start)
        return made

    def settle(self, group: Group) -> None:
        """A group that has no budget on any GPU any more is no group."""
        if not group.used and self.groups.get(group.what) is group:
            del self.groups[group.what]

    def of(self, peer: Peer, now: Group | None) -> Group | None:
        """The group of a process that is in group `now`: its own, else that of the nearest process above it.

        Else that of the nearest cgroup.  When processes above have ended, it stays where it is.

        Raises:
            Unreadable: what decides is not known.
        """
        if not self.groups:
            return None
        for pid, start in procs.ancestry(peer.pid):
            group = self.groups.get(pid)
            if group and group.start == start:
                return group
        if now and isinstance(now.what, int) and self.groups.get(now.what) is now:
            return now
        path = cgroup_of(peer)
        cgroups = [what for what in self.groups if isinstance(what, str) and procs.in_cgroup(path, what)]
        return self.groups[max(cgroups, key=len)] if cgroups else None

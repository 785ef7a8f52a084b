# SPDX-License-Identifier: GPL-2.0
"""The administrator's budgets of the user-space host, and the budget that each client is under."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from gpurt._gpurt import ffi, lib
from gpurt.types import CData
from pycontrol.host.peer import Peer, cgroup_of
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs


@dataclass(eq=False)
class Allowance:
    """The clients under one budget: of a process and those that it made, or of a cgroup and those below it.

    `start` is the process's start time, so that a reused pid does not match; 0 for a cgroup.
    """

    what: int | str
    start: int = 0
    raw: dict[int, CData] = field(default_factory=dict)  # the core's budget, by GPU

    def budget(self, gpu: int) -> CData:
        """The core's budget on that GPU."""
        if gpu not in self.raw:
            self.raw[gpu] = ffi.new("struct gpurt_budget *")
        return self.raw[gpu]

    @property
    def used(self) -> bool:
        """Whether there is a budget on any GPU."""
        return any(budget.limit for budget in self.raw.values())


class Budgets:
    """All allowances; they hold for clients to come as well."""

    def __init__(self) -> None:
        """No budgets yet."""
        self.allowances: dict[int | str, Allowance] = {}

    def named(self, what: int | str, make: bool) -> Allowance | None:
        """The allowance of a process or of a cgroup; None: there is none, and none was to be made.

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
        found = self.allowances.get(what)
        if found and found.start == start:
            return found
        if not make:
            return None
        if len(self.allowances) >= lib.GPURT_MAX_RULES:
            raise Refusal(errno.ENOBUFS, f"there are {lib.GPURT_MAX_RULES} budgets already; remove some first")
        self.allowances[what] = made = Allowance(what, start)
        return made

    def settle(self, allowance: Allowance) -> None:
        """An allowance that has no budget on any GPU any more is no allowance."""
        if not allowance.used and self.allowances.get(allowance.what) is allowance:
            del self.allowances[allowance.what]

    def of(self, peer: Peer, now: Allowance | None) -> Allowance | None:
        """The allowance of a process that is in allowance `now`: its own, else that of the nearest process above it.

        Else that of the nearest cgroup.  When processes above have ended, it stays where it is.

        Raises:
            Unreadable: what decides is not known.
        """
        if not self.allowances:
            return None
        for pid, start in procs.ancestry(peer.pid):
            allowance = self.allowances.get(pid)
            if allowance and allowance.start == start:
                return allowance
        if now and isinstance(now.what, int) and self.allowances.get(now.what) is now:
            return now
        path = cgroup_of(peer)
        cgroups = [what for what in self.allowances if isinstance(what, str) and procs.in_cgroup(path, what)]
        return self.allowances[max(cgroups, key=len)] if cgroups else None

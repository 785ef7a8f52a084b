# SPDX-License-Identifier: GPL-2.0
"""The administrator's budgets of the user-space host, and the budget that each client is under."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from gpurt._gpurt import ffi, lib
from gpurt.types import CData
from pycontrol.host.peer import Peer, cgroup_of, check_cgroup
from pycontrol.host.pieces import READS
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs

#: How far above a process a budget is looked for, as in kmod/clients/budgets.c.
GENERATIONS = 256


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
        self.changes = 0  # clients look for their allowance again when it grows

    def named(self, what: int | str, make: bool) -> Allowance | None:
        """The allowance of a process or of a cgroup; None: there is none, and the caller did not ask to make one.

        Raises:
            Refusal: no such process, a cgroup that is no absolute path, or too many budgets.
        """
        start = 0
        if isinstance(what, int):
            stat = procs.process(what)
            if stat is None:
                raise Refusal(errno.ESRCH, f"no process with pid {what}")
            start = stat.start
        else:
            check_cgroup(what)
        found = self.allowances.get(what)
        if found and found.start == start:
            return found
        if not make:
            return None
        if len(self.allowances) >= lib.GPURT_MAX_RULES:
            raise Refusal(errno.ENOBUFS, f"there are {lib.GPURT_MAX_RULES} budgets already; remove some first")
        self.allowances[what] = made = Allowance(what, start)
        self.changes += 1
        return made

    def settle(self, allowance: Allowance) -> None:
        """An allowance that has no budget on any GPU any more is no allowance."""
        if not allowance.used and self.allowances.get(allowance.what) is allowance:
            del self.allowances[allowance.what]
            self.changes += 1

    def search(self, peer: Peer, now: Allowance | None) -> Iterator[tuple[Allowance | None] | None]:
        """The allowance of a process that is in allowance `now`: its own, else that of the nearest process above it.

        Else that of the nearest cgroup.  When processes above have ended, it stays where it is.  In pieces, for a
        process may have many above it: None after each, then the allowance in a tuple.

        Raises:
            Unreadable: what decides is not known.
        """
        above = procs.ancestry(peer.pid) if any(isinstance(what, int) for what in self.allowances) else iter(())
        for number, (pid, start) in enumerate(islice(above, GENERATIONS), 1):
            allowance = self.allowances.get(pid)
            if allowance and allowance.start == start:
                yield (allowance,)
                return
            if number % (READS // 2) == 0:  # each takes two files
                yield None
        if now and isinstance(now.what, int) and self.allowances.get(now.what) is now:
            yield (now,)
            return
        nearest = procs.nearest_cgroup(cgroup_of(peer), self.allowances) if self.allowances else None
        yield (self.allowances[nearest] if nearest else None,)

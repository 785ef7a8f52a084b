# SPDX-License-Identifier: GPL-2.0
"""The budgets of the user-space host that the administrator sets, and which of them each client is under."""

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

#: How many generations above a process are searched for a budget, as in kmod/clients/budgets.c.
GENERATIONS = 256


@dataclass(eq=False)
class Allowance:
    """The clients under one budget: of a process and its descendants, or of a cgroup and the cgroups below it.

    `start` is the process's start time, so that a reused pid does not match; 0 for a cgroup.
    """

    what: int | str
    start: int = 0
    raw: dict[int, CData] = field(default_factory=dict)  # the core's budget, by GPU

    def budget(self, gpu: int) -> CData:
        """The allowance's budget in the core for that GPU."""
        if gpu not in self.raw:
            self.raw[gpu] = ffi.new("struct gpurt_budget *")
        return self.raw[gpu]

    @property
    def used(self) -> bool:
        """Whether the allowance has a budget on any GPU."""
        return any(budget.limit for budget in self.raw.values())


class Budgets:
    """All allowances; they hold for future clients as well."""

    def __init__(self) -> None:
        """Starts without budgets."""
        self.allowances: dict[int | str, Allowance] = {}
        self.changes = 0  # when this number grows, clients look for their allowance again

    def named(self, what: int | str, make: bool) -> Allowance | None:
        """The allowance of a process or a cgroup; None: there is none, and `make` is false.

        Raises:
            Refusal: no such process, a cgroup without an absolute path, or too many budgets.
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
        """Forgets an allowance that no longer has a budget on any GPU."""
        if not allowance.used and self.allowances.get(allowance.what) is allowance:
            del self.allowances[allowance.what]
            self.changes += 1

    def search(self, peer: Peer, now: Allowance | None) -> Iterator[tuple[Allowance | None] | None]:
        """The allowance of a process: its own, else its nearest ancestor's, else its nearest cgroup's; it had `now`.

        If ancestors have ended, a process stays in an ancestor's allowance.  A process may have many ancestors, so the
        search has pieces: it yields None after each, then the allowance in a tuple.

        Raises:
            Unreadable: the process's ancestors or its cgroup cannot be read.
        """
        above = procs.ancestry(peer.pid) if any(isinstance(what, int) for what in self.allowances) else iter(())
        for number, (pid, start) in enumerate(islice(above, GENERATIONS), 1):
            allowance = self.allowances.get(pid)
            if allowance and allowance.start == start:
                yield (allowance,)
                return
            if number % (READS // 2) == 0:  # each generation takes two files
                yield None
        if now and isinstance(now.what, int) and self.allowances.get(now.what) is now:
            yield (now,)
            return
        nearest = procs.nearest_cgroup(cgroup_of(peer), self.allowances) if self.allowances else None
        yield (self.allowances[nearest] if nearest else None,)

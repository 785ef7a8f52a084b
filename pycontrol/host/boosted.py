# SPDX-License-Identifier: GPL-2.0
"""Policy `boosted` on one GPU of the user-space host: which threads may be raised, and how.

core/boost decides when a thread is raised.  A host without the right to raise other processes' threads has them raise
themselves (uapi/gpurt.h, "Raised threads"): it refuses their begin until they have.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from gpurt._gpurt import lib
from gpurt.types import CData
from pycontrol.host.peer import Peer
from pycontrol.host.threads import Band, HostThread, Scheduling

BOOSTED = lib.GPURT_POLICY_BOOSTED
#: How many threads of a client may be about to raise themselves; each keeps two descriptors open.
MOST_ASKED = 64


@dataclass(frozen=True)
class Asked:
    """The scheduling that a thread was asked to give itself, and the scheduling that it had before."""

    own: Scheduling
    raised: Scheduling


@dataclass(frozen=True, eq=False)
class Kept:
    """The thread of a member of a group that raises all threads: raised while the group owns the GPU."""

    thread: HostThread
    right: int  # the highest CPU priority that the thread had the right to


@dataclass(eq=False)
class Boost:
    """The thread of a client, and the CPU priority that the thread may be raised to."""

    band: Band
    peer: Peer
    core: CData
    thread: HostThread | None = None  # the thread of the latest outermost begin
    may: bool = False  # whether the thread may be raised: checked at that begin
    right: int = 0  # the highest CPU priority that the thread had the right to at that begin
    kept: Kept | None = None  # set only in a group that raises all its threads
    barred: bool = False  # the administrator forbids raising it
    asked: dict[HostThread, Asked] = field(default_factory=dict)

    def begin(self, sched: CData, thread: HostThread, has: Scheduling, made: CData, now: int) -> tuple[int, int]:
        """Checks a begin (struct gpurt_begin) before it comes to the gate: 0 or -errno, and the thread's own priority.

        `has` is the thread's scheduling, without a raise by this host.
        """
        self.may = self.may and self.core.depth > 0
        own = self._own(thread, has)
        level = int(lib.gpurt_client_begin_level(self.core, own.own, made.priority))
        result = 0
        if not self.core.depth:
            if self.thread and self.thread is not thread:  # its group may have kept it raised
                self.thread.want(self, 0)
            self.thread = thread
            stated = lib.GPURT_FORM_OWNER if self.in_all else lib.gpurt_boost_stated(made.flags)
            lib.gpurt_boost_form(self.core, stated)
            lib.gpurt_boost_work(sched, self.core, False, now)
            if sched.policy == BOOSTED and level:
                result = self._admit(own, level, made)
                self.may = not result
        if not result:
            lib.gpurt_boost_ask(sched, self.core, level, now)
        return result, own.own

    def outdated(self, sched: CData, own: int, made: CData) -> bool:
        """Whether the begin of a thread of priority `own` must come to the gate once more now that its turn has come.

        It must if the thread should be raised and is not: the policy or a priority has changed since the begin came.
        """
        if sched.policy != BOOSTED or self.may or self.core.depth:
            return False
        return bool(lib.gpurt_client_begin_level(self.core, own, made.priority))

    def end(self, sched: CData, now: int) -> None:
        """Tells core/boost of an end before the end comes to the gate."""
        lib.gpurt_boost_ask(sched, self.core, lib.gpurt_client_level(self.core), now)

    def bar(self, barred: bool) -> None:
        """Sets whether the administrator's rules bar the client.  If so, lowers the thread that this host has raised.

        A thread that waits at the gate was checked before; it is lowered when it leaves the gate, as in the module.
        """
        self.barred = barred
        self.left_gate()

    def left_gate(self) -> None:
        """Lowers the client's thread if it must not stay raised outside of the gate."""
        at_gate = self.core.boost.asked or self.core.boost.turn
        if self.barred and self.band.able and not at_gate:
            self.level(0)
            self.may = False
            self.kept = None
        elif self.thread and self.in_all and not self.core.depth and not at_gate:
            self.thread.want(self, 0)  # outside of segments a group raises only the threads that its members keep
            self.may = False

    @property
    def in_all(self) -> bool:
        """Whether the client is in a group that raises all its threads, as in form owner."""
        entry = self.core.entry
        return bool(entry != self.core and entry.group.group.all)

    def keeps(self, thread: HostThread, right: int) -> None:
        """From now on the client's group raises this thread, which has ``right``, in place of the previous thread."""
        if self.barred or (self.kept and self.kept.thread is thread):
            return
        if self.kept:
            self.kept.thread.want(self.kept, 0)
        self.kept = Kept(thread, right)
        self._keep(self.core.boost.raised)

    def _keep(self, level: int) -> None:
        if self.kept and level != lib.GPURT_RAISED_TOP:
            self.kept.thread.want(self.kept, min(self.band.cpu(level), self.kept.right))

    def _own(self, thread: HostThread, has: Scheduling) -> Scheduling:
        """The thread's scheduling before it raised itself at this host's request."""
        asked = self.asked.get(thread)
        return asked.own if asked and has == asked.raised else has

    def _admit(self, own: Scheduling, level: int, made: CData) -> int:
        """Whether the client's thread may be raised for a segment of that level: 0 or -errno."""
        refused = int(lib.gpurt_boost_refusal(self.band.normal, own.own, level))
        if refused:
            return refused
        self.right = self.peer.right
        if self.barred or self.right < self.band.right(self.core.boost.form, level):
            return -errno.EPERM
        return 0 if self.band.able else self._raised_itself(own, self.band.cpu(level), made)

    def _raised_itself(self, own: Scheduling, cpu: int, made: CData) -> int:
        assert self.thread
        raised = Scheduling(os.SCHED_FIFO, cpu)
        if self.core.boost.form != lib.GPURT_FORM_SELF:
            return -errno.EOPNOTSUPP
        if self.asked.get(self.thread) == Asked(own, raised) and self.thread.has(raised):
            del self.asked[self.thread]
            self.thread.adopt(own, raised)
            return 0
        if len(self.asked) >= MOST_ASKED:
            self.asked.clear()
        self.asked[self.thread] = Asked(own, raised)
        made.raised = cpu
        return -errno.EAGAIN

    def level(self, level: int) -> None:
        """From now on the thread has to execute at this level of core/boost.h."""
        self._keep(level)
        if self.thread and self.may and (self.band.able or not level):
            # the thread's user may keep a priority that it once had; an administrator may since have set a higher level
            self.thread.want(self, min(self.band.cpu(level), self.right))

    def is_fenced(self, caller: Callable[[], HostThread]) -> bool:
        """Whether the form is fence and the calling thread is the raised one.  Raises what `caller` raises."""
        return bool(self.core.boost.form == lib.GPURT_FORM_FENCE and self.thread is caller())

    @property
    def raised(self) -> int:
        """The CPU priority that the thread is raised to; 0: it is not raised."""
        begun = self.thread.level() if self.thread and self.may else 0
        return max(begun, self.kept.thread.level() if self.kept else 0)

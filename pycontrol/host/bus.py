# SPDX-License-Identifier: GPL-2.0
"""The bus between memory and one GPU of the user-space host: which client may copy (core/bus), and raising its thread.

Decisions about the bus do not touch the runlist, so they do not wait for updates of it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from gpurt._gpurt import ffi, lib
from gpurt.enums import EventKind
from gpurt.types import CData
from pycontrol.host.peer import Peer
from pycontrol.host.threads import Band, HostThread
from pycontrol.host.waiter import Waiter

IDLE, PENDING, RUNNING = lib.GPURT_STATE_IDLE, lib.GPURT_STATE_PENDING, lib.GPURT_STATE_RUNNING


def _node() -> CData:
    node = ffi.new("struct gpurt_bus_node *")
    lib.gpurt_bus_node_init(node)
    return node


@dataclass(eq=False)
class Copier:
    """A client's place on the bus, and the client's thread that copies."""

    node: CData = field(default_factory=_node)
    waiter: Waiter | None = None  # the call that waits for the bus
    own: int = 0  # the thread's own priority; `hint`: the priority that the thread asked for
    hint: int = 0
    request: int = 0  # the number of the client's last BEGIN or NEXT
    thread: HostThread | None = None  # None: no thread is raised
    right: int = 0  # the highest CPU priority that the thread had the right to

    def raise_to(self, cpu: int) -> None:
        """Raises the thread to a CPU priority, at most to its right; 0: lowers the thread."""
        if self.thread:
            self.thread.want(self, min(cpu, self.right))
            self.thread = self.thread if cpu else None

    @property
    def waits(self) -> bool:
        """Whether the client copies or waits to copy: only then its level matters."""
        return bool(self.node.state != IDLE)

    @property
    def raised(self) -> int:
        """The CPU priority that the thread is raised to; 0: it is not raised."""
        return self.thread.level() if self.thread else 0


#: Called with each event: the copier, the event's kind and time, and for COPY_BEGIN how long the copier waited.
Tell = Callable[[Copier, EventKind, int, int], None]


class Bus:
    """One GPU's bus."""

    def __init__(self, band: Band, tell: Tell, clock: Callable[[], int]) -> None:
        self.band = band
        self.tell = tell
        self.clock = clock
        self.raw = ffi.new("struct gpurt_bus *")
        lib.gpurt_bus_init(self.raw)
        self._by_node: dict[CData, Copier] = {}  # the copiers that have asked for the bus

    @property
    def holder(self) -> Copier | None:
        """The copier that has the bus, or None."""
        return self._by_node.get(self.raw.holder)

    def admit(self, copier: Copier, thread: HostThread, level: int, peer: Peer, barred: bool) -> int:
        """Under policy `boosted`, before a request: raises the thread.  0 or -errno (uapi/gpurt.h)."""
        refused = int(lib.gpurt_boost_refusal(self.band.normal, thread.own_now().own, level))
        if refused or not level:
            return refused
        right = peer.right
        if barred or right < self.band.right(lib.GPURT_FORM_SELF, level):
            return -errno.EPERM
        if not self.band.able:
            return -errno.EOPNOTSUPP
        copier.thread, copier.right = thread, right
        copier.raise_to(self.band.cpu(level))
        return 0

    def request(self, copier: Copier, level: int, waiter: Waiter) -> None:
        """Asks for the bus.  The waiter learns when the client has the bus, or when the wait ends without it."""
        now, old = self.clock(), self.raw.holder
        self._by_node[copier.node], copier.waiter = copier, waiter
        lib.gpurt_bus_request(self.raw, copier.node, level, now)
        self.tell(copier, EventKind.COPY_ASK, now, 0)
        self._handed(old, now)

    def next(self, copier: Copier, waiter: Waiter) -> int:
        """The copier has copied a chunk and has another: 0 or -ENOENT."""
        if copier.node.state != RUNNING:
            return -errno.ENOENT
        now, old = self.clock(), self.raw.holder
        copier.waiter = waiter
        lib.gpurt_bus_next(self.raw, copier.node, now)
        if self.raw.holder == old:
            self._answer(copier, 0, now)
            return 0
        self.tell(copier, EventKind.COPY_END, now, 0)
        self.tell(copier, EventKind.COPY_ASK, now, 0)
        self._handed(old, now)
        return 0

    def release(self, copier: Copier) -> int:
        """Ends the copy: 0 or -ENOENT.  Or withdraws the request; the waiting call then gets ECANCELED."""
        if copier.node.state == IDLE:
            return -errno.ENOENT
        now, old = self.clock(), self.raw.holder
        lib.gpurt_bus_release(self.raw, copier.node, now)
        self._over(copier, -errno.ECANCELED, now)
        self._handed(old, now)
        return 0

    def relevel(self, copier: Copier, level: int) -> None:
        """Gives the client another level."""
        lib.gpurt_bus_set_level(self.raw, copier.node, level)
        copier.raise_to(self.band.cpu(level))

    def due(self) -> int:
        """When `advance` must be called; FOREVER: never."""
        return int(lib.gpurt_bus_deadline(self.raw))

    def advance(self, now: int) -> None:
        """Takes the bus from a best-effort client that has kept it from real-time clients for too long."""
        old = self.raw.holder
        late = self._by_node.get(lib.gpurt_bus_tick(self.raw, now))
        if late:
            self.tell(late, EventKind.OVERRUN, now, 0)
            self._over(late, 0, now)
            self._handed(old, now)

    def _over(self, copier: Copier, result: int, now: int) -> None:
        """Ends a copy or a request, and answers the call that waits for it."""
        del self._by_node[copier.node]
        self.tell(copier, EventKind.COPY_END, now, 0)
        copier.raise_to(0)
        self._answer(copier, result, now)

    def _handed(self, old: CData, now: int) -> None:
        """Tells the bus's holder that it has the bus, unless it was the holder before."""
        copier = self.holder
        if copier and copier.node != old:
            self.tell(copier, EventKind.COPY_BEGIN, now, copier.node.waited)
            self._answer(copier, 0, now)

    def _answer(self, copier: Copier, result: int, now: int) -> None:
        waiter, copier.waiter = copier.waiter, None
        if waiter:
            waiter.finish(result, now)

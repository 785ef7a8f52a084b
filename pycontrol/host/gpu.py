# SPDX-License-Identifier: GPL-2.0
"""One GPU of the user-space host: the compiled scheduler, its clients, and who waits for what.

What carries out a runlist update and what work is on the GPU is the business of the two kinds of GPU: `VirtualGpu`
(host_virtual.py) and `AgentGpu` (host_agents.py).  The core calls back in the middle of its decisions; what a
callback learns is kept and acted upon afterwards (`Gpu.settle`), so that no request is answered from inside the core.
"""

from __future__ import annotations

import errno
import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpurt._gpurt import ffi, lib
from gpurt.enums import Cause, EventKind, Tier
from pycontrol.host.peer import Peer

FOREVER = lib.GPURT_FOREVER

#: Answers a request: its result, and the time at which what it waited for happened.
Answer = Callable[[int, int], None]


@dataclass(eq=False)
class Waiter:
    """A request that is answered later, once."""

    answer: Answer
    answered: bool = False

    def finish(self, result: int, when: int = 0) -> None:
        """Answers it, unless that has been done."""
        if not self.answered:
            self.answered = True
            self.answer(result, when)


@dataclass(eq=False)
class Client:
    """A connection's client on one GPU; `own` is what its kind of GPU keeps about it."""

    id: int
    peer: Peer
    core: Any
    own: Any = None
    grant_waiters: list[Waiter] = field(default_factory=list)


@dataclass(frozen=True)
class Facts:
    """What a GPU says of itself; times in ns, 0 where unknown."""

    tier: Tier
    driver: str
    caps: int
    alpha: int = 0
    theta: int = 0
    slice: int = 0


#: Told of every event: GPU, client (None: everyone), kind, time, cause and latency of commits.
Tell = Callable[["Gpu", "Client | None", EventKind, int, "Cause | None", int], None]


@ffi.def_extern()  # type: ignore[untyped-decorator,unused-ignore]
def gpurt_py_commit(sched: Any, only: Any, cause: int, now: int) -> None:
    """From the core: the runlist is to be `only`."""
    ffi.from_handle(sched.host).on_commit(only, cause, now)


@ffi.def_extern()  # type: ignore[untyped-decorator,unused-ignore]
def gpurt_py_event(sched: Any, client: Any, event: int, now: int) -> None:
    """From the core: something happened to a client."""
    ffi.from_handle(sched.host).on_event(client, event, now)


class Gpu(ABC):
    """One GPU, its clients and its statistics."""

    def __init__(self, index: int, policy: int, tell: Tell, clock: Callable[[], int]) -> None:
        self.index = index
        self.tell = tell
        self.clock = clock
        self.clients: dict[int, Client] = {}
        self.commits = 0
        self.faults = 0
        self.busy_until = 0
        self.latency = {cause: ffi.new("struct gpurt_latency *") for cause in Cause}
        self.notice, self.poll_ns = lib.GPURT_NOTICE_POLL, 1_000_000
        self._by_client: dict[int, Client] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._woken: list[Client | None] = []
        self._granted: set[Client] = set()
        self._handle = ffi.new_handle(self)
        self._sched_ops = ffi.new(
            "struct gpurt_sched_ops *", {"commit": lib.gpurt_py_commit, "event": lib.gpurt_py_event}
        )
        self.sched = ffi.new("struct gpurt_sched *")
        now = clock()
        lib.gpurt_sched_init(self.sched, self._sched_ops, self._handle, now)
        self.prepare(now)
        lib.gpurt_set_policy(self.sched, policy, now)

    # What a kind of GPU does

    @abstractmethod
    def prepare(self, now: int) -> None:
        """Before the first decision."""

    @abstractmethod
    def facts(self) -> Facts:
        """What it says of itself."""

    @abstractmethod
    def commit(self, only: Client | None, cause: Cause, now: int) -> None:
        """Carries out a runlist update, now or over time; nothing else is decided before `busy_until`."""

    @abstractmethod
    def after_update(self, then: Callable[[], None]) -> None:
        """Runs `then` once the runlist update in flight is over: a caller pays for the update it causes."""

    @abstractmethod
    def enter(self, client: Client) -> None:
        """A client has joined."""

    @abstractmethod
    def part(self, client: Client, now: int) -> None:
        """A client has gone; the scheduler knows."""

    @abstractmethod
    def mark(self, client: Client, exempt: bool, now: int) -> None:
        """A client is to be on every runlist, or no longer."""

    @abstractmethod
    def late(self) -> int:
        """How many processes have not obeyed in time."""

    # What the core says

    def on_commit(self, only: Any, cause: int, now: int) -> None:
        """The runlist is to be `only`."""
        client = self._by_client[int(ffi.cast("uintptr_t", only))] if only != ffi.NULL else None
        self.commits += 1
        self.commit(client, Cause(cause), now)

    def committed(self, client: Client | None, cause: Cause, began: int, latency: int) -> None:
        """An update is over: measures it, and tells subscribers."""
        lib.gpurt_latency_record(self.latency[cause], latency)
        self.tell(self, client, EventKind.COMMIT, began, cause, latency)

    def on_event(self, core: Any, event: int, now: int) -> None:
        """Notes whom to wake, and tells subscribers."""
        kind = EventKind(event)
        client = self._by_client.get(int(ffi.cast("uintptr_t", core))) if core != ffi.NULL else None
        if kind in (EventKind.GRANT, EventKind.RESUME):
            self._woken.append(client)
        self.tell(self, client, kind, now, None, 0)

    # Time

    def advance(self, now: int) -> None:
        """Lets everything up to `now` happen."""
        if self.sched.deadline <= now:
            lib.gpurt_tick(self.sched, now)
        self._run_queue(now)
        self.settle()

    def next(self) -> int:
        """When something will happen by itself, ns; FOREVER: never."""
        return int(min(self.sched.deadline, self.busy_until if self._queue else FOREVER))

    def prompt(self) -> int:
        """When somebody may have to be told something, ns."""
        return int(self.busy_until if self._queue else FOREVER)

    def settle(self) -> None:
        """Answers those whose wait is over."""
        while self._woken:
            woken, self._woken = self._woken, []
            for client_or_all in woken:
                for client in list(self._granted) if client_or_all is None else [client_or_all]:
                    self._wake(client)

    def _wake(self, client: Client) -> None:
        if client in self._granted and self.granted(client):
            self._granted.discard(client)
            waiters, client.grant_waiters = client.grant_waiters, []
            for waiter in waiters:
                waiter.finish(0, self.clock())

    # Runlist updates are serialised: one that takes time makes the next wait, by GPU priority

    def update(self, priority: int, decide: Callable[[], None]) -> None:
        """Takes a decision now, or as soon as the update in flight is over."""
        now = self.clock()
        if now >= self.busy_until and not self._queue:
            decide()
        else:
            heapq.heappush(self._queue, (-priority, next(self._order), decide))

    def _run_queue(self, now: int) -> None:
        while self._queue and now >= self.busy_until:
            heapq.heappop(self._queue)[2]()

    def granted(self, client: Client) -> bool:
        """Whether the client holds the GPU."""
        return bool(lib.gpurt_state_of(self.sched, client.core) == lib.GPURT_STATE_RUNNING)

    def runner(self) -> Client | None:
        """Who has the GPU alone."""
        return self._by_client.get(int(ffi.cast("uintptr_t", self.sched.runner)))

    # Clients

    def join(self, id_: int, peer: Peer, exempt: bool) -> Client:
        """A connection becomes a client of this GPU."""
        client = Client(id_, peer, ffi.new("struct gpurt_sched_client *"))
        lib.gpurt_sched_client_init(client.core)
        self.clients[id_] = client
        self._by_client[int(ffi.cast("uintptr_t", client.core))] = client
        self.enter(client)
        self.exempt(client, exempt)
        return client

    def leave(self, client: Client) -> None:
        """The client is gone: its place is free, its TSGs and its work with it."""
        now = self.clock()
        lib.gpurt_gone(self.sched, client.core, now)
        self._granted.discard(client)
        del self.clients[client.id]
        self.part(client, now)
        del self._by_client[int(ffi.cast("uintptr_t", client.core))]
        self.settle()

    def exempt(self, client: Client, exempt: bool) -> None:
        """Keeps the client's TSGs on every runlist, or no longer."""
        if bool(client.core.exempt) != exempt:
            now = self.clock()
            self.mark(client, exempt, now)
            lib.gpurt_set_exempt(self.sched, client.core, exempt, now)
            self.settle()

    def wait_grant(self, client: Client, waiter: Waiter) -> None:
        """Answers once the client holds the GPU."""
        if self.granted(client):
            waiter.finish(0, self.clock())
        else:
            client.grant_waiters.append(waiter)
            self._granted.add(client)

    def segment_over(self, client: Client) -> None:
        """Answers those who wait for a GPU that their client, whose segment is over, will not be given."""
        if not client.core.depth:
            self._granted.discard(client)
            waiters, client.grant_waiters = client.grant_waiters, []
            for waiter in waiters:
                waiter.finish(-errno.ENOENT)

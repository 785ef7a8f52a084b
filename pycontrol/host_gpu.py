# SPDX-License-Identifier: GPL-2.0
"""One GPU of the user-space host: the compiled scheduler and virtual GPU, and who waits for what on them.

The core calls back in the middle of its decisions; what a callback learns is kept and acted upon afterwards
(`Gpu.settle`), so that no request is answered from inside the core.
"""

from __future__ import annotations

import errno
import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pycontrol._gpurt import ffi, lib
from pycontrol.enums import Cause, EventKind
from pycontrol.host_peer import Peer
from pycontrol.host_wire import Refusal

#: Completion times that a TSG remembers.
REMEMBERED = lib.GPURT_REMEMBERED
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
class Tsg:
    """A time-slice group and its work."""

    number: int
    raw: Any
    works: dict[int, tuple[Any, int]] = field(default_factory=dict)  # the item, and when it was submitted
    when: OrderedDict[int, int] = field(default_factory=OrderedDict)
    waiters: dict[int, list[Waiter]] = field(default_factory=dict)


@dataclass(eq=False)
class Member:
    """A connection's client on one GPU."""

    id: int
    peer: Peer
    core: Any
    context: Any
    tsgs: dict[int, Tsg] = field(default_factory=dict)
    grant_waiters: list[Waiter] = field(default_factory=list)
    idle_waiters: list[Waiter] = field(default_factory=list)
    last_done: int = 0

    @property
    def idle(self) -> bool:
        """Whether all submitted work has completed."""
        return not any(tsg.works for tsg in self.tsgs.values())


@dataclass(frozen=True)
class Shape:
    """How the virtual GPUs behave; times in ns."""

    alpha: int = 0
    theta: int = 0
    slice: int = 1_024_000
    copy_engine: bool = True


#: Told of every event: GPU, client (None: everyone), kind, time, cause and latency of commits.
Tell = Callable[["Gpu", "Member | None", EventKind, int, "Cause | None", int], None]


@ffi.def_extern()  # type: ignore[untyped-decorator,unused-ignore]
def gpurt_py_commit(sched: Any, only: Any, cause: int, now: int) -> None:
    """From the core: the runlist is to be `only`."""
    ffi.from_handle(sched.host).on_commit(only, cause, now)


@ffi.def_extern()  # type: ignore[untyped-decorator,unused-ignore]
def gpurt_py_event(sched: Any, client: Any, event: int, now: int) -> None:
    """From the core: something happened to a client."""
    ffi.from_handle(sched.host).on_event(client, event, now)


@ffi.def_extern()  # type: ignore[untyped-decorator,unused-ignore]
def gpurt_py_done(vgpu: Any, tsg: Any, work: Any, when: int) -> None:
    """From the virtual GPU: a work item completed."""
    ffi.from_handle(vgpu.host).on_done(tsg, work, when)


@ffi.def_extern()  # type: ignore[untyped-decorator,unused-ignore]
def gpurt_py_run(vgpu: Any, tsg: Any, when: int) -> None:
    """From the virtual GPU: it executes another TSG now; nobody asks."""


class Gpu:
    """One GPU, its clients and its statistics."""

    def __init__(self, index: int, shape: Shape, policy: int, tell: Tell, clock: Callable[[], int]) -> None:
        self.index = index
        self.shape = shape
        self.tell = tell
        self.clock = clock
        self.members: dict[int, Member] = {}
        self.commits = 0
        self.busy_until = 0
        self.latency = {cause: ffi.new("struct gpurt_latency *") for cause in Cause}
        self.notice, self.poll_ns = lib.GPURT_NOTICE_POLL, 1_000_000
        self._by_client: dict[int, Member] = {}
        self._by_tsg: dict[int, tuple[Member, Tsg]] = {}
        self._numbers: list[int] = []
        self._next_number = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._woken: list[Member | None] = []
        self._done: list[tuple[Member, Tsg, int, int]] = []
        self._granted: set[Member] = set()
        self._handle = ffi.new_handle(self)
        self._sched_ops = ffi.new(
            "struct gpurt_sched_ops *", {"commit": lib.gpurt_py_commit, "event": lib.gpurt_py_event}
        )
        self._vgpu_ops = ffi.new("struct gpurt_vgpu_ops *", {"done": lib.gpurt_py_done, "run": ffi.NULL})
        self.sched = ffi.new("struct gpurt_sched *")
        self.vgpu = ffi.new("struct gpurt_vgpu *")
        now = clock()
        lib.gpurt_vgpu_init(
            self.vgpu, self._vgpu_ops, self._handle, shape.slice, shape.theta, shape.alpha, shape.copy_engine, now
        )
        lib.gpurt_sched_init(self.sched, self._sched_ops, self._handle, now)
        lib.gpurt_set_policy(self.sched, policy, now)

    # What the core says

    def on_commit(self, only: Any, cause: int, now: int) -> None:
        """Carries out a runlist update and measures it."""
        member = self._by_client[int(ffi.cast("uintptr_t", only))] if only != ffi.NULL else None
        started = self.clock()
        end = lib.gpurt_vgpu_commit(self.vgpu, member.context if member else ffi.NULL, now)
        self.busy_until = max(self.busy_until, end)
        latency = end - now + self.clock() - started
        lib.gpurt_latency_record(self.latency[Cause(cause)], latency)
        self.commits += 1
        self.tell(self, member, EventKind.COMMIT, now, Cause(cause), latency)

    def on_event(self, client: Any, event: int, now: int) -> None:
        """Notes whom to wake, and tells subscribers."""
        kind = EventKind(event)
        member = self._by_client.get(int(ffi.cast("uintptr_t", client))) if client != ffi.NULL else None
        if kind in (EventKind.GRANT, EventKind.RESUME):
            self._woken.append(member)
        self.tell(self, member, kind, now, None, 0)

    def on_done(self, raw: Any, work: Any, when: int) -> None:
        """Notes a completion."""
        member, tsg = self._by_tsg[int(ffi.cast("uintptr_t", raw))]
        self._done.append((member, tsg, work.number, when))

    # Time

    def advance(self, now: int) -> None:
        """Lets everything up to `now` happen."""
        lib.gpurt_vgpu_advance(self.vgpu, now)
        if self.sched.deadline <= now:
            lib.gpurt_tick(self.sched, now)
        self._run_queue(now)
        self.settle()

    def next(self) -> int:
        """When something will happen by itself, ns; FOREVER: never."""
        queued = self.busy_until if self._queue else FOREVER
        return int(min(lib.gpurt_vgpu_next(self.vgpu), self.sched.deadline, queued))

    def prompt(self) -> int:
        """When somebody may have to be told something, ns: work completes, or a queued update begins.

        The end of a slice or of a context switch concerns nobody outside.
        """
        at = lib.gpurt_vgpu_next(self.vgpu)
        if at in (self.vgpu.slice_end, self.vgpu.ready_at):
            at = FOREVER
        return int(min(at, self.busy_until if self._queue else FOREVER))

    def settle(self) -> None:
        """Answers those whose wait is over."""
        while self._done or self._woken:
            done, self._done = self._done, []
            woken, self._woken = self._woken, []
            for member, tsg, number, when in done:
                self._completed(member, tsg, number, when)
            for member_or_all in woken:
                for member in list(self._granted) if member_or_all is None else [member_or_all]:
                    self._wake(member)

    def _wake(self, member: Member) -> None:
        if member in self._granted and self.granted(member):
            self._granted.discard(member)
            waiters, member.grant_waiters = member.grant_waiters, []
            for waiter in waiters:
                waiter.finish(0, self.clock())

    def _completed(self, member: Member, tsg: Tsg, number: int, when: int) -> None:
        _, submitted = tsg.works.pop(number)
        tsg.when[number] = member.last_done = when
        if len(tsg.when) > REMEMBERED:
            tsg.when.popitem(last=False)
        self.tell(self, member, EventKind.WORK, when, None, when - submitted)
        for waiter in tsg.waiters.pop(number, []):
            waiter.finish(0, when)
        if member.idle_waiters and member.idle:
            waiters, member.idle_waiters = member.idle_waiters, []
            for waiter in waiters:
                waiter.finish(0, when)

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

    def granted(self, member: Member) -> bool:
        """Whether the client holds the GPU."""
        return bool(lib.gpurt_client_state(self.sched, member.core) == lib.GPURT_STATE_RUNNING)

    # Clients

    def join(self, id_: int, peer: Peer, exempt: bool) -> Member:
        """A connection becomes a client of this GPU."""
        member = Member(id_, peer, ffi.new("struct gpurt_client *"), ffi.new("struct gpurt_vgpu_ctx *"))
        lib.gpurt_client_init(member.core)
        lib.gpurt_vgpu_ctx_init(member.context)
        self.members[id_] = member
        self._by_client[int(ffi.cast("uintptr_t", member.core))] = member
        self.exempt(member, exempt)
        return member

    def leave(self, member: Member) -> None:
        """The client is gone: its place is free, its TSGs and its work with it."""
        now = self.clock()
        lib.gpurt_client_gone(self.sched, member.core, now)
        for number in list(member.tsgs):
            self._drop(member, number, now)
        self._granted.discard(member)
        del self.members[member.id]
        del self._by_client[int(ffi.cast("uintptr_t", member.core))]
        self.settle()

    def exempt(self, member: Member, exempt: bool) -> None:
        """Keeps the client's TSGs on every runlist, or no longer."""
        if bool(member.core.exempt) != exempt:
            now = self.clock()
            lib.gpurt_vgpu_exempt(self.vgpu, member.context, exempt, now)
            lib.gpurt_set_exempt(self.sched, member.core, exempt, now)
            self.settle()

    def wait_grant(self, member: Member, waiter: Waiter) -> None:
        """Answers once the client holds the GPU."""
        if self.granted(member):
            waiter.finish(0, self.clock())
        else:
            member.grant_waiters.append(waiter)
            self._granted.add(member)

    def segment_over(self, member: Member) -> None:
        """Answers those who wait for a GPU that their client, whose segment is over, will not be given."""
        if not member.core.depth:
            self._granted.discard(member)
            waiters, member.grant_waiters = member.grant_waiters, []
            for waiter in waiters:
                waiter.finish(-errno.ENOENT)

    def wait_idle(self, member: Member, waiter: Waiter) -> None:
        """Answers once all the client's work has completed."""
        if member.idle:
            waiter.finish(0, member.last_done)
        else:
            member.idle_waiters.append(waiter)

    # TSGs and work

    def open_tsg(self, member: Member) -> int:
        """A new TSG's number.  Raises Refusal EMFILE when there are too many."""
        if len(self._by_tsg) >= lib.GPURT_MAX_TSGS:
            raise Refusal(errno.EMFILE, f"the GPU has {lib.GPURT_MAX_TSGS} TSGs already")
        if self._numbers:
            number = self._numbers.pop()
        else:
            number, self._next_number = self._next_number, self._next_number + 1
        tsg = Tsg(number, ffi.new("struct gpurt_vgpu_tsg *"))
        lib.gpurt_vgpu_tsg_open(tsg.raw, member.context)
        member.tsgs[number] = tsg
        self._by_tsg[int(ffi.cast("uintptr_t", tsg.raw))] = (member, tsg)
        lib.gpurt_tsg_opened(self.sched, member.core, self.clock())
        self.settle()
        return number

    def tsg(self, member: Member, number: int) -> Tsg:
        """The client's TSG of that number.  Raises Refusal ENOENT."""
        try:
            return member.tsgs[number]
        except KeyError:
            raise Refusal(errno.ENOENT, f"no TSG {number} of this client") from None

    def close_tsg(self, member: Member, number: int) -> None:
        """Closes a TSG; the last one takes an open segment along.  Raises Refusal ENOENT."""
        self.tsg(member, number)
        now = self.clock()
        self._drop(member, number, now)
        lib.gpurt_tsg_closed(self.sched, member.core, now)
        if member.idle:
            for waiter in member.idle_waiters:
                waiter.finish(0, member.last_done)
            member.idle_waiters = []
        self.segment_over(member)
        self.settle()

    def _drop(self, member: Member, number: int, now: int) -> None:
        tsg = member.tsgs[number]
        lib.gpurt_vgpu_advance(self.vgpu, now)
        self.settle()
        while lib.gpurt_vgpu_drop(self.vgpu, tsg.raw, now) != ffi.NULL:
            pass
        lib.gpurt_vgpu_tsg_close(self.vgpu, tsg.raw, now)
        tsg.works.clear()
        for waiters in tsg.waiters.values():
            for waiter in waiters:
                waiter.finish(-errno.ENOENT)
        del member.tsgs[number]
        del self._by_tsg[int(ffi.cast("uintptr_t", tsg.raw))]
        self._numbers.append(number)

    def submit(self, member: Member, number: int, engine: int, fence: bool, duration: int) -> int:
        """Queues work; its number.  Raises Refusal ENOENT or ENOBUFS."""
        tsg = self.tsg(member, number)
        if len(tsg.works) >= lib.GPURT_MAX_QUEUED:
            raise Refusal(errno.ENOBUFS, f"TSG {number} has {lib.GPURT_MAX_QUEUED} items queued")
        work = ffi.new("struct gpurt_vgpu_work *")
        now = self.clock()
        made = int(lib.gpurt_vgpu_submit(self.vgpu, tsg.raw, work, engine, fence, duration, now))
        tsg.works[made] = (work, now)
        self.settle()
        return made

    def wait_work(self, member: Member, number: int, work: int, waiter: Waiter) -> None:
        """Answers once that work has completed.  Raises Refusal ENOENT for work that was never submitted."""
        tsg = self.tsg(member, number)
        if not 0 < work <= tsg.raw.submitted:
            raise Refusal(errno.ENOENT, f"TSG {number} has no work {work}")
        if work in tsg.works:
            tsg.waiters.setdefault(work, []).append(waiter)
        else:
            waiter.finish(0, tsg.when.get(work, member.last_done))

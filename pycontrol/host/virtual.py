# SPDX-License-Identifier: GPL-2.0
"""Virtual GPUs of the user-space host: the compiled virtual GPU, its TSGs and their work (`gpurt emulate`)."""

from __future__ import annotations

import errno
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpurt._gpurt import ffi, lib
from gpurt.enums import Cap, EventKind, Tier
from gpurt.types import CData
from pycontrol.host.gpu import Decision, Facts, Gpu, GpuClient, Owner, Tell, heard, table
from pycontrol.host.groups import Seat
from pycontrol.host.threads import Band
from pycontrol.host.users import TSG, WORK
from pycontrol.host.waiter import FOREVER, Waiter, Waiters
from pycontrol.host.wire import Refusal

if TYPE_CHECKING:
    from pycontrol.host.whole import Whole

#: How many items may complete on a virtual GPU in one call before its time stands still until the next call, as in the
#: module.  Without it, any amount of short work would keep the host from its clients.
MAX_WORKS_AT_ONCE = 16
#: How many completion times a TSG remembers.
REMEMBERED = lib.GPURT_REMEMBERED


@dataclass(eq=False)
class Tsg:
    """A time-slice group and its work."""

    number: int
    raw: CData
    works: dict[int, tuple[CData, int]] = field(default_factory=dict)  # the item, and when it was submitted
    when: OrderedDict[int, int] = field(default_factory=OrderedDict)
    waiters: dict[int, Waiters] = field(default_factory=dict)


@dataclass(eq=False)
class Context:
    """A client's context, TSGs and waiters on the virtual GPU."""

    context: CData
    tsgs: dict[int, Tsg] = field(default_factory=dict)
    waiters: Waiters = field(default_factory=Waiters)  # calls that wait for all the client's work
    last_done: int = 0
    awaits: tuple[int, int] | None = None  # form fence: TSG and number of the awaited work; None: all work
    queued: int = 0  # items that have not completed

    @property
    def idle(self) -> bool:
        """Whether all submitted work has completed."""
        return not self.queued


@dataclass(frozen=True)
class Shape:
    """How a virtual GPU behaves; times in ns.  ``units``: how many units a parallel kernel can be divided among."""

    alpha: int = 0
    theta: int = 0
    slice: int = 1_024_000
    copy_engine: bool = True
    units: int = 1


VGPU_EVENTS = ("done",)
heard(VGPU_EVENTS)


class VirtualGpu(Gpu):
    """A virtual GPU and its clients' TSGs and work."""

    sees_work = True

    def __init__(
        self, index: int, shape: Shape, policy: int, tell: Tell, clock: Callable[[], int], band: Band = Band(),  # noqa: B008
        whole: Whole | None = None,
    ) -> None:  # fmt: skip
        """As Gpu.  ``whole``: the GPU that this GPU is a partition of."""
        self.shape = shape
        self._whole = whole
        self._by_tsg: dict[CData, tuple[GpuClient, Tsg]] = {}
        self._done: deque[tuple[GpuClient, Tsg, int, int]] = deque()
        self._dropped: list[dict[int, tuple[CData, int]]] = []  # work items to free
        self._end = 0  # when the update in flight ends
        self._latency = 0  # its latency
        super().__init__(index, policy, tell, clock, band)

    def prepare(self, now: int) -> None:
        """Makes the compiled virtual GPU."""
        shape = self.shape
        self._vgpu_ops = table("struct gpurt_vgpu_ops", VGPU_EVENTS)
        self.vgpu = ffi.new("struct gpurt_vgpu *")
        lib.gpurt_vgpu_init(
            self.vgpu, self._vgpu_ops, self._handle, shape.slice, shape.theta, shape.alpha, shape.copy_engine, now
        )
        self.vgpu.units = shape.units
        if self._whole:
            lib.gpurt_whole_add(self._whole.raw, self.vgpu)
        self.theta = shape.theta

    def facts(self) -> Facts:
        """The facts of a virtual GPU, with the costs that the user asked for."""
        shape = self.shape
        part = (self._whole.number, shape.units, int(self._whole.raw.cross)) if self._whole else None
        caps = Cap.VGPU | Cap.EMULATED
        return Facts(Tier.VIRTUAL, "vgpu", caps, shape.alpha, shape.theta, shape.slice, partition=part)

    def commit(self, only: Owner | None, now: int) -> None:
        """Carries out a runlist update, which takes alpha, and measures it."""
        started = self.clock()
        self._end = lib.gpurt_vgpu_commit(self.vgpu, only.own.context if only else ffi.NULL, self._reach(now))
        self._latency = self._end - now + self.clock() - started
        self._finish(self.clock())

    def _finish(self, now: int) -> None:
        """Ends the update in flight if its time is over."""
        if self.in_flight and self._end <= now:
            self.finished(0, self._latency)

    def enter(self, client: GpuClient) -> None:
        """A client has joined."""
        client.own = Context(ffi.new("struct gpurt_vgpu_ctx *"))
        lib.gpurt_vgpu_ctx_init(client.own.context)

    def ends(self, client: GpuClient) -> None:
        """Nothing to do: no update waits for a client."""

    def part(self, client: GpuClient, now: int) -> None:
        """A client has gone, its TSGs and its work with it."""
        for number in list(client.own.tsgs):
            self._drop(client, number, now)

    def mark(self, client: GpuClient, exempt: bool, now: int) -> None:
        """Keeps a client on every runlist, or no longer."""
        lib.gpurt_vgpu_exempt(self.vgpu, client.own.context, exempt, self._reach(now))

    def seated(self, seat: Seat) -> None:
        """A group comes to this GPU, with a context that has no TSGs of its own."""
        super().seated(seat)
        if not seat.own:
            seat.own = Context(ffi.new("struct gpurt_vgpu_ctx *"))
            lib.gpurt_vgpu_ctx_init(seat.own.context)

    def unite(self, client: GpuClient, seat: Seat, now: int) -> None:
        """A client is a member of a group now."""
        lib.gpurt_vgpu_unite(self.vgpu, client.own.context, seat.own.context, self._reach(now))

    def quiet(self) -> tuple[bool, bool, int]:
        """Whether the GPU executes nothing; whether others' work is queued; when the owner's work ended last, ns."""
        asked = ffi.new("bool *")
        idle = bool(lib.gpurt_vgpu_quiet(self.vgpu, asked))
        owners = self.runner.members if self.runner else []
        return idle, bool(asked[0]), max((one.own.last_done for one in owners), default=0)

    def on_done(self, raw: CData, work: CData, when: int) -> None:
        """Notes that an item of work has completed."""
        client, tsg = self._by_tsg[raw]
        self._done.append((client, tsg, work.number, when))

    # Time

    def advance(self, now: int) -> None:
        """Processes all that happens up to `now`."""
        self._reach(now)
        self._finish(now)
        super().advance(now)

    def _reach(self, now: int) -> int:
        """Brings the virtual GPU to that time, or as far as it may go, and returns the time reached."""
        if not lib.gpurt_vgpu_catch_up(self.vgpu, now, MAX_WORKS_AT_ONCE):
            lib.gpurt_vgpu_stand_still(self.vgpu, now)
        return now

    @property
    def more(self) -> bool:
        """Whether more is left to do; also frees memory of dropped work."""
        return bool(self._dropped) or super().more

    def go_on(self) -> None:
        """Does more, and frees some memory of dropped work."""
        super().go_on()
        for _ in range(MAX_WORKS_AT_ONCE if self._dropped else 0):
            if not self._dropped[-1]:
                self._dropped.pop()
                break
            self._dropped[-1].popitem()

    def times(self) -> tuple[int, int]:
        """When something will happen by itself, and when work completes or an update ends, which clients are told.

        No client is told of the end of a slice or of a context switch.
        """
        if self._done:  # work that completed while time passed for another partition
            return 0, 0
        at = lib.gpurt_vgpu_next(self.vgpu)
        silent = at == FOREVER or at in (self.vgpu.slice_end, self.vgpu.ready_at)
        end = self._end if self.in_flight else FOREVER
        due, _ = super().times()
        return min(at, end, due), end if silent else min(at, end)

    def settle(self) -> None:
        """Reports completed work, takes decisions and answers calls."""
        while True:
            self._tell_done()
            super().settle()
            if not self._done:
                break

    def _tell_done(self) -> None:
        """Reports completions one at a time: an answer may drop a client, and completions of it come first."""
        while self._done:
            self._completed(*self._done.popleft())

    def _completed(self, client: GpuClient, tsg: Tsg, number: int, when: int) -> None:
        _, submitted = tsg.works.pop(number)
        client.own.queued -= 1
        client.account.give(WORK)
        tsg.when[number] = client.own.last_done = when
        if len(tsg.when) > REMEMBERED:
            tsg.when.popitem(last=False)
        self.tell(self, client, EventKind.WORK, when, None, when - submitted)
        if client.core.boost.working and (client.own.idle or client.own.awaits == (tsg.number, number)):
            lib.gpurt_boost_work(self.sched, client.core, False, when)
        if number in tsg.waiters:
            self.finish(client, tsg.waiters.pop(number), 0, when)
        if client.own.waiters and client.own.idle:
            self.finish(client, client.own.waiters, 0, when)

    def wait_idle(self, client: GpuClient, waiter: Waiter) -> None:
        """Answers once all the client's work has completed."""
        if client.own.idle:
            waiter.finish(0, client.own.last_done)
        else:
            client.own.waiters.add(waiter)

    def spins(self, client: GpuClient, work: tuple[int, int] | None) -> None:
        """A thread of form fence waits for its client's work, or for that item: it is not raised meanwhile."""
        client.own.awaits = work
        lib.gpurt_boost_work(self.sched, client.core, True, self.clock())

    # TSGs and work

    def open_tsg(self, client: GpuClient, opened: Callable[[int], None]) -> None:
        """Makes a TSG; `opened` gets its number.  Raises Refusal EMFILE when the client has too many."""
        free = set(range(lib.GPURT_MAX_CLIENT_TSGS)) - client.own.tsgs.keys()
        if not free:
            raise Refusal(errno.EMFILE, f"the client has {lib.GPURT_MAX_CLIENT_TSGS} TSGs already")
        client.account.take(TSG)
        number = min(free)
        tsg = Tsg(number, ffi.new("struct gpurt_vgpu_tsg *"))
        lib.gpurt_vgpu_tsg_open(tsg.raw, client.own.context)
        client.own.tsgs[number] = tsg
        self._by_tsg[tsg.raw] = (client, tsg)
        self._count(client, lib.gpurt_tsg_opened, lambda _result: opened(number))

    def _count(self, client: GpuClient, tell: Callable[[CData, CData, int], None], done: Callable[[int], None]) -> None:
        """Tells the scheduler of a TSG that was opened or closed."""

        def decide(now: int) -> int:
            tell(self.sched, client.core, now)
            return 0

        self.update(Decision(decide, done, lambda: int(lib.gpurt_client_level(client.core)), client, call=True))

    def tsg(self, client: GpuClient, number: int) -> Tsg:
        """The client's TSG of that number.  Raises Refusal ENOENT."""
        found: Tsg | None = client.own.tsgs.get(number)
        if found is None:
            raise Refusal(errno.ENOENT, f"no TSG {number} of this client")
        return found

    def close_tsg(self, client: GpuClient, number: int, done: Callable[[int], None]) -> None:
        """Closes a TSG; with the last TSG an open segment ends.  Raises Refusal ENOENT."""
        self.tsg(client, number)
        self._drop(client, number, self.clock())
        if client.own.idle:
            lib.gpurt_boost_work(self.sched, client.core, False, self.clock())
            self.finish(client, client.own.waiters, 0, client.own.last_done)
        self._count(client, lib.gpurt_tsg_closed, done)

    def _drop(self, client: GpuClient, number: int, now: int) -> None:
        tsg = client.own.tsgs[number]
        self._reach(now)
        self._tell_done()
        lib.gpurt_vgpu_empty(self.vgpu, tsg.raw, now)
        lib.gpurt_vgpu_tsg_close(self.vgpu, tsg.raw, now)
        client.account.give(TSG + WORK * len(tsg.works))
        client.own.queued -= len(tsg.works)
        self._dropped += [tsg.works] if tsg.works else []
        for waiters in tsg.waiters.values():
            self.finish(client, waiters, -errno.ENOENT, 0)
        del client.own.tsgs[number]
        del self._by_tsg[tsg.raw]

    def shape_tsg(self, client: GpuClient, number: int, slice_: int, level: int, real_time: bool) -> None:
        """Gives a TSG a slice (ns; 0: the GPU's slice) and an interleave level.

        ``real_time``: the caller may make settings that take GPU time from others.  Raises Refusal ENOENT or EPERM.
        """
        tsg = self.tsg(client, number)
        if not real_time and (level > lib.GPURT_INTERLEAVE_LOW or slice_ > self.vgpu.slice):
            raise Refusal(errno.EPERM, "a level above low, or a longer slice than the GPU's, needs real-time priority")
        lib.gpurt_vgpu_shape(self.vgpu, tsg.raw, slice_, level, self._reach(self.clock()))
        self.settle()

    def submit(self, client: GpuClient, made: CData) -> int:
        """Queues a struct gpurt_submit's work, and returns its number.  Raises Refusal EINVAL, ENOENT or ENOBUFS."""
        number = int(made.tsg)
        tsg = self.tsg(client, number)
        demand = ffi.new("struct gpurt_vgpu_demand *")
        lib.gpurt_vgpu_demand_of(demand, made)
        if lib.gpurt_vgpu_time(self.vgpu, demand) < lib.GPURT_MIN_WORK_NS:
            raise Refusal(errno.EINVAL, f"less than {lib.GPURT_MIN_WORK_NS} ns of work on {self.vgpu.units} units")
        if len(tsg.works) >= lib.GPURT_MAX_QUEUED:
            raise Refusal(errno.ENOBUFS, f"TSG {number} has {lib.GPURT_MAX_QUEUED} items queued")
        if client.own.queued >= lib.GPURT_MAX_CLIENT_QUEUED:
            raise Refusal(errno.ENOBUFS, f"the client has {lib.GPURT_MAX_CLIENT_QUEUED} items queued")
        client.account.take(WORK)
        work = ffi.new("struct gpurt_vgpu_work *")
        now = self._reach(self.clock())
        given = int(lib.gpurt_vgpu_submit_as(self.vgpu, tsg.raw, work, demand, now))
        tsg.works[given] = (work, now)
        client.own.queued += 1
        self.settle()
        return given

    def wait_work(self, client: GpuClient, number: int, work: int, waiter: Waiter) -> None:
        """Answers once that work has completed.  Raises Refusal ENOENT for work that was never submitted."""
        tsg = self.tsg(client, number)
        if not 0 < work <= tsg.raw.submitted:
            raise Refusal(errno.ENOENT, f"TSG {number} has no work {work}")
        if work in tsg.works:
            tsg.waiters.setdefault(work, Waiters()).add(waiter)
        else:
            waiter.finish(0, tsg.when.get(work, client.own.last_done))

# SPDX-License-Identifier: GPL-2.0
"""One GPU of the user-space host: the compiled scheduler, its clients, and the way of a decision.

Every decision of the scheduler goes through `Gpu.update`.  A decision waits in the order of core/queue until no runlist
update is in flight; then the scheduler takes it.  If the core asks for an update, the update stays in flight until
`Gpu.finished` is called.  Only then is the caller answered and the next decision taken.

The two kinds of GPU, `VirtualGpu` (virtual.py) and `AgentGpu` (agents.py), carry out runlist updates, and know the work
on the GPU.  The core calls back in the middle of its decisions.  A callback only notes its arguments, and `Gpu.settle`
acts upon them afterwards, so that no request is answered from inside the core.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gpurt._gpurt import ffi, lib
from gpurt.enums import Cause, EventKind, Tier
from gpurt.types import CData
from pycontrol.host.boosted import Boost
from pycontrol.host.budgets import Allowance
from pycontrol.host.bus import Bus, Copier
from pycontrol.host.groups import Group, Seat
from pycontrol.host.journal import HOST, Journal
from pycontrol.host.peer import Peer
from pycontrol.host.stuck import Stuck, left_by
from pycontrol.host.threads import Band
from pycontrol.host.users import Account
from pycontrol.host.waiter import FOREVER, Answers, Waiter, Waiters

#: The most best-effort decisions, waiting clients and waiting calls that one turn of the loop handles.  The others wait
#: for later turns: any number of them may have come while an update was in flight.
MAX_DECISIONS_A_TURN = 8
CONTROL, URGENT = lib.GPURT_GATE_CONTROL, lib.GPURT_GATE_URGENT

@dataclass(eq=False)
class GpuClient:
    """A connection's client on one GPU; `own` is the record that the kind of GPU keeps about the client."""

    id: int
    peer: Peer
    core: CData
    boost: Boost
    own: CData = None
    gone: bool = False  # its connection has ended
    exempt: bool = False  # as the rules say; core.exempt follows in a decision
    allowance: Allowance | None = None  # whose budget the client is to be under; core.budget follows in a decision
    calls: deque[Decision] = field(default_factory=deque)  # decisions of its calls, in order; the first is at the gate
    grant_waiters: Waiters = field(default_factory=Waiters)
    copier: Copier = field(default_factory=Copier)
    marks: int = 0  # core/marks.c
    account: Account = field(default_factory=Account)  # the account of its user
    hint: int = 0  # the priority that the client's last outermost begin asked for
    agent: bool = False  # whether the client is its process's agent
    group: Seat | None = None  # the seat of the group that the client is a member of
    alone: bool = True  # its segment began without GPURT_BEGIN_YIELD
    seen: int = 0  # the highest level that the client has begun with

    @property
    def voice(self) -> GpuClient:
        """The client that events about this owner name: itself."""
        return self

    @property
    def members(self) -> list[GpuClient]:
        """The clients that own the GPU when this owner does: only itself."""
        return [self]

    @property
    def level_of_copies(self) -> int:
        """The level of the client's request for the bus: for a member, the group's level."""
        return int(lib.gpurt_client_begin_level(self.core, self.copier.own, self.copier.hint))



#: Who may own a GPU: a client, or the members of a group.
Owner = GpuClient | Seat


@dataclass(eq=False)
class Posted:
    """Begins and ends of a client that need no answer, taken as one decision.

    At most two such decisions wait for each client: one of ends, and one of a begin and the calls after it.
    """

    net: int  # begins less ends
    begins: bool = False  # the first one is a begin
    own: int = 0  # the priority of the thread that made the last outermost begin
    flags: int = 0  # the flags of that begin


@dataclass(eq=False)
class Decision:
    """A decision to be taken: `decide` takes it at a given time, and `done` gets its result once it is carried out.

    If the client is gone by then, the decision is not taken and its result is 0; a posted decision is taken, at the
    latest by the client's last decision.  A decision that `ask` refuses is not taken either.  An `outdated` decision
    comes to the gate once more.  Decisions by `call` of one client are taken in the order of the calls.
    """

    decide: Callable[[int], int]
    done: Callable[[int], None]
    level: Callable[[], int]
    client: GpuClient | None = None
    call: bool = False
    ask: Callable[[int], int] | None = None  # called when the decision comes to the gate: 0 or -errno
    outdated: Callable[[], bool] = lambda: False  # whether `ask` would answer differently now
    posted: Posted | None = None  # nobody waits for an answer
    recalls: bool = False  # the decision is not taken while a process may begin without asking
    recalled: bool = False  # until it is over, no process gets that permission
    result: int = 0
    turn: CData = field(default_factory=lambda: ffi.new("struct gpurt_turn *"))


@dataclass(frozen=True)
class Update:
    """A runlist update in flight, and the events since it was requested."""

    only: Owner | None
    cause: Cause
    began: int
    events: list[tuple[GpuClient | None, EventKind, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Facts:
    """Facts that a GPU states about itself; times in ns, 0 where unknown."""

    tier: Tier
    driver: str
    caps: int
    alpha: int = 0
    theta: int = 0
    slice: int = 0
    late: int = 0
    refused: int = 0
    yields: bool = False  # whether the most urgent process begins beside others
    ready: int | None = None  # beside how many others; None: it cannot now
    at_once: int | None = None  # beside how many at a time; None: best-effort processes take no turns
    device: str = ""  # which GPU it is: a PCI address or a device-tree name; empty: not known
    partition: tuple[int, int, int] | None = None  # the whole GPU, the units here, the slow-down by neighbours (1/1000)


class Mark(NamedTuple):
    """A program's statement about a job: its task, its number, and its CPU time, ns (0: not known)."""

    task: str
    job: int
    cpu_ns: int


class Tell(Protocol):
    """Tells the readers of an event.  ``client`` None: it is about no single client.  ``mark``: the job, if any."""

    def __call__(
        self, gpu: Gpu, client: GpuClient | None, kind: EventKind, when: int, cause: Cause | None, latency: int,
        mark: Mark | None = None, /,
    ) -> None:  # fmt: skip
        """See `Host.tell`."""


#: The events by number: a look-up here is several times as fast as EventKind().
EVENTS = {int(kind): kind for kind in EventKind}


def heard(names: Sequence[str]) -> None:
    """Forwards the core's callbacks of these names to the methods on_NAME of the object that its handle names."""
    for name in names:

        def forward(of: CData, *about: Any, called: str = f"on_{name}") -> None:
            getattr(ffi.from_handle(of.host), called)(*about)

        ffi.def_extern(name=f"gpurt_py_{name}")(forward)


def table(structure: str, names: Sequence[str]) -> CData:
    """The core's table of the callbacks of these names."""
    return ffi.new(f"{structure} *", {name: getattr(lib, f"gpurt_py_{name}") for name in names})


SCHED_EVENTS = ("commit", "event", "raise", "regroup")
heard(SCHED_EVENTS)


def ignore(_result: int) -> None:
    """Drops the decision's result: nobody waits for it."""


class Gpu(ABC):
    """One GPU, its clients and its statistics."""

    #: Whether this host learns when a client's work has completed.
    sees_work = False

    def __init__(
        self, index: int, policy: int, tell: Tell, clock: Callable[[], int], band: Band = Band()  # noqa: B008
    ) -> None:
        self.index = index
        self.band = band
        self.tell = tell
        self.journal = Journal()
        self.clock = clock
        self.clients: dict[int, GpuClient] = {}
        self.commits = 0
        self.faults = 0
        self.fault = False  # the runlist is not what it should be
        self.bus = Bus(band, self._copied, clock)
        self.stuck = Stuck(self, clock)
        self.theta = 0  # how long a context switch takes, ns; 0: unknown
        self.runner: Owner | None = None  # who has the GPU alone, once the update is carried out
        self.latency = {cause: ffi.new("struct gpurt_latency *") for cause in Cause}
        self.notice, self.poll_ns = lib.GPURT_NOTICE_POLL, lib.GPURT_POLL_DEFAULT_NS
        self.held_poll_ns = self.poll_ns  # longer if looks take too much of the host's CPU
        self.in_flight: Update | None = None
        self._by_core: dict[CData, GpuClient] = {}  # pointers to the same object are equal
        self._seats: dict[CData, Seat] = {}  # seats of groups, by their entries
        self._regrouped: list[Group] = []  # groups whose seats on other GPUs have to follow
        self.copiers: dict[Copier, GpuClient] = {}
        self.marks_lost: dict[GpuClient, int] = {}  # marks that readers were not told of, and do not know of yet
        self._others: list[GpuClient] = []  # clients that policy `job` looks at next
        self._waiting: dict[CData, Decision] = {}
        self._current: Decision | None = None
        self.yields: GpuClient | None = None  # the client that begins beside others in the decision that is being taken
        self.recalls = 0  # how many decisions forbid that a process begins without asking
        self._aside: list[Decision] = []  # decisions that wait until no process may begin without asking
        self._ended: int | None = None  # when the current decision's update was over
        self._settling = False
        self._ticking = False  # a tick waits at the gate
        self._retry_now = False
        self._granted: OrderedDict[GpuClient, None] = OrderedDict()  # clients with waiters for a grant
        self.answers = Answers()
        self._exempt: set[GpuClient] = set()
        self._real_time: set[GpuClient] = set()  # as policy `job` saw them last
        self._changed: list[GpuClient] = []  # the clients of the latest decisions
        self._unchecked = 0  # how many of `_granted`, from the first, are still to be checked: all clients have the GPU
        self.barred = self.tsgs = 0  # barred clients, and the TSGs of all clients
        self._grants = ffi.new("struct gpurt_grants *")  # grants and resumptions to tell once updates succeed again
        self._handle = ffi.new_handle(self)
        self._sched_ops = table("struct gpurt_sched_ops", SCHED_EVENTS)
        self._turns = ffi.new("struct gpurt_turns *")
        lib.gpurt_turns_init(self._turns)
        self._retry = ffi.new("struct gpurt_retry *")
        lib.gpurt_retry_init(self._retry)
        self.sched = ffi.new("struct gpurt_sched *")
        now = clock()
        lib.gpurt_sched_init(self.sched, self._sched_ops, self._handle, now)
        self.sched.lock_bound = lib.GPURT_LOCK_BOUND_NS
        self.prepare(now)
        lib.gpurt_set_policy(self.sched, policy, now)

    # What a kind of GPU does

    @abstractmethod
    def prepare(self, now: int) -> None:
        """Prepares the GPU before its first decision."""

    @abstractmethod
    def facts(self) -> Facts:
        """The facts that the GPU states about itself."""

    @abstractmethod
    def commit(self, only: Owner | None, now: int) -> None:
        """Begins a runlist update; calls `finished` when it is over, perhaps before this returns."""

    @abstractmethod
    def enter(self, client: GpuClient) -> None:
        """A client has joined."""

    @abstractmethod
    def ends(self, client: GpuClient) -> None:
        """A client's connection has ended.  The client goes soon; an update in flight need not wait for it."""

    @abstractmethod
    def part(self, client: GpuClient, now: int) -> None:
        """A client has gone and is off the runlist."""

    @abstractmethod
    def mark(self, client: GpuClient, exempt: bool, now: int) -> None:
        """Keeps a client on every runlist, or no longer; an update follows if the runlist changes."""

    def may_unite(self, peer: Peer, seat: Seat | None) -> bool:
        """Whether a client of a process can be a member of that group; None: of a group that is new on this GPU."""
        return True

    @abstractmethod
    def unite(self, client: GpuClient, seat: Seat, now: int) -> None:
        """A client is a member of a group now: its TSGs are on the runlist with those of the other members."""

    def decided(self, client: GpuClient) -> None:  # noqa: B027
        """Called when a decision about the client is over."""

    def yielding(self, _client: GpuClient) -> bool | None:
        """Whether the client's process can begin by yield if it is the most urgent; None: no process begins so."""
        return None

    def isolate(self, client: GpuClient, now: int) -> None:  # noqa: B027
        """In a decision: the client has begun, or wants others off.  Takes off the clients that may no longer be on."""

    def quiet(self) -> tuple[bool, bool, int]:
        """Whether the GPU executes nothing; whether others' work is queued; when the owner's work ended last, ns."""
        return False, False, 0

    # What the core says

    def on_commit(self, only: CData, cause: int, now: int) -> None:
        """Begins an update that puts only `only` on the runlist."""
        self._apply(self._owner(only), Cause(cause), now)

    def _owner(self, core: CData) -> Owner | None:
        return self._by_core.get(core) or self._seats.get(core)

    def _apply(self, only: Owner | None, cause: Cause, now: int) -> None:
        before = self.in_flight.events if self.in_flight else []  # a decision may ask twice
        self.in_flight = Update(only, cause, now, before)
        self.commit(only, now)

    def finished(self, err: int, latency: int) -> None:
        """The update in flight is over, after `latency` ns.  ``err``: 0, or -errno if it must be tried again."""
        update, self.in_flight = self.in_flight, None
        assert update
        recovered = self.fault and not err
        self.runner, self.fault = update.only, err != 0
        self.commits += 1
        self._ended = update.began + latency
        lib.gpurt_updated(self.sched, self._ended, 0 if err else self.theta)
        self.faults += self.fault
        if err:
            text = "the runlist could not be updated: isolation may be lost; trying again"
            self.journal.note(f"GPU {self.index}: {text}", HOST)
            lib.gpurt_retry_failed(self._retry, int(update.cause), self.clock())
        else:
            lib.gpurt_retry_init(self._retry)
        lib.gpurt_latency_record(self.latency[update.cause], latency)
        owner = update.only.voice if update.only else None
        self.tell(self, owner, EventKind.COMMIT, update.began, update.cause, latency)
        for client, kind, when in update.events:
            self._report(client, kind, when)
        if recovered:
            self._recovered(self.clock())

    def _recovered(self, now: int) -> None:
        """An update succeeded after others had failed: tells clients that have the GPU now."""
        lib.gpurt_uncharged(self.sched, now)
        self.journal.note(f"GPU {self.index}: the runlist is updated again", HOST)
        owed = [one for one in self.clients.values() if one.core.owed] if self._grants.owing else []
        for client in [None, *owed]:
            if self.state(client) == lib.GPURT_STATE_RUNNING if client else not self.runner:
                event = lib.gpurt_grants_take(self._grants, client.core if client else ffi.NULL)
                if event:
                    self.tell(self, client, EventKind(event), now, None, 0)

    def _report(self, client: GpuClient | None, kind: EventKind, when: int) -> None:
        """Tells subscribers of an event.  While updates fail, tells only of events that do not depend on an update."""
        core = client.core if client else ffi.NULL
        if kind in (EventKind.GRANT, EventKind.RESUME, EventKind.PREEMPT):
            if not lib.gpurt_grants_tell(self._grants, core, int(kind), self.fault):
                return
        elif kind in (EventKind.END, EventKind.GONE):
            lib.gpurt_grants_take(self._grants, core)
        self.tell(self, client, kind, when, None, 0)

    def on_event(self, client: CData, event: int, now: int) -> None:
        """Tells subscribers of an event; while an update is in flight, after the update."""
        found = self._by_core.get(client)
        if self.in_flight:
            self.in_flight.events.append((found, EVENTS[event], now))
        else:
            self._report(found, EVENTS[event], now)

    def _copied(self, copier: Copier, kind: EventKind, when: int, waited: int) -> None:
        """Tells subscribers of an event of the bus, which depends on no update."""
        self.tell(self, self.copiers[copier], kind, when, None, waited)

    def on_raise(self, core: CData, level: int, now: int) -> None:
        """Raises or lowers the client's thread.  `now`: when the decision was taken, or an update was over."""
        client = self._by_core.get(core)
        if not client:
            return
        before = client.boost.raised
        client.boost.level(level)
        if client.boost.raised != before:
            lib.gpurt_latency_record(self.latency[Cause.RAISE], max(0, self.clock() - now))

    def on_regroup(self, raw: CData, _now: int) -> None:
        """Notes the group: its seats on other GPUs follow afterwards."""
        self._regrouped += [seat.group for seat in self._seats.values() if seat.group.raw == raw]

    def seated(self, seat: Seat) -> None:
        """A group comes to this GPU."""
        self._seats[seat.core] = seat

    def vacated(self, seat: Seat) -> None:
        """Forgets a group's seat if the group has no members on this GPU any more."""
        if not seat.members:
            self._seats.pop(seat.core, None)
            seat.group.dissolve()

    def _follow(self) -> None:
        while self._regrouped:
            for seat in self._regrouped.pop().seats.values():
                if seat.raw.unsettled:
                    seat.gpu.update(Decision(seat.follow, ignore, lambda: URGENT))

    # The way of a decision

    def decision(self, decide: Callable[[int], int], done: Callable[[int], None], client: GpuClient) -> Decision:
        """A decision of the control plane, in order with the client's calls."""
        return Decision(decide, done, lambda: CONTROL, client, call=True, recalls=True)

    def update(self, decision: Decision) -> None:
        """Requests a decision, which is taken now or when its turn comes."""
        if decision.client and decision.call:
            decision.client.calls.append(decision)
            if len(decision.client.calls) > 1:
                return
        self._queue(decision)
        self.settle()

    @property
    def has_recalled(self) -> bool:
        """Whether no process may begin without asking."""
        return True

    def recall(self, over: bool) -> None:
        """Adds a reason why no process may begin without asking, or removes one (`over`)."""
        self.recalls += -1 if over else 1

    @property
    def awaits_agents(self) -> bool:
        """Whether something waits for an agent's answer."""
        return False

    @property
    def takes_posts(self) -> bool:
        """Whether the end of a segment that begins now may be posted."""
        return False

    def end(self, client: GpuClient, done: Callable[[int], None]) -> None:
        """Ends the client's innermost segment."""
        self.update(self._ending(client, done))

    def end_posted(self, client: GpuClient) -> None:
        """Ends the client's innermost segment; the client does not wait for an answer."""
        last = self._posted_last(client)
        if last and last.posted:
            last.posted.net -= 1
        else:
            self._post(client, Posted(-1))

    def begin_posted(self, client: GpuClient, own: int, flags: int) -> None:
        """Begins a segment; the client does not wait for an answer; `own` is the priority of the thread."""
        last = self._posted_last(client)
        if not last or not last.posted or not last.posted.begins:
            self._post(client, Posted(1, True, own, flags))
            return
        if last.posted.net <= 0:
            last.posted.own, last.posted.flags = own, flags
        last.posted.net += 1
        if last.turn in self._waiting:  # queue it by the level that it has now
            lib.gpurt_turns_remove(self._turns, last.turn)
            lib.gpurt_turns_add(self._turns, last.turn, last.level())

    def _posted_last(self, client: GpuClient) -> Decision | None:
        """The client's last call, if it was posted and still has to be taken."""
        last = client.calls[-1] if client.calls else None
        return last if last and last.posted and last is not self._current else None

    def _post(self, client: GpuClient, posted: Posted) -> None:
        def decide(now: int) -> int:
            return self._take_posted(client, posted, now)

        def level() -> int:
            return int(lib.gpurt_client_begin_level(client.core, posted.own, 0))

        if posted.begins:
            self.update(Decision(decide, ignore, level, client, call=True, posted=posted))
            return
        made = self._ending(client, ignore)
        made.decide, made.posted = decide, posted
        self.update(made)

    def _take_posted(self, client: GpuClient, posted: Posted, now: int) -> int:
        if posted.net > 0 and self.sched.policy != lib.GPURT_POLICY_SEGMENT:
            return -errno.EPERM
        if posted.net > 0 and not client.core.depth:
            lib.gpurt_boost_form(client.core, lib.gpurt_boost_stated(posted.flags))
            client.alone = not posted.flags & lib.GPURT_BEGIN_YIELD
            self.yields = client if posted.flags & lib.GPURT_BEGIN_YIELD else None
        for _ in range(posted.net):
            lib.gpurt_begin(self.sched, client.core, posted.own, 0, now)
        self.yields = None
        if posted.net > 0:
            self.isolate(client, now)
        for _ in range(-posted.net):
            lib.gpurt_end(self.sched, client.core, now)
        return 0

    def begin(self, client: GpuClient, own: int, hint: int, flags: int, now: int) -> int:
        """In a decision by a call: the client begins a segment."""
        before = client.alone
        client.alone = not flags & lib.GPURT_BEGIN_YIELD or (client.core.depth > 0 and before)
        result = int(lib.gpurt_begin(self.sched, client.core, own, hint, now))
        if result:
            client.alone = before
        else:
            self.isolate(client, now)
        return result

    def open_segments(self, client: GpuClient) -> int:
        """The number of open segments of the client, counting the calls that it has posted."""
        waiting = (call.posted.net for call in client.calls if call.posted and call is not self._current)
        return int(client.core.depth) + sum(waiting)

    def _ending(self, client: GpuClient, done: Callable[[int], None]) -> Decision:
        def decide(now: int) -> int:
            return int(lib.gpurt_end(self.sched, client.core, now))

        def ask(now: int) -> int:
            client.boost.end(self.sched, now)
            return 0

        return Decision(decide, done, lambda: int(lib.gpurt_client_level(client.core)), client, call=True, ask=ask)

    def _queue(self, decision: Decision) -> None:
        if decision.ask and decision.client and not decision.client.gone:
            decision.result = decision.ask(self.clock())
        lib.gpurt_turns_add(self._turns, decision.turn, decision.level())
        self._waiting[decision.turn] = decision

    def _turn_level(self) -> int:
        """The level of the decision whose turn it is; -1: there is no decision, or an update is in flight."""
        turn = lib.gpurt_turns_first(self._turns)
        return -1 if self._turns.held or turn == ffi.NULL else int(turn.level)

    def _take_next(self) -> bool:
        """Takes the decision whose turn it is, and returns whether there was one."""
        turn = lib.gpurt_turns_first(self._turns)
        if self._turns.held or turn == ffi.NULL:
            return False
        lib.gpurt_turns_remove(self._turns, turn)
        decision = self._waiting.pop(turn)
        gone = decision.client and decision.client.gone
        left = decision.client and gone and (not decision.posted or decision.client.id not in self.clients)
        taken = not decision.result and not left
        if taken and decision.outdated():
            self._queue(decision)
            return True
        if taken and decision.recalls and not decision.recalled:
            decision.recalled = True
            self.recall(over=False)
            if not self.has_recalled:
                self._aside.append(decision)
                return True
        self._current, self._ended = decision, None
        self._turns.held = True
        if taken:
            now = self.clock()
            if self.fault:
                lib.gpurt_uncharged(self.sched, now)
            if decision.ask and decision.client and not gone:
                lib.gpurt_boost_turn(self.sched, decision.client.core, True, now)
            before = decision.client.core.tsgs if decision.client else 0
            decision.result = decision.decide(now)
            self.tsgs += decision.client.core.tsgs - before if decision.client else 0
        return True

    def _carried_out(self) -> bool:
        """Answers the current decision if no update is in flight any more, and returns whether it did."""
        decision = self._current
        if not decision or self.in_flight:
            return False
        self._current, self._turns.held = None, False
        if decision.recalled:
            self.recall(over=True)
        if decision.client:
            self._changed.append(decision.client)
            self.decided(decision.client)
        self._unchecked = 0 if self.runner else len(self._granted)
        asked = decision.ask and decision.client and not decision.client.gone
        self._boost_over(decision.client if asked else None, self.clock())
        if decision.client and decision.call:
            decision.client.calls.popleft()
            if decision.client.calls:
                self._queue(decision.client.calls[0])
        decision.done(decision.result)
        return True

    def _boost_over(self, asked: GpuClient | None, now: int) -> None:
        """After a decision, raises or lowers the threads of its client and of the owner as the decision requires."""
        if self.fault:
            lib.gpurt_boost_lost(self.sched, now)
            if asked:
                lib.gpurt_boost_turn(self.sched, asked.core, False, now)
                lib.gpurt_boost_ask(self.sched, asked.core, 0, now)
        else:
            lib.gpurt_boost_over(self.sched, asked.core if asked else ffi.NULL, self._ended or now)
        if asked:
            asked.boost.left_gate()

    def settle(self) -> None:
        """Does all that can be done now: takes decisions, and answers calls whose wait is over."""
        if self._settling:  # an answer below called this; the loop there goes on
            return
        self._settling, few = True, MAX_DECISIONS_A_TURN
        try:
            while True:
                self._answer()
                self._follow()
                self._go_on_with_aside()
                if self._carried_out():
                    continue
                few -= self._turn_level() == 0
                if few < 0 or not self._take_next():
                    break
        finally:
            self._settling = False

    def _go_on_with_aside(self) -> None:
        """Once every process asks before it begins, queues the decisions set aside, those of begun segments first."""
        if self._aside and self.has_recalled:
            aside, self._aside = self._aside, []
            for decision in sorted(aside, key=lambda one: not (one.client and len(one.client.calls) > 1)):
                self._queue(decision)

    def _answer(self) -> None:
        """Answers calls that wait for the GPU if their client has it now, or if the client's segment is over.

        Clients that own the GPU, were decided about, or are exempt are always looked at.
        """
        if self.in_flight:
            return
        changed, self._changed = self._changed, []
        owners = self.runner.members if self.runner else []
        for client in (*owners, *changed, *(self._granted.keys() & self._exempt)):
            if client in self._granted:
                self._check(client)
        self.answer_more()

    @property
    def more(self) -> bool:
        """Whether previous turns have left something for `go_on`."""
        unchecked = self._unchecked and self._granted and not self.in_flight
        return bool(unchecked or self.answers or self._turn_level() >= 0)

    def go_on(self) -> None:
        """Handles decisions and calls that previous turns have left."""
        self.answers.turn()
        self.answer_more()
        if self._turn_level() >= 0:
            self.settle()

    def answer_more(self) -> None:
        """If all clients have the GPU: answers the next few clients that wait for it."""
        for _ in range(min(MAX_DECISIONS_A_TURN, self._unchecked, len(self._granted)) if not self.in_flight else 0):
            self._unchecked -= 1
            client = next(iter(self._granted))
            self._granted.move_to_end(client)
            self._check(client)

    def _check(self, client: GpuClient) -> None:
        if not self.open_segments(client):
            self._finish_grants(client, -errno.ENOENT)
        elif self.state(client) == lib.GPURT_STATE_RUNNING:
            self._finish_grants(client, 0)

    def _finish_grants(self, client: GpuClient, result: int) -> None:
        self._granted.pop(client, None)
        self.finish(client, client.grant_waiters, result, 0 if result else self.clock())

    def finish(self, client: GpuClient, waiters: Waiters, result: int, when: int) -> None:
        """Answers a client's calls, whose awaited event has happened; perhaps some of them in later turns."""
        urgent = max(client.core.own, lib.gpurt_client_level(client.core)) > 0
        self.answers.finish(waiters, urgent, result, when)

    def state(self, client: GpuClient) -> int:
        """The client's state (enum gpurt_state) on the runlist in force: the last one that was carried out."""
        state = int(lib.gpurt_state_of(self.sched, client.core))
        on = not self.fault and (not self.runner or self.runner in (client, client.group) or client.core.exempt)
        return state if on or state != lib.GPURT_STATE_RUNNING else int(lib.GPURT_STATE_PENDING)

    def wait_grant(self, client: GpuClient, waiter: Waiter) -> None:
        """Answers once the client, which is in a segment, holds the GPU."""
        client.grant_waiters.add(waiter)
        self._granted[client] = None
        self._changed.append(client)
        self.settle()

    # Time

    def advance(self, now: int) -> None:
        """Processes all that happens up to `now`."""
        if not self._ticking and self._due() <= now:
            self._tick_soon()
        self.settle()

    def _due(self) -> int:
        if self.fault:  # while updates fail, no client is charged
            return 0 if self._retry_now else int(self._retry.at)
        return int(self.sched.deadline)

    def times(self) -> tuple[int, int]:
        """When something happens by itself, and when a client may have to be told something; ns, FOREVER: never."""
        return FOREVER if self._ticking else self._due(), FOREVER

    def on_retry(self) -> None:
        """The failed update may succeed now: tries it again soon."""
        self._retry_now = True

    def _tick_soon(self) -> None:
        def over(_result: int) -> None:
            self._ticking = False

        self._ticking = True
        self.update(Decision(self._tick, over, lambda: URGENT))

    def _tick(self, now: int) -> int:
        """A budget is used up, or an update must be tried again.  If both are due, the next tick is for the other."""
        if self._retry_now:
            lib.gpurt_retry_hurry(self._retry, now)
        self._retry_now = False
        if self._retry.at <= now:
            self._apply(self._owner(self.sched.runner), Cause(self._retry.cause), now)
        elif self.sched.deadline <= now:
            lib.gpurt_tick(self.sched, now)
        return 0

    # Clients

    def join(
        self, id_: int, peer: Peer, exempt: bool, allowance: Allowance | None = None, account: Account | None = None
    ) -> GpuClient:
        """A connection becomes a client of this GPU."""
        core = ffi.new("struct gpurt_sched_client *")
        client = GpuClient(id_, peer, core, Boost(self.band, peer, core), account=account or Account())
        lib.gpurt_sched_client_init(client.core)
        self.clients[id_] = client
        self._by_core[client.core] = client
        self.copiers[client.copier] = client
        self.enter(client)
        if allowance:
            self.put_under(client, allowance, ignore, call=True)
        if exempt:
            self.exempt(client, exempt, ignore, call=True)
        return client

    def leave(self, client: GpuClient) -> None:
        """The client's connection has ended: frees its place, with its TSGs and its work.

        No further decision about the client is taken, except this last one, which takes its posted ends.
        """

        def decide(now: int) -> int:
            for call in client.calls:
                if not call.posted:
                    break
                self._take_posted(client, call.posted, now)
            self.tsgs -= client.core.tsgs
            others = left_by(client)
            lib.gpurt_gone(self.sched, client.core, now)
            if others:
                self.on_event(client.core, EventKind.MEMBER_DIED, now)
            if client.group:
                client.group.members.remove(client)
                client.group.afford(now)
            return 0

        def done(_result: int) -> None:
            self._granted.pop(client, None)
            self._exempt.discard(client)
            self._real_time.discard(client)
            self.bar(client, False)
            del self.clients[client.id]
            self.part(client, self.clock())
            del self._by_core[client.core]
            del self.copiers[client.copier]
            if client.group:
                self.vacated(client.group)

        client.gone = True
        self.bus.release(client.copier)
        self.ends(client)
        self.update(Decision(decide, done, lambda: URGENT))

    def exempt(self, client: GpuClient, exempt: bool, done: Callable[[int], None], call: bool = False) -> None:
        """Keeps the client's TSGs on every runlist, or no longer.  The last of several calls counts."""

        def decide(now: int) -> int:
            if bool(client.core.exempt) != client.exempt:
                self.mark(client, client.exempt, now)
                lib.gpurt_set_exempt(self.sched, client.core, client.exempt, now)
                (self._exempt.add if client.exempt else self._exempt.discard)(client)
            return 0

        client.exempt = exempt
        self.update(Decision(decide, done, lambda: CONTROL, client, call, recalls=True))

    def bar(self, client: GpuClient, barred: bool) -> None:
        """Sets whether policy `boosted` must not raise the client's thread."""
        self.barred += barred - client.boost.barred
        client.boost.bar(barred)

    def put_under(
        self, client: GpuClient, allowance: Allowance | None, done: Callable[[int], None], call: bool = False
    ) -> None:
        """Puts the client under an allowance's budget.  The last of several calls counts."""

        def decide(now: int) -> int:
            if client.group:
                client.group.afford(now)
                return 0
            budget = client.allowance.budget(self.index) if client.allowance else ffi.NULL
            lib.gpurt_join_budget(self.sched, client.core, budget, now)
            return 0

        client.allowance = allowance
        self.update(Decision(decide, done, lambda: CONTROL, client, call, recalls=True))

    def some_clients(self, others: int) -> list[GpuClient]:
        """The real-time clients that policy `job` last saw, and the next ``others`` of the other clients, in turn."""
        if not self._others:
            self._others = list(self.clients.values())
        taken = [self._others.pop() for _ in range(min(others, len(self._others)))]
        return [*self._real_time, *(one for one in taken if one not in self._real_time and not one.gone)]

    def job(self, client: GpuClient, own: int, runnable: bool) -> None:
        """Policy `job`: notes the priority of the client's task, and whether the task wants a CPU."""

        def decide(now: int) -> int:
            (self._real_time.add if own else self._real_time.discard)(client)
            return int(lib.gpurt_job(self.sched, client.core, own, runnable, now))

        self.update(Decision(decide, ignore, lambda: URGENT, client))

# SPDX-License-Identifier: GPL-2.0
"""The control plane of the user-space host: each netlink command of uapi/gpurt.h."""

from __future__ import annotations

import errno
import heapq
import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeVar

from gpurt._gpurt import ffi, lib
from gpurt.enums import Command, Image
from gpurt.types import CData
from pycontrol.host import stuck
from pycontrol.host.budgets import Allowance, Budgets
from pycontrol.host.gpu import CONTROL, Decision, Facts, Gpu, GpuClient
from pycontrol.host.groups import Groups
from pycontrol.host.peer import Named, Peer, Rule, Rules
from pycontrol.host.units import Space
from pycontrol.host.wire import Refusal
from pycontrol.link.netlink import Value
from pycontrol.machine import procs

if TYPE_CHECKING:
    from pycontrol.host.connection import Connection

T = TypeVar("T")
Request = Mapping[str, int | str]
Record = list[tuple[str, Value]]
Answer = list[Record] | Iterator[Record | None] | Refusal
#: Requests one decision, and calls the given function with its result once it is carried out.
Step = Callable[[Callable[[int], None]], None]
#: A command that changes something: yields its decisions one after the other, and None after each piece of work in
#: between.  It raises Refusal if the command is not valid.
Steps = Iterator[Step | None]
#: The number of clients that one piece of work looks at, and of pieces in one turn: some pieces read files.
LOOKS, PIECES = 256, 2


class Errands:
    """Commands that change something, in order of arrival.  A turn takes one decision or some pieces of work."""

    def __init__(self) -> None:
        """Starts without commands."""
        self._all: deque[tuple[Steps, Callable[[Answer], None]]] = deque()
        self._waits = False  # whether the first command waits for a decision
        self._failed = 0  # the first command's first result that is not 0; its later decisions are taken all the same

    @property
    def more(self) -> bool:
        """Whether there is something to do in the next turn."""
        return bool(self._all) and not self._waits

    def add(self, steps: Steps, done: Callable[[Answer], None]) -> None:
        """Appends a command; `done` gets its answer."""
        self._all.append((steps, done))
        if len(self._all) == 1:
            self.turn()

    def turn(self) -> None:
        """Goes on with the first command."""
        for _ in range(PIECES if self.more else 0):
            steps, done = self._all[0]
            try:
                step = next(steps)
            except StopIteration:
                self._over(done, of_decisions(self._failed))
                return
            except Refusal as refusal:
                self._over(done, refusal)
                return
            except procs.Unreadable as error:
                self._over(done, Refusal(error.errno or errno.EIO, str(error)))
                return
            if step:
                self._waits = True
                step(self._decided)
                return

    def _decided(self, result: int) -> None:
        self._waits = False
        self._failed = self._failed or result

    def _over(self, done: Callable[[Answer], None], answer: Answer) -> None:
        self._all.popleft()
        self._failed = 0
        done(answer)


def of_decisions(result: int) -> Answer:
    """The answer of a command from its decisions' result, 0 or -errno."""
    if not result:
        return []
    return Refusal(-result, f"a part could not be carried out when its turn came: {os.strerror(-result)}; try again")


def _begin(facts: Facts) -> Record:
    """How the most urgent process begins, if it does not begin isolated."""
    if not facts.yields:
        return []
    counts = {"READY": facts.ready, "AT_ONCE": facts.at_once}
    way = lib.GPURT_BEGINS_YIELD if facts.at_once is None else lib.GPURT_BEGINS_TURNS
    return [("BEGIN", way), *((name, value) for name, value in counts.items() if value is not None)]


class Commands:
    """Carries out commands; `malformed` returns the number of malformed packets so far."""

    def __init__(
        self,
        gpus: Sequence[Gpu],
        rules: Rules,
        budgets: Budgets,
        malformed: Callable[[], int],
        clock: Callable[[], int],
        space: Space | None = None,
        expel: Callable[[GpuClient, Exception], None] = lambda _client, _error: None,
        groups: Groups | None = None,
        connections: Callable[[], Collection[Connection]] = tuple,
    ):
        self.gpus = gpus
        self.rules = rules
        self.budgets = budgets
        self.malformed = malformed
        self.clock = clock
        self.space = space
        self.expel = expel
        self.groups = groups or Groups(gpus, False)
        self.connections = connections
        self.errands = Errands()

    def carry_out(
        self, peer: Peer, command: Command, request: Request, done: Callable[[Answer], None]
    ) -> None:  # fmt: skip
        """Calls `done` with the records that answer a command, once the command's decisions are carried out.

        An iterator may make its records later, when the reader takes them; each record then shows the present
        state.  `done` gets a Refusal if the change is not valid, and nothing has changed, or if a decision failed when
        its turn came.

        Raises:
            Refusal: the command is not permitted, or its query is not valid.
        """
        if lib.gpurt_request_find(command).administrator and not peer.administrator:
            raise Refusal(errno.EPERM, "this needs CAP_SYS_NICE: run as root or as the host's own user")
        reading: dict[Command, Callable[[Peer, Sequence[Gpu]], Iterator[Record]]] = {
            Command.GET_CLIENTS: self.clients,
            Command.GET_STATUS: self.status,
            Command.GET_LATENCY: self.latencies,
            Command.GET_BUS: self.buses,
        }
        if command is Command.GET_RULES:
            done(self.listed(peer))
        elif command in reading:
            done(reading[command](peer, self.chosen(request)))
        else:
            steps: Steps = getattr(self, command.name.lower())(request)  # for example set_priority
            self.errands.add(steps, done)

    def chosen(self, request: Request) -> Sequence[Gpu]:
        """The GPU that the request names, or all GPUs.  Raises Refusal ENODEV."""
        if "GPU" not in request:
            return self.gpus
        index = int(request["GPU"])
        if index >= len(self.gpus):
            raise Refusal(errno.ENODEV, f"no GPU {index}: there are {len(self.gpus)}")
        return [self.gpus[index]]

    def status(self, peer: Peer, gpus: Sequence[Gpu]) -> Iterator[Record]:
        """GPURT_CMD_GET_STATUS."""
        for gpu in gpus:
            runner, facts = gpu.runner.voice if gpu.runner else None, gpu.facts()
            yield [
                ("GPU", gpu.index), ("POLICY", gpu.sched.policy), ("NOTICE", gpu.notice), ("POLL_NS", gpu.held_poll_ns),
                ("TIER", int(facts.tier)), ("DRIVER", facts.driver),
                *([("DEVICE", facts.device)] if facts.device else []), ("NORMAL_PRIORITIES", gpu.band.normal),
                ("BARRED_COUNT", gpu.barred), ("CLIENT_COUNT", len(gpu.clients)), ("TSGS", gpu.tsgs),
                ("IMAGE", int(Image.ONE if runner else Image.ALL)),
                *([("RUNNER_PID", runner.peer.pid if peer.may_know(runner.peer) else 0)] if runner else []),
                ("UPDATES", gpu.commits), ("FAULTS", gpu.faults), ("MALFORMED", self.malformed()),
                ("ALPHA_NS", facts.alpha), ("THETA_NS", facts.theta), ("SLICE_NS", facts.slice), ("LATE", facts.late),
                ("REFUSED", facts.refused), *_begin(facts), *stuck.stuck_status(gpu.stuck), *partition(facts),
                *(self.space.status(gpu.index) if self.space else []),
            ]  # fmt: skip

    def clients(self, peer: Peer, gpus: Sequence[Gpu]) -> Iterator[Record]:
        """GPURT_CMD_GET_CLIENTS: the present clients; each record shows the client's state when the record is made."""
        return chain.from_iterable([self.clients_of(gpu, peer, list(gpu.clients.values())) for gpu in gpus])

    def clients_of(self, gpu: Gpu, peer: Peer, clients: Sequence[GpuClient]) -> Iterator[Record]:
        """The clients of a GPU, except clients that have gone meanwhile."""
        for client in clients:
            if client.id not in gpu.clients:
                continue
            core, owner = client.core, client.group or client
            held = lib.gpurt_client_held(core) + (self.clock() - gpu.sched.since if gpu.runner is owner else 0)
            known = peer.may_know(client.peer)
            yield [
                ("GPU", gpu.index), ("CLIENT", client.id),
                ("PID", client.peer.pid if known else 0), ("COMM", client.peer.comm if known else ""),
                ("STATE", gpu.state(client)), ("PRIORITY", lib.gpurt_client_level(core)),
                ("OWN_PRIORITY", core.own), ("DEPTH", core.depth),
                ("SET_PRIORITY", client.group.group.raw.set if client.group else core.set),
                ("TSGS", core.tsgs), ("EXEMPT", int(core.exempt)), ("DEMOTED", int(bool(owner.core.demoted))),
                ("SEGMENTS", core.segments), ("PREEMPTIONS", core.preemptions), ("HELD_NS", held),
                *budget_of(owner.core), ("OVERRUNS", core.overruns),
                ("FORM", core.boost.form), ("RAISED", max(client.boost.raised, client.copier.raised)),
                ("BARRED", int(client.boost.barred)), ("KEPT", int(client.boost.kept is not None)),
                ("COPY", client.copier.node.state), ("COPIES", client.copier.node.copies),
                *([("GROUP", client.group.group.name)] if client.group and known else []),
                *([] if (yields := gpu.yielding(client)) is None else [("YIELDS", int(yields))]),
            ]  # fmt: skip

    def latencies(self, _peer: Peer, gpus: Sequence[Gpu]) -> Iterator[Record]:
        """GPURT_CMD_GET_LATENCY; omits causes that never happened."""
        for gpu in gpus:
            for cause, latency in gpu.latency.items():
                if latency.count:
                    yield [
                        ("GPU", gpu.index), ("CAUSE", int(cause)), ("COUNT", latency.count),
                        *times_of(latency),
                    ]  # fmt: skip

    def buses(self, peer: Peer, gpus: Sequence[Gpu]) -> Iterator[Record]:
        """GPURT_CMD_GET_BUS."""
        for gpu in gpus:
            raw, holder = gpu.bus.raw, gpu.bus.holder
            record: Record = [("GPU", gpu.index), ("WAITERS", raw.waiters), ("COUNT", raw.waits.count)]
            record += times_of(raw.waits)
            if holder:
                client = gpu.copiers[holder]
                known = peer.may_know(client.peer)
                record += [
                    ("CLIENT", client.id), ("PID", client.peer.pid if known else 0),
                    ("COMM", client.peer.comm if known else ""), ("PRIORITY", holder.node.level),
                    ("HELD_NS", self.clock() - holder.node.since),
                ]  # fmt: skip
            yield record

    def listed(self, peer: Peer) -> Iterator[Record | None]:
        """GPURT_CMD_GET_RULES; None for a rule that no longer counts, since finding that out takes time.

        Only the administrator sees all names and paths: they may be of any process.  Others see their own pids.
        """
        both = (("EXEMPT", self.rules.exempt.rules), ("BARRED", self.rules.barred.rules))
        made = heapq.merge(*(zip(repeat(flag), rules) for flag, rules in both), key=lambda one: one[1].since)
        return (None if rule.dead else _told(peer, flag, rule) for flag, rule in made)

    def every(self, gpus: Sequence[Gpu]) -> Iterator[tuple[Gpu, GpuClient]]:
        """The present clients, except clients that have gone when their turn comes."""
        for gpu in gpus:
            for client in list(gpu.clients.values()):
                if client.id in gpu.clients:
                    yield gpu, client

    def set_priority(self, request: Request) -> Steps:
        """GPURT_CMD_SET_PRIORITY."""
        priority, pid = int(request["PRIORITY"]), int(request["PID"])
        if priority > lib.GPURT_MAX_PRIORITY and priority != lib.GPURT_PRIORITY_OWN:
            raise Refusal(errno.EINVAL, f"priority {priority} is neither 0 to {lib.GPURT_MAX_PRIORITY} nor OWN")
        found: list[tuple[Gpu, GpuClient]] = []
        for number, (gpu, client) in enumerate(self.every(self.chosen(request)), 1):
            found += [(gpu, client)] if client.peer.pid == pid else []
            if number % LOOKS == 0:
                yield None
        if not found:
            raise Refusal(errno.ESRCH, f"process {pid} is no client of the GPU")
        for gpu, _ in found:
            if gpu.sched.policy == lib.GPURT_POLICY_BOOSTED and gpu.band.normal < priority != lib.GPURT_PRIORITY_OWN:
                raise Refusal(errno.ERANGE, f"policy boosted: priorities are 1 to {gpu.band.normal}, not {priority}")
        for gpu, client in found:
            yield partial(set_priority, gpu, client, priority)

    def set_group(self, request: Request) -> Steps:
        """GPURT_CMD_SET_GROUP."""
        pid, name = int(request["PID"]), str(request["GROUP"])
        if not name or not (name.isascii() and name.isprintable()):
            raise Refusal(errno.EINVAL, "attribute GPURT_A_GROUP must be printable ASCII, and not empty")
        members = [one for one in self.connections() if one.peer.pid == pid and one.clients]
        if not members:
            raise Refusal(errno.ESRCH, f"process {pid} is no client of the GPU")
        entering = sum(not one.group for one in members)
        for one in members:
            self.groups.check(one, name, True, entering)
            yield None
        for one in members:
            yield partial(self.move, one, name)

    def move(self, member: Connection, name: str, done: Callable[[int], None]) -> None:
        """Makes a connection a member of a group, unless the connection has ended: it would stay a member for ever."""
        if member.closed:
            done(-errno.ESRCH)
            return
        try:
            self.groups.join(member, name, 0, True, done)
        except Refusal as refusal:
            done(-refusal.error)

    def set_policy(self, request: Request) -> Steps:
        """GPURT_CMD_SET_POLICY."""
        if self.space:
            why = f"this host shares units by policy {self.space.setup.policy.name}; end it and start one with another"
            raise Refusal(errno.EOPNOTSUPP, why)
        policy, notice = int(request["POLICY"]), int(request.get("NOTICE", lib.GPURT_NOTICE_POLL))
        if policy >= lib.GPURT_POLICY_COUNT:
            raise Refusal(errno.EINVAL, f"no policy {policy}")
        if lib.gpurt_policy_locks(policy) and (group := self.groups.spanning):
            why = f"group {group.name} is in segments on several GPUs, which no lock policy can have; try again later"
            raise Refusal(errno.EBUSY, why)
        if notice >= lib.GPURT_NOTICE_COUNT:
            raise Refusal(errno.EINVAL, f"no way to notice: {notice}")
        if notice != lib.GPURT_NOTICE_POLL:
            raise Refusal(errno.EOPNOTSUPP, "the user-space host can only poll; notify needs the kernel module")
        poll_ns = int(request.get("POLL_NS", lib.GPURT_POLL_DEFAULT_NS))
        if not lib.GPURT_POLL_MIN_NS <= poll_ns <= lib.GPURT_POLL_MAX_NS:
            raise Refusal(errno.EINVAL, f"a polling period of {poll_ns} ns is not within 0.1 ms to 10 s")
        for gpu in self.chosen(request):
            gpu.notice, gpu.poll_ns = notice, poll_ns
            gpu.held_poll_ns = poll_ns
        for gpu in self.chosen(request):
            yield step(gpu, None, lib.gpurt_set_policy, policy)

    def set_budget(self, request: Request) -> Steps:
        """GPURT_CMD_SET_BUDGET."""
        limit, period = int(request["BUDGET_NS"]), int(request.get("PERIOD_NS", 0))
        action = int(request.get("OVERRUN", lib.GPURT_OVERRUN_REPORT))
        refusal = lib.gpurt_budget_refusal(limit, period, action)
        if refusal != ffi.NULL:
            raise Refusal(errno.EINVAL, bytes(ffi.string(refusal)).decode())
        named = [request[kind] for kind in ("PID", "CGROUP") if kind in request]
        if len(named) != 1:
            raise Refusal(errno.EINVAL, "a budget is for exactly one of PID and CGROUP")
        gpus = self.chosen(request)
        allowance = self.budgets.named(named[0], make=limit > 0)
        if allowance is None:
            return
        if limit:
            yield from self.check_groups(allowance)
        for gpu in gpus:
            yield partial(set_limit, gpu, allowance, limit, period, action)
        self.budgets.settle(allowance)
        for gpu, client in self.every(self.gpus):
            wanted = yield from self.wanted(client)
            if wanted is not client.allowance and client.id in gpu.clients:
                yield partial(gpu.put_under, client, wanted)

    def check_groups(self, allowance: Allowance) -> Iterator[None]:
        """Raises Refusal EDQUOT and drops the allowance if it would put members of a group under two budgets."""
        for seat in list(self.groups.seats):
            wanted: set[Allowance | None] = set()
            for one in list(seat.members):
                wanted.add((yield from self.wanted(one)))
            wanted.discard(None)
            if allowance in wanted and len(wanted) > 1:
                self.budgets.settle(allowance)
                why = f"members of group {seat.group.name} would be under two budgets"
                raise Refusal(errno.EDQUOT, f"{why}; set one for all of them, or remove the other")

    def wanted(self, client: GpuClient) -> Generator[None, None, Allowance | None]:
        """The client's future allowance, in pieces; if that is unreadable, expels the client: the present one."""
        try:
            for found in self.budgets.search(client.peer, client.allowance):
                yield None
                if found:
                    return found[0]
        except procs.Unreadable as error:
            self.expel(client, error)
        return client.allowance

    def known(self, client: GpuClient, ask: Callable[[Peer], T], otherwise: T) -> T:
        """The answer of `ask` for the client's process; if it is unreadable, expels the client: `otherwise`."""
        try:
            return ask(client.peer)
        except procs.Unreadable as error:
            self.expel(client, error)
            return otherwise

    def set_exempt(self, request: Request) -> Steps:
        """GPURT_CMD_SET_EXEMPT."""
        change_rules(self.rules.exempt, "EXEMPT", request)
        for gpu, client in self.every(self.gpus):
            yield None
            wanted = self.known(client, self.rules.exempt.has, False)
            if {bool(client.core.exempt), client.exempt} != {wanted} and client.id in gpu.clients:
                yield partial(gpu.exempt, client, wanted)

    def set_barred(self, request: Request) -> Steps:
        """GPURT_CMD_SET_BARRED."""
        change_rules(self.rules.barred, "BARRED", request)
        for gpu, client in self.every(self.gpus):
            gpu.bar(client, self.known(client, self.rules.barred.has, True))
            if client.boost.barred:
                client.copier.raise_to(0)
            yield None


def partition(facts: Facts) -> Record:
    """The attributes of a GPU that is a partition; empty for another GPU."""
    names = ("PARTITION_OF", "PARTITION_UNITS", "CROSS_THOUSANDTHS")
    return list(zip(names, facts.partition, strict=True)) if facts.partition else []


def _told(peer: Peer, flag: str, rule: Rule) -> Record:
    """A rule's record; it names the processes only if the reader may know them."""
    known = peer.administrator or (rule.user is not None and rule.user == peer.uid)
    what: int | str = 0 if isinstance(rule.what, int) else ""
    return [(flag, 1), (rule.kind, rule.what if known else what), ("TIME_NS", rule.since)]


def change_rules(rules: Named, flag: str, request: Request) -> None:
    """Adds or removes the rule that a request names.

    Raises:
        Refusal: the request names no rule or several, or `Named.change` refuses it.
    """
    kinds = [kind for kind in ("PID", "COMM", "CGROUP") if kind in request]
    if len(kinds) != 1 or int(request[flag]) > 1:
        raise Refusal(errno.EINVAL, f"{flag} is 0 or 1, with exactly one of PID, COMM and CGROUP")
    rules.change(kinds[0], request[kinds[0]], bool(request[flag]))


def times_of(latency: CData) -> Record:
    """The extremes, the sum and the histogram of a struct gpurt_latency."""
    return [
        ("MIN_NS", latency.min), ("SUM_NS", latency.sum), ("MAX_NS", latency.max),
        ("HISTOGRAM", bytes(ffi.buffer(latency.bucket))),
    ]  # fmt: skip


def set_priority(gpu: Gpu, client: GpuClient, priority: int, done: Callable[[int], None]) -> None:
    """Requests the decision that changes a client's priority, for its segments and its copies."""

    if seat := client.group:

        def decide(now: int) -> int:
            return int(lib.gpurt_group_set_level(seat.raw, priority, now))

        def leveled(result: int) -> None:
            seat.group.relevel_copies()
            done(result)

        gpu.update(Decision(decide, leveled, lambda: CONTROL, client))
        return

    def decided(result: int) -> None:
        if not client.gone:
            gpu.bus.relevel(client.copier, client.level_of_copies)
        done(result)

    step(gpu, client, lib.gpurt_set_priority, priority)(decided)


def budget_of(core: CData) -> Record:
    """The budget that a client is under."""
    budget = core.budget
    if budget == ffi.NULL or not budget.limit:
        return [("BUDGET_NS", 0), ("PERIOD_NS", 0)]
    return [("BUDGET_NS", budget.limit), ("PERIOD_NS", budget.period), ("OVERRUN", budget.action)]


def set_limit(
    gpu: Gpu, allowance: Allowance, limit: int, period: int, action: int, done: Callable[[int], None]
) -> None:
    """Requests the decision that changes an allowance's budget on one GPU."""
    budget = allowance.budget(gpu.index)

    def decide(now: int) -> int:
        return int(lib.gpurt_set_budget(gpu.sched, budget, limit, period, action, now))

    gpu.update(Decision(decide, done, lambda: CONTROL, recalls=True))


def step(gpu: Gpu, client: GpuClient | None, function: Callable[..., int], *arguments: int) -> Step:
    """The decision that a function of the core takes, about a client or about everyone."""
    about = [client.core] if client else []

    def decide(now: int) -> int:
        return int(function(gpu.sched, *about, *arguments, now))

    return lambda done: gpu.update(Decision(decide, done, lambda: CONTROL, client, recalls=True))

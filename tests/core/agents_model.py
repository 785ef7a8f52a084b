"""An obviously right model of kmod/core/agents.c: at every step it finds anew what is waited for."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from gpurt._gpurt import lib

AGAIN, LIMIT = lib.GPURT_AGENT_AGAIN_NS, lib.GPURT_AGENT_LIMIT
UNKNOWN, SHORT, DRIVERS, LONG = (
    getattr(lib, f"GPURT_AGENT_{name}") for name in ("UNKNOWN", "SHORT", "DRIVERS", "LONG")
)
UNLIMITED = lib.GPURT_AGENT_UNLIMITED
TRUST, MOST_TRUST, SOON = lib.GPURT_AGENT_TRUST_NS, lib.GPURT_AGENT_TRUST_MAX_NS, lib.GPURT_AGENT_SOON


@dataclass(eq=False)
class Process:
    """Facts about one process, and about its agent while `agent` holds."""

    name: int
    user: int = UNLIMITED
    agent: bool = False
    exempt: int = 0
    group: int | None = None
    late: bool = False
    doubted: bool = False
    on: bool = True
    sequence: int = 0
    answered: int = 0
    since: int = 0
    again: int | None = None
    driver: str = ""
    tier: int = 0
    plain: bool = False
    free: bool = False
    flags: list[bool] = field(default_factory=list)  # of the orders that its agent may hold to
    calls: bool = False
    channels: int = 0
    many: int = 0
    given_up: bool = False
    taken: bool = False
    anew: bool = False
    taker: Process | None = None
    taken_in: int = 0
    rank: int = 0
    inside: bool = False
    automatic: bool = False
    outlasts: bool = False
    single: bool = False
    slice: int = DRIVERS
    has: int = UNKNOWN
    yields: bool = False
    went: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether its slice is known to be short."""
        return self.single and self.has == SHORT

    @property
    def owes(self) -> bool:
        return self.agent and self.answered != self.sequence


@dataclass
class Model:
    """One GPU; `said` is what the host has been told."""

    bound: int
    wait: bool
    limit: int = LIMIT
    yields: bool = False
    processes: list[Process] = field(default_factory=list)
    only: Process | int | None = None
    step: str = ""  # "", "off" or "on"
    step_since: int = 0
    open: bool = True
    failed: bool = False
    refused: int = 0
    goings: int = 0
    users: dict[int, tuple[int, int]] = field(default_factory=dict)  # until when they are doubted, and for how long
    recalls: int = 0
    beside: bool = False
    lazy_until: int | None = None
    begun: int | None = None
    admitted: Process | None = None
    coming: Process | None = None  # that was admitted last
    said: list[tuple[object, ...]] = field(default_factory=list)

    def may_run(self, p: Process) -> bool:
        stays = self.beside and p is self.top and not p.inside
        return self.only is None or self.owns(p) or p.exempt > 0 or stays

    def owns(self, p: Process) -> bool:
        """Whether it is the process that is to be alone, or of the group that is."""
        return self.only is not None and self.only in (p, p.group)

    def debtors(self) -> list[Process]:
        """The processes that must be off and have not said that they are."""
        return [p for p in self.processes if p.owes and (not self.may_run(p) or p in self.callers())]

    def callers(self) -> list[Process]:
        """The processes whose calls for others an update waits for."""
        return [p for p in self.processes if p.many and not p.given_up and self.only is not None]

    def waits(self, p: Process) -> bool:
        """Whether an update waits for the process's answer."""
        return p in self.callers() or (p.owes and not p.late and (self.wait or not p.doubted))

    def is_doubted(self, p: Process, now: int) -> bool:
        return now < self.users.get(p.user, (0, 0))[0]

    def comes_late(self, p: Process, now: int) -> None:
        p.late = True
        self.said.append(("late", p.name))
        if p.user == UNLIMITED:
            return
        until, trust = self.users.get(p.user, (0, 0))
        if not trust or now > until + SOON * trust:
            trust = TRUST
        elif now >= until:
            trust = min(2 * trust, MOST_TRUST)
        self.users[p.user] = now + trust, trust
        for one in self.processes:
            one.doubted |= one.agent and one.user == p.user

    def entitled(self, p: Process) -> bool:
        """Whether it may begin without asking."""
        others = [one for one in self.processes if one.agent and one is not p]
        cut = all(one.is_cut and not any(one.flags) for one in others)
        may = not others or (p is self.top and p.slice == LONG and cut)
        return may and p.plain and p.on and not (p.late or p.doubted or self.recalls or self.wait)

    @property
    def top(self) -> Process | None:
        """The single most urgent process, if it can begin beside others."""
        agents = [p for p in self.processes if p.agent]
        most = [p for p in agents if p.rank and p.rank == max(one.rank for one in agents)]
        if not self.yields or self.wait or len(most) != 1:
            return None
        able = most[0].single and most[0].automatic and most[0].plain
        return most[0] if able and not (most[0].late or most[0].doubted) else None

    def slice_of(self, p: Process) -> int:
        """The slice that it is to have; none becomes longer while a process owns the GPU, or another may begin."""
        slice_ = DRIVERS if not self.top or not p.single else LONG if p is self.top else SHORT
        begins = any(any(one.flags) for one in self.processes if one is not p)
        return min(slice_, p.slice) if self.only is not None or begins else slice_

    def target(self, p: Process) -> bool:
        """The one rule: whether its TSGs are to run now."""
        if self.lazy_until is not None and not self.may_run(p):
            return p.on
        comes = self.open and (self.only is not None or p is self.admitted)
        return self.may_run(p) and (p.on or p.exempt > 0 or comes)

    def can_take(self, caller: Process, p: Process) -> bool:
        ready = not (p.late or p.doubted or p.many or p.owes or p.taker)
        mine = p is not caller and caller.user in (p.user, UNLIMITED)
        return mine and ready and p.agent and p.channels > 0 and p.on and not self.target(p)

    def take(self, now: int) -> None:
        """One agent takes others off by one call."""
        c = self.only
        if self.open or not isinstance(c, Process) or not c.agent or not c.calls:
            return
        busy = c.owes and (c.many != c.sequence or c.given_up)
        others = [p for p in self.processes if self.can_take(c, p)]
        if busy or c.late or c.doubted or c.taker or len(others) < 2:
            return
        c.many, c.given_up = c.sequence + 1, False
        c.since = self.step_since if self.step else now
        self.deliver(c)
        room = lib.GPURT_MAX_CHANNELS
        for p in others:
            if p.channels <= room:
                room -= p.channels
                p.taker, p.taken_in = c, c.many
                self.give(p, now, taken=True)

    def taken_over(self, c: Process, well: bool, over: bool, now: int) -> None:
        for p in self.processes:
            if p.agent and p.taker is c:
                p.taker = None if over else c
                if not (well and not p.on and p.taken_in == c.many):
                    p.taken, p.anew, p.since = False, True, self.step_since if self.step else now
                    self.deliver(p)

    def call_over(self, caller: Process, well: bool, now: int) -> None:
        self.taken_over(caller, well and not caller.given_up, True, now)
        caller.many = 0

    def give(self, p: Process, now: int, taken: bool = False) -> None:
        if not p.agent:
            return
        before, p.on = (p.on, p.free, p.yields, p.slice), self.target(p)
        if before[0] and not p.on:
            self.goings += 1
            p.went = self.goings
        p.slice = self.slice_of(p)
        if p.slice != before[3]:
            p.has = UNKNOWN
        p.free = self.entitled(p)
        p.yields = p.free and sum(one.agent for one in self.processes) > 1
        if before != (p.on, p.free, p.yields, p.slice):
            p.since = self.step_since if self.step else now
            p.anew |= p.taken and p.owes and not taken
            p.taken = taken
            self.deliver(p)

    def deliver(self, p: Process) -> None:
        p.sequence, p.again = p.sequence + 1, None
        p.flags.append(p.free)
        p.anew |= p.taker is not None and not p.taken
        self.said.append(("order", p.name, p.on, p.sequence))

    def go_on(self, now: int) -> None:
        if self.step == "off" and not any(self.waits(p) for p in self.debtors()):
            if self.wait and self.debtors():
                self.end(-errno.ETIMEDOUT)
                return
            self.step, self.step_since, self.open = "on", now, True
            self.take(now)
            self.reconsider(now)
        if self.step == "on" and not any(self.waits(p) and self.owns(p) for p in self.processes):
            self.end(0)

    def end(self, err: int) -> None:
        self.step, self.failed = "", err != 0
        self.said.append(("finished", err))

    def changed(self, now: int) -> None:
        if self.step:
            self.go_on(now)
        elif self.failed and not self.debtors():
            self.said.append(("retry",))

    def reconsider(self, now: int) -> None:
        for p in self.processes:
            if p is not self.top:
                self.give(p, now)
        if self.top:
            self.give(self.top, now)
        self.admit(now)

    def admit(self, now: int) -> None:
        """While nobody owns the GPU those that are off come on one at a time, late ones beside them, and then all."""
        if self.only is not None or not self.open:
            return
        off = [p for p in self.processes if p.agent and not p.on]
        patient = [p for p in off if now < self.step_since + self.bound and not (p.late or p.doubted)]
        for p in off:
            if p not in patient:
                self.bring(p, now)
        c = self.coming
        if patient and not (c and c.agent and c.on and c.owes and not (c.late or c.doubted)):
            self.coming = min(patient, key=lambda p: p.went)
            self.bring(self.coming, now)

    def bring(self, p: Process, now: int) -> None:
        self.admitted = p
        self.give(p, now)
        self.admitted = None

    # Events

    def plainly(self, p: Process, plain: bool, now: int) -> None:
        if p.plain == plain:
            return
        p.plain = plain
        self.reconsider(now)
        self.go_on(now)

    def ranked(self, p: Process, rank: int, inside: bool, now: int) -> None:
        if (p.rank, p.inside) == (rank, inside):
            return
        p.rank, p.inside = rank, inside
        self.reconsider(now)
        self.go_on(now)

    def is_single(self, p: Process, single: bool, automatic: bool, now: int) -> None:
        if (p.single, p.automatic) == (single, automatic):
            return
        p.automatic = automatic
        if p.single != single:
            p.single, p.has = single, UNKNOWN
        self.reconsider(now)
        self.go_on(now)

    def hasten(self, now: int) -> None:
        """The others are taken off, who run beside an owner that began beside them."""
        if self.lazy_until is not None:
            self.step, self.step_since, self.open, self.lazy_until = "off", now, False, None
            self.take(now)
            self.reconsider(now)
            self.go_on(now)

    def recall(self, now: int) -> None:
        self.recalls += 1
        self.hasten(now)
        self.reconsider(now)

    def recall_over(self, now: int) -> None:
        self.recalls -= 1
        self.reconsider(now)

    def commit(self, only: Process | int | None, now: int, way: str = "ALONE") -> None:
        settled = self.open and not self.step and not self.failed
        for p in self.processes:
            p.doubted = p.agent and self.is_doubted(p, now)
        if self.begun is not None and only is not self.only:
            if self.top and self.top is self.only:
                self.top.outlasts = now - self.begun >= lib.GPURT_AGENT_LAZY_NS
            self.begun = None
        self.only, self.lazy_until, self.beside = only, None, way != "ALONE"
        if way == "YIELD" and settled and only is not None and only is self.top and self.top.yields:
            self.begun = now
            self.lazy_until = now + (0 if self.top.outlasts else lib.GPURT_AGENT_LAZY_NS)
            self.end(0)
            if self.top.outlasts:
                self.hasten(now)
            return
        self.step, self.step_since, self.open = "off" if only is not None else "on", now, only is None
        self.take(now)
        self.reconsider(now)
        self.go_on(now)

    def tick(self, now: int) -> None:
        trusted = [p for p in self.processes if p.agent and p.doubted and not self.is_doubted(p, now)]
        for p in trusted:
            p.doubted = False
        if trusted:
            self.reconsider(now)
        if self.lazy_until is not None and now >= self.lazy_until:
            self.hasten(now)
        self.admit(now)
        for p in self.processes:
            if p.many and not p.given_up and now >= p.since + self.bound // 2:
                p.given_up = True
                self.taken_over(p, False, False, now)
            if p.owes and not p.late and now >= p.since + self.bound:
                self.comes_late(p, now)
                p.flags = []
                self.reconsider(now)
            if p.owes and p.again is not None and now >= p.again:
                p.taken = False  # it has tried by itself
                self.deliver(p)
        if self.step:
            self.go_on(now)

    def register(self, p: Process, driver: str, tier: int, now: int) -> int:
        fellows = [one for one in self.processes if one.agent and one.user == p.user]
        if not p.agent and p.user != UNLIMITED and len(fellows) >= self.limit:
            self.refused += 1
            return -errno.EDQUOT
        p.driver, p.tier = driver, tier
        if not p.agent:
            self.processes.remove(p)  # orders are given to those first who registered first
            self.processes.append(p)
            p.doubted = self.is_doubted(p, now)
            p.agent, p.sequence, p.answered, p.again = True, 1, 0, None
            p.slice, p.yields = DRIVERS, False
            p.on = self.may_run(p) and (p.exempt > 0 or self.open)
            self.goings += 1
            p.went = self.goings
            p.since = self.step_since if self.step else now
            p.free = self.entitled(p)
            p.flags = [p.free]
            self.reconsider(now)
        return 0

    def resign(self, p: Process, now: int) -> None:
        p.agent = p.free = p.taken = p.anew = p.single = p.yields = p.outlasts = False
        p.has = UNKNOWN
        p.flags, p.channels, p.taker = [], 0, None
        self.coming = None if self.coming is p else self.coming
        if p.many:
            self.call_over(p, False, now)
        self.reconsider(now)
        self.changed(now)

    def leave(self, p: Process, now: int) -> None:
        self.resign(p, now)
        self.processes.remove(p)

    def set_exempt(self, p: Process, exempt: bool, now: int) -> None:
        p.exempt += 1 if exempt else -1
        self.give(p, now)
        self.changed(now)

    def unite(self, p: Process, group: int | None, now: int) -> None:
        p.group = group
        if self.only is not None and p.agent and self.may_run(p) and not (p.on or p.exempt):
            self.open = False
        self.give(p, now)
        self.changed(now)

    def answer(self, p: Process, number: int, well: bool, now: int) -> int:
        if number > p.sequence:
            return -errno.EINVAL
        if p.many and number >= p.many:
            own = number == p.many
            strangers = [o for o in self.processes if own and not well and o.agent and o.taker is p]
            strangers = [o for o in strangers if o.taken_in == p.many and o.user != p.user]
            for one in strangers:
                one.channels = 0
            p.calls &= well or not own or bool(strangers)
            self.call_over(p, own and well, now)
        if number < p.sequence:
            return 0
        p.flags = [p.free]
        if well:
            p.anew, p.has = False, p.slice
            p.answered, p.late, p.again = number, False, None
            self.reconsider(now)
            self.changed(now)
            return 0
        if not p.owes:  # it takes back what it answered before
            p.answered, p.since = number - 1, self.step_since if self.step else now
            self.comes_late(p, now)
            p.flags = []
            self.reconsider(now)
        p.again = now + (self.bound if p.late else AGAIN)
        return 0

    # What follows

    def next(self) -> int | None:
        """When a tick is due."""
        times = [p.again for p in self.processes if p.owes and p.again is not None]
        times += [p.since + self.bound for p in self.processes if p.owes and not p.late]
        times += [self.lazy_until] if self.lazy_until is not None else []
        times += [self.users[p.user][0] for p in self.processes if p.agent and p.doubted]
        times += [p.since + self.bound // 2 for p in self.processes if p.many and not p.given_up]
        off = [p for p in self.processes if p.agent and not p.on]
        times += [self.step_since + self.bound] if off and self.only is None and self.open else []
        return min(times, default=None)

    def facts(self) -> tuple[str, int, int, int]:
        """Driver, tier, number of late agents, and how many were refused."""
        agents = [p for p in self.processes if p.agent]
        names = "+".join(sorted({p.driver for p in agents}))[: lib.GPURT_NAME_LEN - 1]
        tier = min((p.tier for p in agents), default=int(lib.GPURT_TIER_UNPATCHED))
        return names or "none", tier, sum(p.late for p in agents), self.refused

"""The guarantee of a budget to others: in any time its clients own the GPU for so long at most, whatever they do."""

from __future__ import annotations

import random
from typing import Any

import pytest
from effort import tries
from test_policy import Core

from gpurt._gpurt import ffi, lib

DEMOTE = lib.GPURT_OVERRUN_DEMOTE
FAR = 10**15


class World:
    """Clients under one budget that do what they like at priority 50; somebody else waits at priority 10."""

    def __init__(self, limit: int, period: int, count: int = 3, update: int = 0) -> None:
        self.core = Core()
        self.now = 0
        self.core.theta = update
        lib.gpurt_set_policy(self.core.sched, lib.GPURT_POLICY_SEGMENT, 0)
        self.budget = self.core.budgets[0]
        assert lib.gpurt_set_budget(self.core.sched, self.budget, limit, period, DEMOTE, 0) == 0
        self.other = self.core.add()
        lib.gpurt_begin(self.core.sched, self.other, 10, 0, 0)
        self.clients = [self.add() for _ in range(count)]
        self.owned: list[tuple[int, int]] = []

    def add(self) -> Any:
        client = self.core.add()
        lib.gpurt_join_budget(self.core.sched, client, self.budget, self.now)
        return client

    def begin(self, client: Any) -> None:
        assert lib.gpurt_begin(self.core.sched, client, 50, 0, self.now) == 0

    def end(self, client: Any) -> None:
        assert lib.gpurt_end(self.core.sched, client, self.now) == 0

    def runs(self) -> bool:
        """Whether a client under the budget owns the GPU alone."""
        return self.core.sched.runner not in (ffi.NULL, self.other)

    def sleep(self, until: int) -> None:
        """Lets time pass; the host calls in time."""
        while self.now < until:
            due = max(self.core.sched.deadline, self.now)
            then = min(until, due)
            if self.runs() and then > self.now:
                self.owned.append((self.now, then))
            self.now = then
            if due <= self.now:
                lib.gpurt_tick(self.core.sched, self.now)

    def do_anything(self, draw: random.Random, limit: int, period: int) -> None:
        """Begins, ends and sleeps at random for twelve periods."""
        while self.now < 12 * period:
            self.uncharge()
            client = draw.choice(self.clients)
            if client.depth and draw.random() < 0.6:
                self.end(client)
            else:
                self.begin(client)
            self.sleep(self.now + draw.choice([0, 0, 1, limit, draw.randrange(period), period]))
        assert self.owned

    def uncharge(self) -> None:
        """Updates take no time here: nothing is to be left uncharged."""

    def most(self, window: int) -> int:
        """The longest that the budget's clients owned the GPU within any time of that length."""
        def within(begin: int) -> int:
            return sum(max(0, min(b, begin + window) - max(a, begin)) for a, b in self.owned)

        return max((within(t) for a, b in self.owned for t in (a, b - window)), default=0)


def bound(limit: int, period: int, window: int) -> int:
    """kmod/core/budget.h; docs/readings/own.md, "Budgets"."""
    return -(-(window + period - limit) // period) * limit


@pytest.mark.parametrize("seed", range(tries(30)))
def test_ownership_is_bounded_in_every_window(seed: int) -> None:
    draw = random.Random(seed)
    period = draw.randrange(5, 40)
    limit = draw.randrange(1, period + 1)
    world = World(limit, period)
    world.do_anything(draw, limit, period)
    for window in range(1, 4 * period):
        assert world.most(window) <= bound(limit, period, window)


def test_the_bound_is_reached() -> None:
    world = World(4, 20)
    (client, *_) = world.clients
    world.begin(client)
    world.end(client)  # the period begins here and ends at 20
    world.sleep(16)
    world.begin(client)
    world.sleep(20)
    world.end(client)
    world.begin(client)
    world.sleep(60)
    assert world.most(8) == bound(4, 20, 8) == 8


def test_a_client_that_begins_and_ends_all_the_time_pays_for_the_updates() -> None:
    """It hardly owns the GPU, but the updates keep it from all others."""
    world = World(100, 1000, update=10)
    (client, *_) = world.clients
    for _ in range(tries(500)):
        world.begin(client)
        world.sleep(world.now + 1)
        world.end(client)
    assert world.core.commits <= 1 + 2 * (100 // (10 + 1 + 10) + 1)
    world.sleep(1001)
    world.begin(client)
    assert world.runs()


def test_one_slow_update_is_paid_for_once() -> None:
    """If each update were charged what the slowest one took, no client of a budget would ever get through again."""
    world = World(100, 1000, update=5000)
    (client, *_) = world.clients
    world.begin(client)
    world.core.theta = 10
    world.sleep(1)
    assert not world.runs()
    for start in range(1001, 20000, 1000):
        world.sleep(start)
        world.end(client)
        world.begin(client)
        world.sleep(start + 50)
        assert world.runs()


def test_a_program_that_begins_and_closes_all_the_time_pays_for_the_updates() -> None:
    world = World(100, 1000, count=0, update=10)
    for _ in range(30):
        client = world.add()
        world.begin(client)
        world.sleep(world.now + 1)
        lib.gpurt_gone(world.core.sched, client, world.now)
    assert world.core.commits <= 1 + 2 * (100 // (10 + 1 + 10) + 1)


def test_a_program_that_wakes_and_sleeps_all_the_time_pays_for_the_updates() -> None:
    """Policy `job`: its jobs begin and end when it is runnable and when not."""
    world = World(100, 1000, count=1, update=10)
    (client,) = world.clients
    lib.gpurt_set_policy(world.core.sched, lib.GPURT_POLICY_JOB, world.now)
    lib.gpurt_tsg_opened(world.core.sched, client, world.now)
    before = world.core.commits
    for _ in range(tries(100)):
        for runnable in (True, False):
            lib.gpurt_job(world.core.sched, client, 50, runnable, world.now)
            world.sleep(world.now + 1)
    assert 0 < world.core.commits - before <= 2 * (100 // (10 + 1 + 10) + 1)


class SlowWorld(World):
    """As World, but updates take time; ``flight``: decisions are taken meanwhile, and a newer update supersedes it."""

    def __init__(self, limit: int, period: int, draw: random.Random, most: int, flight: bool) -> None:
        self.draw, self.longest, self.flight = draw, most, flight
        self.over: int | None = None  # when the update is over that is under way
        self.blocked = False
        super().__init__(limit, period)
        self.core.sched.ops.commit = self.commit = ffi.callback(
            "void(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64)", self.on_commit
        )

    def on_commit(self, *_: Any) -> None:
        self.over = self.now + self.draw.randrange(1, self.longest + 1)

    def uses(self) -> bool:
        """Whether the group owns the GPU, or keeps it busy with an update."""
        return self.runs() or self.core.sched.payer == self.budget

    def sleep(self, until: int) -> None:
        """Lets time pass, and until no update is under way if decisions wait for it."""
        while self.now < until or (self.over is not None and not self.flight):
            due = max(self.core.sched.deadline, self.now)
            if self.over is not None:
                due = min(due, self.over) if self.flight else self.over
            then = max(self.now, due if self.now >= until else min(until, due))
            if self.uses() and then > self.now:
                self.owned.append((self.now, then))
            self.now = then
            if self.over is not None and self.over <= self.now:
                self.over = None
                if self.flight:
                    lib.gpurt_uncharged(self.core.sched, self.now)
                lib.gpurt_updated(self.core.sched, self.now, 0)
            elif self.core.sched.deadline <= self.now:
                self.uncharge()
                lib.gpurt_tick(self.core.sched, self.now)

    def uncharge(self) -> None:
        """While an update is in progress nobody has the GPU."""
        if self.over is not None:
            lib.gpurt_uncharged(self.core.sched, self.now)


def test_who_joins_a_budget_does_not_end_an_update_in_progress() -> None:
    """Otherwise a program would open the device again after each begin, and not pay for its updates."""
    world = SlowWorld(100, 1000, random.Random(1), 1, flight=True)
    world.longest = 60
    world.begin(world.clients[0])
    over = world.over
    assert over is not None
    world.clients.append(world.add())
    world.sleep(over)
    assert world.budget.used == over


@pytest.mark.parametrize("flight", [False, True])
@pytest.mark.parametrize("seed", range(tries(25)))
def test_ownership_and_updates_together_are_bounded_in_every_window(seed: int, flight: bool) -> None:
    """The lemma of docs/readings.md: the budget, two of the longest updates, and what the host notices late."""
    draw = random.Random(seed)
    period = draw.randrange(20, 80)
    limit, longest = draw.randrange(1, period // 2), draw.randrange(1, 6)
    world = SlowWorld(limit, period, draw, longest, flight)
    world.do_anything(draw, limit, period)
    late = 0 if flight else longest  # a decision waits for the update under way
    most = limit + 2 * longest + late
    for window in range(1, 4 * period):
        assert world.most(window) <= bound(most, period, window)


def test_so_many_clients_of_a_budget_are_in_real_time_segments_at_once() -> None:
    """When the budget is spent, one decision demotes all of them that are in segments: that must not take long."""
    most = lib.GPURT_MAX_BUDGET_CLIENTS
    world = World(4, FAR, count=most + 3)
    for client in world.clients:
        world.begin(client)
    assert [client.level for client in world.clients] == [50] * most + [0] * 3
    world.end(world.clients[0])
    world.end(world.clients[-1])
    world.begin(world.clients[-1])
    assert world.clients[-1].level == 50
    world.sleep(10)
    assert [client.level for client in world.clients[1:]] == [0] * (most + 2)
    assert world.core.sched.runner == world.other


def test_a_decision_demotes_so_many_clients_at_most() -> None:
    """Any number of clients may be in the middle of segments when the administrator gives them a budget."""
    most = lib.GPURT_MAX_BUDGET_CLIENTS
    world = World(4, FAR, count=0)
    clients = [world.core.add() for _ in range(5 * most)]
    for client in clients:
        world.begin(client)
    for client in clients:
        lib.gpurt_join_budget(world.core.sched, client, world.budget, world.now)
    world.now = int(world.core.sched.deadline)
    before = world.core.commits
    ticks = 0
    while world.core.sched.deadline <= world.now:
        left = sum(client.level > 0 for client in clients)
        lib.gpurt_tick(world.core.sched, world.now)
        assert left - sum(client.level > 0 for client in clients) <= most + 1
        ticks += 1
    assert ticks >= 4
    assert not any(client.level for client in clients)
    assert world.core.sched.runner == world.other
    assert world.core.commits == before + 1  # the GPU stayed where it was until all were demoted
    for client in clients:
        world.end(client)
    assert world.budget.queued == 0


def test_a_budget_that_only_reports_makes_nobody_best_effort() -> None:
    world = World(4, FAR, count=lib.GPURT_MAX_BUDGET_CLIENTS + 3)
    report = lib.GPURT_OVERRUN_REPORT
    assert lib.gpurt_set_budget(world.core.sched, world.budget, 4, FAR, report, 0) == 0
    for client in world.clients:
        world.begin(client)
    world.sleep(10)
    assert all(client.level == 50 for client in world.clients)


@pytest.mark.parametrize("limit", [1, 10**18])
def test_periods_beyond_the_clock_are_refused(limit: int) -> None:
    """A deadline of 2^63 ns is a time in the past for the kernel's timers."""
    assert lib.gpurt_budget_refusal(limit, 10**18, DEMOTE) == ffi.NULL
    for period in (10**18 + 1, 2**63, 2**64 - 1):
        assert lib.gpurt_budget_refusal(limit, period, DEMOTE) != ffi.NULL


def test_who_changes_budgets_pays_the_old_one_first() -> None:
    """Otherwise the new one would pay, or nobody: a program could leave its budget before each end."""
    world = World(1000, FAR, count=1)
    old, new = world.core.budgets[:2]
    assert lib.gpurt_set_budget(world.core.sched, new, 1000, FAR, DEMOTE, 0) == 0
    world.begin(world.clients[0])
    world.now = 7
    lib.gpurt_join_budget(world.core.sched, world.clients[0], new, world.now)
    assert (old.used, new.used) == (7, 0)
    world.now = 12
    world.end(world.clients[0])
    assert (old.used, new.used) == (7, 5)


def test_a_policy_that_begins_with_too_many_to_demote_has_no_owner_yet() -> None:
    """Under round robin nobody owns the GPU; then a spent budget has more clients than one decision demotes."""
    world = World(4, FAR, count=1)
    world.begin(world.clients[0])
    world.sleep(10)
    lib.gpurt_set_policy(world.core.sched, lib.GPURT_POLICY_TIMESLICED, world.now)
    clients = [world.core.add() for _ in range(lib.GPURT_MAX_BUDGET_CLIENTS + 3)]
    for client in clients:
        world.begin(client)
        lib.gpurt_join_budget(world.core.sched, client, world.budget, world.now)
    assert world.core.sched.runner == ffi.NULL
    lib.gpurt_set_policy(world.core.sched, lib.GPURT_POLICY_SEGMENT, world.now)
    while world.core.sched.deadline <= world.now:
        lib.gpurt_tick(world.core.sched, world.now)
    assert not any(client.level for client in clients)
    assert world.core.sched.runner == world.other

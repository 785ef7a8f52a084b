"""What a budget guarantees to others: in any time its clients own the GPU for so long at most, whatever they do."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_policy import Core

from gpurt._gpurt import ffi, lib

DEMOTE = lib.GPURT_OVERRUN_DEMOTE
FAR = 10**15


class World:
    """Clients under one budget that do what they like at priority 50; somebody else waits at priority 10."""

    def __init__(self, limit: int, period: int, count: int = 3, update: int = 0) -> None:
        self.core = Core()
        self.now = 0
        self.core.sched.update_ns = update
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

    def most(self, window: int) -> int:
        """The longest that the budget's clients owned the GPU within any time of that length."""
        def within(begin: int) -> int:
            return sum(max(0, min(b, begin + window) - max(a, begin)) for a, b in self.owned)

        return max((within(t) for a, b in self.owned for t in (a, b - window)), default=0)


def bound(limit: int, period: int, window: int) -> int:
    """kmod/core/budget.h; docs/readings.md, "Budgets"."""
    return -(-(window + period - limit) // period) * limit


@pytest.mark.parametrize("seed", range(30))
def test_ownership_is_bounded_in_every_window(seed: int) -> None:
    draw = random.Random(seed)
    period = draw.randrange(5, 40)
    limit = draw.randrange(1, period + 1)
    world = World(limit, period)
    while world.now < 12 * period:
        client = draw.choice(world.clients)
        if client.depth and draw.random() < 0.6:
            world.end(client)
        else:
            world.begin(client)
        world.sleep(world.now + draw.choice([0, 0, 1, limit, draw.randrange(period), period]))
    assert world.owned
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
    for _ in range(500):
        world.begin(client)
        world.sleep(world.now + 1)
        world.end(client)
    assert world.core.commits <= 1 + 2 * (100 // (10 + 1 + 10) + 1)
    world.sleep(1001)
    world.begin(client)
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
    for _ in range(100):
        for runnable in (True, False):
            lib.gpurt_job(world.core.sched, client, 50, runnable, world.now)
            world.sleep(world.now + 1)
    assert 0 < world.core.commits - before <= 2 * (100 // (10 + 1 + 10) + 1)


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

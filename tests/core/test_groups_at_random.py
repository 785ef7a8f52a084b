# SPDX-License-Identifier: GPL-2.0
"""Groups under random steps, moves of clients that are inside and deaths at any instant among them: nothing is lost."""

from __future__ import annotations

import random
from typing import Any

import pytest
from effort import tries
from test_groups import BOOSTED, SEGMENT, Group, Machine

from gpurt._gpurt import ffi, lib

STEPS, CLIENTS, DEMOTE = 400, 8, lib.GPURT_OVERRUN_DEMOTE


class World(Machine):
    """Two GPUs, two groups, and what its clients should have open."""

    def __init__(self, policy: int) -> None:
        super().__init__(policy)
        self.groups = [Group(self), Group(self)]
        self.alive: dict[Any, tuple[int, int, Group | None]] = {}  # GPU, depth, group

    def enter(self, random_: random.Random) -> None:
        gpu, group = random_.randrange(2), random_.choice([None, *self.groups])
        self.alive[self.client(group, gpu, random_.randrange(5))] = gpu, 0, group

    def step(self, random_: random.Random) -> None:
        client = random_.choice([*self.alive])
        gpu, depth, group = self.alive[client]
        match random_.randrange(6):
            case 0 | 1:
                assert self.begin(client, gpu, random_.randrange(5)) == 0
                self.alive[client] = gpu, depth + 1, group
            case 2:
                assert (self.end(client, gpu) == 0) is (depth > 0)
                self.alive[client] = gpu, max(0, depth - 1), group
            case 3:
                to = random_.choice(self.groups)
                assert (lib.gpurt_group_move(to.on[gpu], client, 0) == 0) is (group is None)
                self.alive[client] = gpu, depth, group or to
            case 4:
                lib.gpurt_gone(self.gpus[gpu], client, 0)
                del self.alive[client]
                self.enter(random_)
            case 5:
                self.level(random_)
        for one in self.groups:
            for on in one.on:
                if on.unsettled:
                    lib.gpurt_group_settle(on, 0)

    def level(self, random_: random.Random) -> None:
        group = random_.choice(self.groups)
        lib.gpurt_group_set_level(group.on[random_.randrange(2)], random_.choice([255, *range(5)]), 0)

    def check(self) -> None:
        """Depths add up; each GPU has the owner that the keys say, whose members are on the runlist."""
        for one in self.groups:
            members = [(gpu, depth) for gpu, depth, group in self.alive.values() if group is one]
            assert one.raw.open == sum(depth for _, depth in members)
            assert [on.core.depth for on in one.on] == [sum(d for g, d in members if g == gpu) for gpu in (0, 1)]
            assert [on.members for on in one.on] == [sum(g == gpu for g, _ in members) for gpu in (0, 1)]
            assert one.holds
        for gpu, sched in enumerate(self.gpus):
            inside = {client.entry for client, (on, depth, _) in self.alive.items() if on == gpu and depth}
            keys = {(entry.level, -entry.stamp): entry for entry in inside if entry.level}
            owner = sched.runner
            assert (owner != ffi.NULL) is bool(keys)
            assert not keys or owner.level == max(keys)[0]
            for client, (on, _, group) in self.alive.items():
                if on == gpu and owner != ffi.NULL:
                    mine = group.on[gpu] if group else None
                    assert lib.gpurt_on_runlist(sched, client) is (
                        owner in (client, ffi.addressof(mine, "core") if mine else client)
                    )


@pytest.mark.parametrize("policy", [SEGMENT, BOOSTED])
@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_lost(policy: int, seed: int) -> None:
    random_ = random.Random(seed)
    world = World(policy)
    for _ in range(CLIENTS):
        world.enter(random_)
    for _ in range(STEPS):
        world.step(random_)
        world.check()
    for client, (gpu, _, _) in world.alive.items():
        lib.gpurt_gone(world.gpus[gpu], client, 0)
    assert [(one.raw.open, [on.members for on in one.on]) for one in world.groups] == [(0, [0, 0])] * 2
    assert [sched.runner for sched in world.gpus] == [ffi.NULL] * 2


POLICIES = [getattr(lib, f"GPURT_POLICY_{one}") for one in ("SEGMENT", "BOOSTED", "JOB", "LOCK_PRIORITY", "LOCK_FIFO")]


class Restless(Machine):
    """One GPU with two groups under budgets, of which everything changes: policies, jobs, levels, TSGs, members."""

    def __init__(self, random_: random.Random) -> None:
        super().__init__(SEGMENT, 1)
        self.random, self.now, self.sched = random_, 0, self.gpus[0]
        self.sched.lock_bound = 50
        self.groups = [Group(self), Group(self)]
        self.budgets = [ffi.new("struct gpurt_budget *") for _ in range(2)]
        for budget in self.budgets:
            lib.gpurt_set_budget(self.sched, budget, random_.choice([3, 8]), random_.choice([20, 60]), DEMOTE, 0)
        self.alive: list[Any] = []

    def enter(self) -> None:
        self.alive.append(self.client())
        if self.random.randrange(3):
            self.move(self.alive[-1])

    def move(self, client: Any) -> None:
        lib.gpurt_group_move(self.random.choice(self.groups).on[0], client, self.now)

    def afford(self, client: Any) -> None:
        """The client, or its group, is under another budget."""
        budget = self.random.choice([*self.budgets, ffi.NULL])
        lib.gpurt_join_budget(self.sched, client.entry, budget, self.now)

    def step(self) -> None:
        choose, sched = self.random.randrange, self.sched
        client = self.random.choice(self.alive)
        self.now += self.random.choice([0, 0, 1, 5, 9])
        if sched.deadline <= self.now:
            lib.gpurt_tick(sched, self.now)
        match choose(13):
            case 0 | 1 | 2:
                lib.gpurt_begin(sched, client, choose(5), choose(3), self.now)
            case 3:
                lib.gpurt_end(sched, client, self.now)
            case 4:
                self.move(client)
            case 5:
                lib.gpurt_gone(sched, client, self.now)
                self.alive.remove(client)
                self.enter()
            case 6:
                lib.gpurt_group_set_level(self.random.choice(self.groups).on[0], choose(6) or 255, self.now)
            case 7:
                lib.gpurt_set_policy(sched, self.random.choice(POLICIES), self.now)
            case 8:
                lib.gpurt_job(sched, client, choose(5), bool(choose(2)), self.now)
            case 9:
                self.afford(client)
            case 10:
                lib.gpurt_set_tsgs(sched, client, choose(2), self.now)
            case 11:
                lib.gpurt_set_exempt(sched, client, bool(choose(2)), self.now)
            case 12:
                lib.gpurt_killed(sched, client, self.now)


@pytest.mark.parametrize("seed", range(tries(200)))
def test_a_group_is_queued_by_the_key_of_its_tenure_whatever_changes(seed: int) -> None:
    world = Restless(random.Random(seed))
    for _ in range(6):
        world.enter()
    for _ in range(STEPS):
        world.step()
        assert all(one.holds for one in world.groups)

# SPDX-License-Identifier: GPL-2.0
"""Random sequences of what clients and the administrator do, against the model of tests/core.

The clients are processes of their own; after every operation the host must show each client's state and the
runner as the model has them.  GPURT_TEST_SEQUENCES and GPURT_TEST_SEED make a longer or another run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from actors import Actor
from effort import tries
from links import PATIENCE, eventually
from model import DEMOTE, OWN, Budget, Model
from model import Client as Facts

from gpurt._gpurt import lib
from gpurt.enums import Overrun, Policy
from pycontrol.link.control import Control

SEQUENCES = int(os.environ.get("GPURT_TEST_SEQUENCES") or tries(60))
SEED = int(os.environ.get("GPURT_TEST_SEED", "1"))
OPERATIONS = 40
PRIORITIES = [0, 0, 1, 2, 2, 3, 50, 63, 64, 99]
#: Under `job` the state of the tasks decides, which nobody here controls.
POLICIES = [policy for policy in Policy if policy not in (Policy.JOB, Policy.BOOSTED)]


class Pair:
    """A process, and what the model knows of it."""

    def __init__(self, actor: Actor, facts: Facts) -> None:
        self.actor, self.facts = actor, facts
        self.tsgs: list[int] = []


class Machine:
    """Does the same to the host and to the model."""

    def __init__(self, plane: Control, spawn: Callable[[], Actor], choose: random.Random) -> None:
        self.plane, self.spawn, self.choose = plane, spawn, choose
        self.model = Model(policy=lib.GPURT_POLICY_SEGMENT)
        self.pairs: list[Pair] = []
        self.names = 0
        self.history: list[str] = []
        for _ in range(choose.randint(3, 4)):
            self.new()

    def new(self) -> None:
        """A new process becomes a client."""
        facts = Facts(self.names)
        self.names += 1
        actor = self.spawn()
        actor.do("code", code=lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_IDLE)  # a client from its first call on
        self.model.clients.append(facts)
        self.pairs.append(Pair(actor, facts))

    def begin(self, pair: Pair) -> None:
        hint, facts = self.choose.choice(PRIORITIES), pair.facts
        with self.model.moving(facts):
            if not facts.depth:
                self.model.start(facts)
                facts.hint = hint
            facts.depth += 1
        self.model.decide()
        assert pair.actor.do("begin", priority=hint) == self.model.state(facts)

    def end(self, pair: Pair) -> None:
        facts = pair.facts
        if not facts.depth:
            assert pair.actor.do("code", code=lib.GPURT_IOC_END) < 0
            return
        pair.actor.do("end")
        with self.model.moving(facts):
            if facts.depth == 1:
                self.model.leave(facts)
            else:
                facts.depth -= 1
        self.model.decide()

    def open(self, pair: Pair) -> None:
        pair.tsgs.append(pair.actor.do("tsg"))
        pair.facts.tsgs += 1

    def close(self, pair: Pair) -> None:
        if not pair.tsgs:
            return
        pair.actor.do("close_tsg", tsg=pair.tsgs.pop(self.choose.randrange(len(pair.tsgs))))
        with self.model.moving(pair.facts):
            pair.facts.tsgs -= 1
            if not pair.facts.tsgs and pair.facts.depth:
                self.model.leave(pair.facts)
        self.model.decide()

    def submit(self, pair: Pair) -> None:
        if pair.tsgs:
            duration = self.choose.randint(lib.GPURT_MIN_WORK_NS, 10**9)
            pair.actor.do("submit", tsg=self.choose.choice(pair.tsgs), duration=duration)

    def kill(self, pair: Pair) -> None:
        """The process dies, and another one comes."""
        pair.actor.kill()
        self.pairs.remove(pair)
        eventually(lambda: len(self.plane.clients()) == len(self.pairs))
        with self.model.moving(pair.facts):
            pair.facts.tsgs = 0
            self.model.leave(pair.facts)
        self.model.clients.remove(pair.facts)
        self.model.decide()
        self.new()

    def set_priority(self, pair: Pair) -> None:
        priority = self.choose.choice([*PRIORITIES, None])
        self.plane.set_priority(pair.actor.pid, priority)
        with self.model.moving(pair.facts):
            pair.facts.set = OWN if priority is None else priority
        self.model.decide()

    def set_exempt(self, pair: Pair) -> None:
        pair.facts.exempt = not pair.facts.exempt
        self.plane.set_exempt(pair.facts.exempt, pid=pair.actor.pid)

    def set_budget(self, pair: Pair) -> None:
        """So little that it is used up as soon as the client owns the GPU; or none, or so much that it never is."""
        action = self.choose.choice([lib.GPURT_OVERRUN_REPORT, DEMOTE])
        pair.facts.budget = budget = Budget(self.choose.choice([0, 1, 10**18]), 10**18, action)
        self.plane.set_budget(pair.actor.pid, budget.limit, budget.period, Overrun(action))
        self.model.decide()

    def pass_time(self) -> None:
        """Uses up every small budget of the running clients, one after the other."""
        while (runner := self.model.runner) and runner.budget.limit == 1 and not runner.budget.overrun:
            self.model.charge(self.model.since + 1)
            self.model.decide()

    def set_policy(self, _pair: Pair) -> None:
        policy = self.choose.choice(POLICIES)
        self.plane.set_policy(policy)
        if policy != self.model.policy and self.model.runner:  # an equal never preempts: it stays ahead
            self.model.runner.came = -self.model.tick()
        self.model.policy = policy
        self.model.decide()

    def step(self) -> None:
        """One operation, and the comparison."""
        often, seldom = [self.begin, self.end], [
            self.open, self.close, self.submit, self.kill, self.set_priority, self.set_exempt, self.set_policy,
            self.set_budget,
        ]  # fmt: skip
        operation = self.choose.choice(often * 4 + seldom)
        pair = self.choose.choice(self.pairs)
        self.history.append(f"{operation.__name__} {pair.facts.name}")
        operation(pair)
        self.pass_time()
        # Effects of a call are there when the call has returned; the end of a budget, or of a process, comes later.
        later = operation == self.kill or any(p.facts.budget.limit == 1 for p in self.pairs)
        end = time.monotonic() + (PATIENCE if later else 0)
        while self.seen() != self.wanted():
            assert time.monotonic() < end, "; ".join(self.history)

    def seen(self) -> tuple[int, dict[int, tuple[int, int, int]]]:
        """The runner, and each client's state, priority and depth, as the host shows them."""
        clients = {one.pid: (int(one.state), one.priority, one.depth) for one in self.plane.clients()}
        return self.plane.status()[0].runner_pid, clients

    def wanted(self) -> tuple[int, dict[int, tuple[int, int, int]]]:
        """The same by the model."""
        clients = {p.actor.pid: (self.model.state(p.facts), p.facts.level(), p.facts.depth) for p in self.pairs}
        runner = next((p.actor.pid for p in self.pairs if p.facts is self.model.runner), 0)
        return runner, clients

    def finish(self) -> None:
        """Undoes what outlives the processes."""
        for pair in self.pairs:
            if pair.facts.exempt:
                self.plane.set_exempt(False, pid=pair.actor.pid)
            pair.actor.kill()
        self.plane.set_policy(Policy.SEGMENT)
        eventually(lambda: not self.plane.clients())


@pytest.fixture
def host(start_host: Callable[..., Path]) -> Path:
    """Best effort may hold a lock for ever: on a busy machine a few steps take longer than the usual second."""
    return start_host(lock_bound=0)


@pytest.mark.usefixtures("host")
def test_random_sequences(plane: Control, spawn: Callable[[], Actor]) -> None:
    for sequence in range(SEQUENCES):
        machine = Machine(plane, spawn, random.Random(SEED * 1_000_003 + sequence))
        for _ in range(OPERATIONS):
            machine.step()
        machine.finish()


def test_the_comparison_can_fail(plane: Control, spawn: Callable[[], Actor], host: Path) -> None:
    """A model that believes something else is found out."""
    machine = Machine(plane, spawn, random.Random(0))
    machine.begin(machine.pairs[0])
    assert machine.seen() == machine.wanted()
    machine.pairs[0].facts.depth = 0
    assert machine.seen() != machine.wanted()

# SPDX-License-Identifier: GPL-2.0
"""Real GPUs of the user-space host: runlist updates carried out by the agents of the processes (`gpurt serve`).

An update that gives the GPU to one client is two steps: every process whose TSGs must be off is ordered off, and only
when all of them have answered is the new owner ordered on.  The update is over when the owner's agent has answered
too; nothing else is decided before.  Opening the GPU to everyone takes nobody off, so decisions go on at once.

An order replaces the one before it.  What an agent has not carried out within the answer bound is reported; then
either the update goes on and the isolation is lost until the agent answers (`go-on`), or it waits (`wait`).  An owner
whose own agent is late is not waited for: only it suffers.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpurt._gpurt import lib
from gpurt.enums import Cap, Cause, EventKind, Tier
from pycontrol.host.gpu import FOREVER, Client, Facts, Gpu, Tell, Waiter
from pycontrol.host.wire import Refusal

#: How long after a refusal by the driver an order is given again, ns.
RETRY = 1_000_000


@dataclass(frozen=True)
class Obedience:
    """What is expected of agents: to answer within `bound` ns; whether to go on without one that does not."""

    bound: int = 100_000_000
    go_on: bool = True


@dataclass(eq=False)
class Agent:
    """The agent of one process on one GPU."""

    client: Client
    driver: str
    tier: Tier
    on: bool  # as ordered last
    since: int  # when
    sequence: int = 1  # of the last order
    answered: int = 0
    waiter: Waiter | None = None  # its call that waits for the next order
    late: bool = False
    retry: int = FOREVER

    @property
    def obeyed(self) -> bool:
        """Whether the last order has been carried out."""
        return self.answered == self.sequence

    @property
    def process(self) -> tuple[int, int]:
        """Whose TSGs it switches."""
        return self.client.peer.pid, self.client.peer.start


@dataclass
class Update:
    """The runlist update in flight."""

    only: Client | None
    cause: Cause
    began: int


class AgentGpu(Gpu):
    """A GPU whose TSGs the agents of their processes switch."""

    def __init__(self, index: int, obedience: Obedience, policy: int, tell: Tell, clock: Callable[[], int]) -> None:
        self.obedience = obedience
        self.agents: dict[tuple[int, int], Agent] = {}
        self._update: Update | None = None
        self._after: list[Callable[[], None]] = []
        super().__init__(index, policy, tell, clock)

    def prepare(self, now: int) -> None:
        """There is nobody yet."""

    def facts(self) -> Facts:
        """The drivers of those who are here, and the lowest tier that one of them reached."""
        drivers = sorted({agent.driver for agent in self.agents.values()})
        tier = min((agent.tier for agent in self.agents.values()), default=Tier.UNPATCHED)
        return Facts(tier, "+".join(drivers)[: lib.GPURT_NAME_LEN - 1] or "none", Cap.AGENTS | Cap.EMULATED)

    def late(self) -> int:
        """How many processes have not obeyed in time."""
        return sum(agent.late for agent in self.agents.values())

    # Updates

    def commit(self, only: Client | None, cause: Cause, now: int) -> None:
        """Begins an update; one that is in flight is overtaken."""
        self._update = Update(only, cause, now)
        self.busy_until = FOREVER if only else now
        self._proceed()
        self._run_after()

    def _wants(self, agent: Agent) -> bool:
        """Whether the process's TSGs are to run: any of its clients may."""
        return any(
            lib.gpurt_on_runlist(self.sched, client.core)
            for client in self.clients.values()
            if (client.peer.pid, client.peer.start) == agent.process
        )

    def _give(self, agent: Agent, on: bool) -> None:
        """Gives an order, unless it is the one that holds."""
        if agent.on != on:
            agent.on, agent.since = on, self.clock()
            agent.sequence += 1
            agent.retry = FOREVER  # it stays late until it answers: it is not waited for over and over
            self._deliver(agent)

    def _deliver(self, agent: Agent) -> None:
        if agent.waiter and agent.sequence > agent.answered:
            waiter, agent.waiter = agent.waiter, None
            waiter.finish(0)

    def _proceed(self) -> None:
        """Brings everyone to where the runlist wants them, as far as the answers so far permit."""
        wanted = [(agent, self._wants(agent)) for agent in self.agents.values()]
        for agent, on in wanted:
            if not on:
                self._give(agent, False)
        if any(self._awaited(agent) for agent, on in wanted if not on):
            return
        for agent, on in wanted:
            if on:
                self._give(agent, True)
        if self._update:
            needed = self._of(self._update.only) if self._update.only else self.agents.values()
            if all(agent.obeyed or agent.late for agent in needed):
                self._finish(self._update)

    def _awaited(self, agent: Agent) -> bool:
        """Whether an update waits for this answer."""
        return not agent.obeyed and not (agent.late and self.obedience.go_on)

    def _of(self, client: Client | None) -> list[Agent]:
        """The agent of a client's process, if it has one."""
        agent = self.agents.get((client.peer.pid, client.peer.start)) if client else None
        return [agent] if agent else []

    def _finish(self, update: Update) -> None:
        now = self.clock()
        self._update = None
        self.busy_until = min(self.busy_until, now)
        self.committed(update.only, update.cause, update.began, now - update.began)
        self._run_after()

    def _run_after(self) -> None:
        while self._after and self.busy_until <= self.clock():
            self._after.pop(0)()

    def after_update(self, then: Callable[[], None]) -> None:
        """Runs `then` once the runlist update in flight is over."""
        if self.busy_until > self.clock():
            self._after.append(then)
        else:
            then()

    def _wake(self, client: Client) -> None:
        """Whoever waits for the GPU is told when it is there, not when it was decided."""
        self.after_update(lambda: super(AgentGpu, self)._wake(client))

    def wait_grant(self, client: Client, waiter: Waiter) -> None:
        """Answers once the client holds the GPU and the update that gave it is over."""
        client.grant_waiters.append(waiter)
        self._granted.add(client)
        self._wake(client)

    # Time

    def _expiries(self) -> Iterator[int]:
        for agent in self.agents.values():
            if not agent.obeyed:
                yield agent.retry
                if not agent.late:
                    yield agent.since + self.obedience.bound

    def next(self) -> int:
        """When something will happen by itself, ns; FOREVER: never."""
        return int(min(super().next(), min(self._expiries(), default=FOREVER)))

    def advance(self, now: int) -> None:
        """Notices who is late, and repeats orders that a driver refused."""
        moved = False
        for agent in self.agents.values():
            if agent.obeyed:
                continue
            if not agent.late and now >= agent.since + self.obedience.bound:
                agent.late = moved = True
                self.faults += 1
                self.tell(self, agent.client, EventKind.LATE, now, None, now - agent.since)
            if now >= agent.retry:
                agent.retry = FOREVER
                agent.sequence += 1
                self._deliver(agent)
        if moved:
            self._proceed()
        super().advance(now)

    # Clients and their agents

    def enter(self, client: Client) -> None:
        """A client has joined; its process may have an agent already."""

    def mark(self, client: Client, exempt: bool, now: int) -> None:
        """The scheduler's next update says it."""

    def part(self, client: Client, now: int) -> None:
        """A client has gone, and the agent if it was its: nobody waits for it any more."""
        for agent in self._of(client):
            if agent.client is client:
                del self.agents[agent.process]
        if self._update and self._update.only is client:
            self._update.only = None
        self._proceed()
        self.advance(self.clock())

    def register(self, client: Client, driver: str, tier: Tier, tsgs: int) -> Agent:
        """The agent of a process says how many TSGs there are.

        Raises:
            Refusal: EBUSY, another client of the process is its agent.
        """
        now = self.clock()
        key = (client.peer.pid, client.peer.start)
        agent = self.agents.get(key)
        if agent is None:
            agent = self.agents[key] = Agent(client, driver, tier, True, now)
            agent.on = self._wants(agent)
        elif agent.client is not client:
            raise Refusal(errno.EBUSY, "another client of the process is its agent")
        agent.driver, agent.tier = driver, tier
        while client.core.tsgs < tsgs:
            lib.gpurt_tsg_opened(self.sched, client.core, now)
        while client.core.tsgs > tsgs:
            lib.gpurt_tsg_closed(self.sched, client.core, now)
        self.segment_over(client)
        self.settle()
        return agent

    def answer(self, client: Client, answered: int, result: int) -> Agent:
        """An agent has carried out an order, or its driver refused.

        Raises:
            Refusal: ENOENT, no agent; EBUSY, it waits already; EINVAL, an order that was never given.
        """
        agent = next(iter(self._of(client)), None)
        if agent is None or agent.client is not client:
            raise Refusal(errno.ENOENT, "the client is not its process's agent")
        if agent.waiter and not agent.waiter.answered:
            raise Refusal(errno.EBUSY, "the agent waits for an order already")
        if answered > agent.sequence:
            raise Refusal(errno.EINVAL, f"there is no order {answered}")
        if answered == agent.sequence and result:
            self.faults += 1
            agent.retry = self.clock() + (self.obedience.bound if agent.late else RETRY)
            agent.answered = min(agent.answered, answered - 1)
        elif answered == agent.sequence:
            agent.answered, agent.late, agent.retry = answered, False, FOREVER
            self._proceed()
            self.advance(self.clock())
        return agent

    def next_order(self, agent: Agent, answered: int, waiter: Waiter) -> None:
        """Answers once there is an order newer than `answered`."""
        if agent.sequence > answered:
            waiter.finish(0)
        else:
            agent.waiter = waiter

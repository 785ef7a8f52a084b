# SPDX-License-Identifier: GPL-2.0
"""A user-space host in the test's own process, each turn of whose loop is one that a test asks for."""

from __future__ import annotations

import os
import time
from pathlib import Path

from links import SocketClient

from gpurt._gpurt import lib
from gpurt.enums import Packet, Policy
from pycontrol.host.agents import AgentGpu, Obedience
from pycontrol.host.commands import Commands
from pycontrol.host.endpoint import Access, Endpoint
from pycontrol.host.gpu import Gpu, Tell
from pycontrol.host.keeper import Keeper
from pycontrol.host.loop import Host
from pycontrol.host.units import Space
from pycontrol.host.users import UserLimits
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.host.waiter import FOREVER
from pycontrol.link.netlink import PACKET

BEGIN, END = lib.GPURT_IOC_BEGIN, lib.GPURT_IOC_END
#: More turns than anything in a test takes.
ENOUGH = 100_000


def go_on(commands: Commands) -> None:
    """Turns until no command that changes something can go on."""
    while commands.errands.more:
        commands.errands.turn()


class World:
    """A host with virtual GPUs or, `by_agents`, with those of agents, whose loop turns when it is told to."""

    def __init__(
        self, path: Path, limits: UserLimits, gpus: int = 1, alpha: int = 0, space: Space | None = None,
        by_agents: bool = False,
    ) -> None:  # fmt: skip
        self.path = path
        self.endpoint = Endpoint(path, Access())
        self.wake, self._writer = os.pipe()

        def make(tell: Tell) -> list[Gpu]:
            policy, shape = int(Policy.SEGMENT), Shape(alpha=alpha)
            if by_agents:
                return [AgentGpu(index, Obedience(), policy, tell, time.monotonic_ns) for index in range(gpus)]
            return [VirtualGpu(index, shape, policy, tell, time.monotonic_ns) for index in range(gpus)]

        self.host = Host(self.endpoint.listener, make, Keeper(), space, limits)
        self.host.lanes.watch(self.wake)

    def rests(self) -> bool:
        """Whether a turn would wait.  To find out when something is due takes longest, so it comes last."""
        if self.host._has_more() or self.host.lanes.ready(wait=False)[1]:
            return False
        when = min(self.host._wake(), self.host._resting or FOREVER)
        self.host.timer.arm(when)  # a turn does, too: what was due before makes nothing ready any more
        due = when <= time.monotonic_ns()
        own, lanes = self.host.lanes.ready(wait=False)
        return not (due or own or lanes)

    def turn(self, times: int = 1) -> None:
        """So many turns; none of them waits."""
        for _ in range(times):
            if not self.rests():
                self.host.turn(self.wake)

    def settle(self) -> int:
        """Turns until there is nothing to do.  How many these were."""
        for number in range(ENOUGH):
            if self.rests():
                return number
            self.host.turn(self.wake)
        raise AssertionError("it goes on for ever")

    def client(self) -> SocketClient:
        """One that the host has accepted."""
        made = SocketClient(self.path)
        self.settle()
        return made

    def ask(self, client: SocketClient, code: int, **fields: int) -> int:
        """The result of a call."""
        call = client.start(code, **fields)
        self.settle()
        return call.result()[0]

    def urgent(self) -> SocketClient:
        """A client whose segments have GPU priority 90."""
        made = self.client()
        assert self.ask(made, BEGIN, priority=90) == 0
        assert self.ask(made, END) == 0
        return made

    def subscriber(self) -> SocketClient:
        """A reader of events."""
        made = self.client()
        made.sock.send(PACKET.pack(Packet.SUBSCRIBE, 0, 0, 0))
        self.settle()
        return made

    def close(self) -> None:
        self.endpoint.close()
        for fd in (self.wake, self._writer):
            os.close(fd)

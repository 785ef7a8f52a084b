# SPDX-License-Identifier: GPL-2.0
"""Which packet the user-space host reads next: of the most urgent connection; of equally urgent users in turn.

A lane has the connections of one level and one user in an epoll instance of its own.  One more epoll instance has all
urgent lanes, and two have the other lanes: agents without a priority, and the rest.  So the cost of a turn does not
depend on how many connections have sent something.  Within a lane the kernel hands connections out in turn.

Lanes of agents take turns with the most urgent lanes, because an update may wait for an agent's answer.  Each needless
packet of an agent delays other connections by that packet.
"""

from __future__ import annotations

import select
from collections.abc import Iterable
from dataclasses import dataclass, field

#: The levels of agents' lanes, above all priorities: for processes without a priority, and with one.
AGENTS, URGENT_AGENTS = 100, 101


@dataclass(eq=False)
class Lane:
    """Connections of one level and one user."""

    level: int
    user: int
    epoll: select.epoll = field(default_factory=select.epoll)
    members: int = 0
    served: int = 0  # the turn in which the lane was last served

    @property
    def urgent(self) -> bool:
        """Whether the lane's connections have a priority."""
        return self.level not in (0, AGENTS)

    def first(self) -> list[tuple[int, int]]:
        """The next ready descriptor and its events; empty if none is ready."""
        return self.epoll.poll(0, 1)


class Lanes:
    """All lanes, and descriptors of the host itself."""

    def __init__(self) -> None:
        """Starts without lanes."""
        self._epoll = select.epoll()
        self._below = {level: select.epoll() for level in (0, AGENTS)}  # lanes that are not urgent, by level
        self._inner = {below.fileno(): below for below in self._below.values()}
        for fd in self._inner:
            self._epoll.register(fd, select.EPOLLIN)
        self._by_key: dict[tuple[int, int], Lane] = {}
        self._by_fd: dict[int, Lane] = {}
        self._quiet: set[int] = set()  # levels that the host does not wait for
        self._turn = 0

    def watch(self, fd: int, wanted: bool = True, ordinary: bool = False) -> None:
        """Waits for a descriptor of the host itself, or no longer; ``ordinary``: as a lane of level 0 is waited for."""
        epoll = self._below[0] if ordinary else self._epoll
        if wanted:
            epoll.register(fd, select.EPOLLIN)
        else:
            epoll.unregister(fd)

    def hush(self, quiet: bool, agents: bool = False) -> None:
        """Waits only for urgent lanes and the host's own descriptors, or again for all; ``agents``: for agents' too."""
        levels = set() if not quiet else {0} if agents else {0, AGENTS}
        for level in levels ^ self._quiet:
            self._epoll.modify(self._below[level].fileno(), 0 if level in levels else select.EPOLLIN)
        self._quiet = levels

    def lane(self, level: int, user: int) -> Lane:
        """The lane, made on first use.  Raises OSError."""
        found = self._by_key.get((level, user))
        if not found:
            found = self._by_key[level, user] = Lane(level, user)
            self._by_fd[found.epoll.fileno()] = found
            self._below.get(level, self._epoll).register(found.epoll.fileno(), select.EPOLLIN)
        return found

    def join(self, lane: Lane, descriptors: Iterable[tuple[int, int]]) -> None:
        """Waits for descriptors, with their events, in a lane."""
        for fd, events in descriptors:
            lane.epoll.register(fd, events)
        lane.members += 1

    def leave(self, lane: Lane, descriptors: Iterable[int]) -> None:
        """Removes descriptors from a lane.  Closes the lane with its last connection."""
        for fd in descriptors:
            lane.epoll.unregister(fd)
        lane.members -= 1
        if not lane.members:
            del self._by_key[lane.level, lane.user], self._by_fd[lane.epoll.fileno()]
            lane.epoll.close()

    def ready(self, wait: bool) -> tuple[set[int], list[Lane]]:
        """The ready descriptors of the host itself, and the lanes with something to read."""
        own, lanes = set(), []
        for at, events in self._epoll.poll(None if wait else 0):
            for fd, _ in self._inner[at].poll(0) if at in self._inner else [(at, events)]:
                lane = self._by_fd.get(fd)
                if lane:
                    lanes.append(lane)
                else:
                    own.add(fd)
        return own, lanes

    def choose(self, lanes: list[Lane]) -> Lane:
        """The lane to serve now, among ready lanes."""
        top = urgency(lanes)
        chosen = min((one for one in lanes if one.level in (top, AGENTS, URGENT_AGENTS)), key=lambda one: one.served)
        self._turn += 1
        chosen.served = self._turn
        return chosen


def urgency(lanes: Iterable[Lane]) -> int:
    """The highest level among lanes.  Agents' lanes count as no level, or as 1 if their process has a priority."""
    return max((1 if one.level == URGENT_AGENTS else one.level for one in lanes if one.level != AGENTS), default=0)

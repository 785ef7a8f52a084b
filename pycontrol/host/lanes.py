# SPDX-License-Identifier: GPL-2.0
"""The user-space host reads the most urgent connection's packet next, and users' in turn where several are equal.

Each lane has the connections of one level and one user in an epoll of its own, and one epoll has all lanes.  So a turn
costs the same however many connections have sent something.  Within a lane the kernel hands connections out in turn.

Lanes of agents are in turn with the most urgent ones, because an update may wait for an agent's answer.  A connection
is in such a lane for a few packets after each order, so that an agent which sends more than answers delays nobody.
"""

from __future__ import annotations

import select
from collections.abc import Iterable
from dataclasses import dataclass, field

#: The level of agents' lanes, above all priorities.
AGENTS = 100


@dataclass(eq=False)
class Lane:
    """Connections of one level and one user."""

    level: int
    user: int
    epoll: select.epoll = field(default_factory=select.epoll)
    members: int = 0
    served: int = 0  # the turn in which it was served last

    @property
    def urgent(self) -> bool:
        """Whether its connections have a priority."""
        return 0 < self.level < AGENTS

    def first(self) -> list[tuple[int, int]]:
        """The next descriptor that is ready, and for what; empty if there is none any more."""
        return self.epoll.poll(0, 1)


class Lanes:
    """All lanes, and descriptors of the host itself."""

    def __init__(self) -> None:
        """None yet."""
        self._epoll = select.epoll()
        self._by_key: dict[tuple[int, int], Lane] = {}
        self._by_fd: dict[int, Lane] = {}
        self._ordinary: set[int] = set()  # descriptors of which nobody urgent waits
        self._quiet = False
        self._turn = 0

    def watch(self, fd: int, wanted: bool = True, ordinary: bool = False) -> None:
        """Whether a descriptor of the host itself is to be waited for; ``ordinary``: not while it is quiet."""
        if wanted:
            self._register(fd, ordinary)
        else:
            self._epoll.unregister(fd)
            self._ordinary.discard(fd)

    def _register(self, fd: int, ordinary: bool) -> None:
        self._epoll.register(fd, 0 if ordinary and self._quiet else select.EPOLLIN)
        if ordinary:
            self._ordinary.add(fd)

    def hush(self, quiet: bool) -> None:
        """Whether only urgent lanes, and what the host itself must see, are waited for."""
        if quiet == self._quiet:
            return
        self._quiet = quiet
        for fd in self._ordinary:
            self._epoll.modify(fd, 0 if quiet else select.EPOLLIN)

    def lane(self, level: int, user: int) -> Lane:
        """The lane, made on first use.  Raises OSError."""
        found = self._by_key.get((level, user))
        if not found:
            found = self._by_key[level, user] = Lane(level, user)
            self._by_fd[found.epoll.fileno()] = found
            self._register(found.epoll.fileno(), ordinary=not found.level)
        return found

    def join(self, lane: Lane, descriptors: Iterable[tuple[int, int]]) -> None:
        """Waits for descriptors, with their events, in a lane."""
        for fd, events in descriptors:
            lane.epoll.register(fd, events)
        lane.members += 1

    def leave(self, lane: Lane, descriptors: Iterable[int]) -> None:
        """Removes descriptors from a lane.  An empty lane ends."""
        for fd in descriptors:
            lane.epoll.unregister(fd)
        lane.members -= 1
        if not lane.members:
            del self._by_key[lane.level, lane.user], self._by_fd[lane.epoll.fileno()]
            self._ordinary.discard(lane.epoll.fileno())
            lane.epoll.close()

    def ready(self, wait: bool) -> tuple[set[int], list[Lane]]:
        """Descriptors of the host itself that are ready, and lanes with something to read."""
        own, lanes = set(), []
        for fd, _ in self._epoll.poll(None if wait else 0):
            lane = self._by_fd.get(fd)
            if lane:
                lanes.append(lane)
            else:
                own.add(fd)
        return own, lanes

    def choose(self, lanes: list[Lane]) -> Lane:
        """The lane to serve now, of those that are ready."""
        top = urgency(lanes)
        chosen = min((one for one in lanes if one.level in (top, AGENTS)), key=lambda one: one.served)
        self._turn += 1
        chosen.served = self._turn
        return chosen


def urgency(lanes: Iterable[Lane]) -> int:
    """The highest level among lanes; those of agents have none of their own."""
    return max((one.level for one in lanes if one.level != AGENTS), default=0)

# SPDX-License-Identifier: GPL-2.0
"""Events on their way to readers.  The host keeps each event once, and sends it when nothing is more urgent."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpurt.enums import Command
from pycontrol.host.peer import Peer
from pycontrol.host.wire import Head, message
from pycontrol.link.netlink import Value

#: How many events are kept.  If the ring is full, a reader that has not taken the oldest event loses it.
MAX_EVENTS_KEPT = 8192

Record = list[tuple[str, Value]]


@dataclass(eq=False, slots=True)
class Told:
    """An event.  ``record`` is for all readers; ``named`` for readers that may know the process, else ``unnamed``."""

    peer: Peer | None  # the process that the event is about
    record: Record
    named: Record = field(default_factory=list)
    unnamed: Record = field(default_factory=list)
    _packets: dict[bool, bytes] = field(default_factory=dict)

    def packet(self, reader: Peer) -> bytes:
        """The packet for a reader, made once for all readers with the same rights."""
        knows = self.peer is None or reader.may_know(self.peer)
        if knows not in self._packets:
            content = [*self.record, *(self.named if knows else self.unnamed)]
            self._packets[knows] = message(Command.EVENT, content, Head())
        return self._packets[knows]


class Feed:
    """The latest events by number; `head` is the number of the next event."""

    def __init__(self) -> None:
        """Starts without events."""
        self.head = 0
        self._ring: list[Told | None] = [None] * MAX_EVENTS_KEPT

    @property
    def first(self) -> int:
        """The number of the oldest event in the ring."""
        return max(0, self.head - MAX_EVENTS_KEPT)

    def add(self, told: Told) -> None:
        """Adds the next event."""
        self._ring[self.head % MAX_EVENTS_KEPT] = told
        self.head += 1

    def get(self, number: int) -> Told:
        """The event of that number, which must be in the ring."""
        told = self._ring[number % MAX_EVENTS_KEPT]
        assert told
        return told

    def forget(self) -> None:
        """Forgets all events, since there is no reader any more."""
        self._ring = [None] * MAX_EVENTS_KEPT

# SPDX-License-Identifier: GPL-2.0
"""Parts that the models of the driver families share: objects, their owners, error codes."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from engine import Engine, Group

NUMBERS = itertools.count(600)  # beyond the bitmap that is asked for first


class Refused(Exception):
    """An ioctl fails with an error number."""

    def __init__(self, error: int) -> None:
        super().__init__(error)
        self.error = error


class Later(Exception):
    """An ioctl that returns when something happens.  ``wait`` is called with what has it return."""

    def __init__(self, wait: Callable[[Callable[[], None]], None]) -> None:
        super().__init__()
        self.wait = wait


@dataclass
class Caller:
    """The process and user that make a call."""

    pid: int
    uid: int


@dataclass
class Faults:
    """The operations that are to go wrong, by name: so often, and how."""

    refuse: dict[str, list[int]] = field(default_factory=dict)  # name -> [times, status or errno]
    delay: dict[str, int] = field(default_factory=dict)  # name -> ns before the answer

    def due(self, name: str) -> int:
        """0, or what the operation fails with this time."""
        left = self.refuse.get(name)
        if not left or not left[0]:
            return 0
        left[0] -= 1
        return left[1]


    def always(self, name: str, status: int) -> bool:
        """Whether the driver lacks the operation."""
        left = self.refuse.get(name, [0, 0])
        return left[0] > 10**6 and left[1] == status


@dataclass(eq=False)
class File:
    """An open node."""

    path: str
    owner: Caller
    engines: list[Engine]
    faults: Faults
    groups: dict[tuple[int, int], Group] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def engine_of(self, group: Group) -> Engine:
        return next(engine for engine in self.engines if group in engine.groups)

    def group(self, client: int, handle: int) -> Group:
        try:
            return self.groups[client, handle]
        except KeyError:
            raise Refused(errno.ENOENT) from None

    def working(self, client: int, handle: int) -> Group:
        """The group that executes what is submitted for these handles."""
        return self.groups.get((client, handle)) or self.group(0, 0)

    def add(self, key: tuple[int, int], gpu: int, enabled: bool) -> None:
        group = Group(f"{self.owner.pid}:{key[1]:x}", self.owner.pid, enabled, number=next(NUMBERS))
        self.groups[key] = group
        self.engines[gpu].groups.append(group)

    def drop(self, key: tuple[int, int]) -> None:
        group = self.groups.pop(key, None)
        if group:
            self.engine_of(group).remove(group)

    def switch(self, group: Group, on: bool) -> None:
        group.turns += not on and group.enabled
        group.enabled = on

    def close(self) -> None:
        """The last descriptor is closed."""
        for key in list(self.groups):
            self.drop(key)

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        raise Refused(errno.ENOTTY)


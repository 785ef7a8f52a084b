# SPDX-License-Identifier: GPL-2.0
"""What the models of the driver families share, and KFD's: objects, their owners, privileges, error codes."""

from __future__ import annotations

import errno
import itertools
import struct
from dataclasses import dataclass, field

from engine import Engine, Group

NUMBERS = itertools.count(600)  # beyond the bitmap that is asked for first


class Refused(Exception):
    """An ioctl fails with an error number."""

    def __init__(self, error: int) -> None:
        super().__init__(error)
        self.error = error


@dataclass
class Caller:
    """The process and user that make a call."""

    pid: int
    uid: int


@dataclass
class Faults:
    """What is to go wrong, by the name of an operation: so often, and how."""

    refuse: dict[str, list[int]] = field(default_factory=dict)  # name -> [times, status or errno]
    delay: dict[str, int] = field(default_factory=dict)  # name -> ns before the answer

    def due(self, name: str) -> int:
        """0, or what the operation fails with this time."""
        left = self.refuse.get(name)
        if not left or not left[0]:
            return 0
        left[0] -= 1
        return left[1]


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


class Kfd(File):
    """/dev/kfd: queues of the process that opened it; a child that inherited the descriptor is refused."""

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        if caller.pid != self.owner.pid:
            raise Refused(errno.EBADF)
        number = code & 0xFF
        name = {2: "create", 3: "destroy", 7: "update", 0x1A: "mask"}.get(number)
        if name is None:
            raise Refused(errno.ENOTTY)
        error = self.faults.due(name)
        if error:
            raise Refused(error)
        self.calls.append(name)
        if name == "create":
            queue = len(self.groups)
            struct.pack_into("=I", argument, 52, queue)
            self.add((0, queue), 0, True)
            self.update(queue, *struct.unpack_from("=II", argument, 44))
        elif name == "destroy":
            self.drop((0, struct.unpack_from("=I", argument)[0]))
        elif name == "mask":
            self.mask(argument, nested)
        else:
            ring, queue, size, percentage, priority = struct.unpack_from("=QIIII", argument)
            if not ring or not size:
                raise Refused(errno.EINVAL)
            self.update(queue, percentage, priority)
        return 0

    def mask(self, argument: bytearray, nested: bytearray) -> None:
        queue, bits = struct.unpack_from("=II", argument)
        self.group(0, queue)
        if not bits or bits % 32 or bits > 1024 or len(nested) != bits // 8:
            raise Refused(errno.EINVAL)
        self.calls.append(f"mask {bytes(nested).hex()}")

    def update(self, queue: int, percentage: int, priority: int) -> None:
        if percentage > 100 or priority > 15:
            raise Refused(errno.EINVAL)
        group = self.group(0, queue)
        self.switch(group, percentage > 0)
        if not percentage:
            self.engine_of(group).preempt(group)

# SPDX-License-Identifier: GPL-2.0
"""Models of three driver families at the level of their ioctls: objects, their owners, privileges, error codes.

NVIDIA's numbers and layouts repeat userlib/nvidia/rm.h on purpose and take nothing from it: a wrong number there must
disagree with this file, so that a test fails.
"""

from __future__ import annotations

import errno
import itertools
import struct
from dataclasses import dataclass, field

from engine import Engine, Group

NUMBERS = itertools.count(600)  # beyond the bitmap that is asked for first
ALLOC, CONTROL, FREE = 0x2B, 0x2A, 0x29
OK, NOT_PERMITTED, NOT_SUPPORTED, NOT_FOUND = 0, 0x1B, 0x56, 0x57
INVALID_ARGUMENT = 0x1F
ROOT, DEVICE, SUBDEVICE, TSG = 0x41, 0x80, 0x2080, 0xA06C


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


@dataclass
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


class Nvidia(File):
    """/dev/nvidiactl: clients, devices, time-slice groups, channels, and their controls."""

    CLIENTS = iter(range(0x41D00001, 0x41DFFFFF))

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.objects: dict[tuple[int, int], tuple[int, int, int]] = {}  # parent, class, instance

    def close(self) -> None:
        super().close()
        self.objects.clear()

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        number, size = code & 0xFF, code >> 16 & 0x3FFF
        if number == ALLOC and size == 48:
            status = self.alloc(argument, nested)
            struct.pack_into("=I", argument, 40, status)
        elif number == CONTROL and size == 32:
            client, handle, command = struct.unpack_from("=III", argument)
            status = self.control(caller, client, handle, command, nested)
            struct.pack_into("=I", argument, 28, status)
        elif number == FREE and size == 16:
            client, _, handle = struct.unpack_from("=III", argument)
            struct.pack_into("=I", argument, 12, self.free(client, handle))
        else:
            raise Refused(errno.EINVAL)
        return 0

    def alloc(self, argument: bytearray, nested: bytearray) -> int:
        root, parent, handle, kind = struct.unpack_from("=IIII", argument)
        if kind == ROOT:
            handle = root = parent = next(self.CLIENTS)
            struct.pack_into("=I", argument, 8, handle)
        elif (root, root) not in self.objects or (root, parent) not in self.objects:
            return NOT_FOUND
        instance = struct.unpack_from("=I", nested)[0] if kind == DEVICE and nested else 0
        self.objects[root, handle] = (parent, kind, instance)
        self.calls.append(f"alloc {kind:x}")
        if kind == TSG:
            gpu = self.objects[root, parent][2]
            if gpu >= len(self.engines):
                return INVALID_ARGUMENT
            self.add((root, handle), gpu, False)
        return OK

    def free(self, client: int, handle: int) -> int:
        if (client, handle) not in self.objects:
            return NOT_FOUND
        for key, (parent, _, _) in list(self.objects.items()):
            if key[0] == client and key[1] != handle and parent == handle and key in self.objects:
                self.free(*key)
        self.objects.pop((client, handle), None)
        self.drop((client, handle))
        return OK

    def control(self, caller: Caller, client: int, handle: int, command: int, nested: bytearray) -> int:
        """The driver compares the client's owner with the descriptor: another file's client is refused."""
        if (client, client) not in self.objects:
            return NOT_PERMITTED
        if (client, handle) not in self.objects:
            return NOT_FOUND
        name = {
            0xA06C0101: "schedule", 0xA06C0103: "timeslice", 0xA06C0105: "preempt", 0xA06C0107: "interleave",
            0xA06C0110: "realtime", 0x2080110B: "disable",
        }.get(command, f"{command:x}")  # fmt: skip
        status = self.faults.due(name)
        if status:
            return status
        self.calls.append(name)
        sizes = {"schedule": 3, "timeslice": 8, "preempt": 8, "interleave": 4, "realtime": 1, "disable": 536}
        if sizes.get(name) != len(nested):
            return NOT_SUPPORTED if name not in sizes else INVALID_ARGUMENT
        if name in ("interleave", "realtime") and caller.uid:
            return NOT_PERMITTED
        return self.carry_out(name, client, handle, nested)

    def carry_out(self, name: str, client: int, handle: int, nested: bytearray) -> int:
        if name == "disable":
            return self.disable(nested)
        group = self.groups.get((client, handle))
        if group is None:
            return NOT_FOUND
        if name == "schedule":
            self.switch(group, bool(nested[0]))
        elif name == "preempt":
            self.engine_of(group).preempt(group)
        return OK

    def disable(self, nested: bytearray) -> int:
        off, count = nested[0], struct.unpack_from("=I", nested, 4)[0]
        for index in range(count):
            client = struct.unpack_from("=I", nested, 24 + 4 * index)[0]
            channel = struct.unpack_from("=I", nested, 24 + 256 + 4 * index)[0]
            if (client, channel) not in self.objects:
                return NOT_FOUND
            group = self.groups[client, self.objects[client, channel][0]]
            self.switch(group, not off)
            self.engine_of(group).preempt(group)
        return OK


class NvgpuControl(File):
    """/dev/nvhost-ctrl-gpu: OPEN_TSG (the calling process makes the descriptor itself)."""

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        if (code >> 8 & 0xFF, code & 0xFF) != (ord("G"), 9):
            raise Refused(errno.ENOTTY)
        return 0


class NvgpuTsg(File):
    """/dev/nvhost-tsg-gpu: one group a descriptor."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.bound = False
        self.add((0, 0), 0, False)

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        if code >> 8 & 0xFF != ord("T"):
            raise Refused(errno.ENOTTY)
        group = self.groups[0, 0]
        name = {1: "bind", 3: "enable", 4: "disable", 5: "preempt", 11: "bind"}.get(code & 0xFF)
        if name is None:
            raise Refused(errno.ENOTTY)
        error = self.faults.due(name)
        if error:
            raise Refused(error)
        self.calls.append(name)
        if name != "bind" and not self.bound:
            raise Refused(errno.EINVAL)  # a group without a channel is on no runlist
        if name == "bind":
            self.bound = True
            self.switch(group, True)
        elif name == "preempt":
            self.engine_of(group).preempt(group)
        else:
            self.switch(group, name == "enable")
        return 0


class NvgpuChannel(File):
    """/dev/nvhost-gpu: only to be bound."""


class NvgpuSched(File):
    """/dev/nvgpu/igpu0/sched: one opener at a time; slices and levels of all groups."""

    opened = 0

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        if NvgpuSched.opened:
            raise Refused(errno.EBUSY)
        NvgpuSched.opened += 1

    def close(self) -> None:
        NvgpuSched.opened -= 1

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        if code == 0xC0185303:
            return self.by_pid(argument, nested)
        tsg, value = struct.unpack_from("=II", argument)
        group = next((one for one in self.engines[0].groups if one.number == tsg), None)
        if group is None:
            raise Refused(errno.EINVAL)
        if code == 0xC0205304:
            struct.pack_into("=IIIIIIQ", argument, 0, tsg, group.slice_us, group.level, 0, 0, 0, group.pid)
        elif code == 0x40085305 and 1000 <= value <= 50000:
            group.slice_us = value
        elif code == 0x40085306 and value <= 2:
            group.level = value
        else:
            raise Refused(errno.EINVAL)
        return 0

    def by_pid(self, argument: bytearray, nested: bytearray) -> int:
        pid, size = struct.unpack_from("=QI", argument)
        numbers = [group.number for group in self.engines[0].groups if group.pid == pid]
        need = max(numbers, default=0) // 8 + 1
        struct.pack_into("=I", argument, 8, need)
        if need > size:
            raise Refused(errno.ENOSPC)
        for number in numbers:
            nested[number // 8] |= 1 << number % 8
        return 0


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


def file_of(path: str, caller: Caller, engines: list[Engine], faults: Faults) -> File:
    """What opening that node makes."""
    kinds = {
        "/dev/nvidiactl": Nvidia, "/dev/nvhost-ctrl-gpu": NvgpuControl, "/dev/nvhost-tsg-gpu": NvgpuTsg,
        "/dev/nvhost-gpu": NvgpuChannel, "/dev/kfd": Kfd, "/dev/nvgpu/igpu0/sched": NvgpuSched,
    }  # fmt: skip
    if path not in kinds:
        raise Refused(errno.ENOENT)
    return kinds[path](path, caller, engines, faults)

# SPDX-License-Identifier: GPL-2.0
"""A model of nvgpu (Tegra): control, group, channel and scheduling nodes."""

from __future__ import annotations

import errno
import struct

from drivers import Caller, File, Refused


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

# SPDX-License-Identifier: GPL-2.0
"""A model of nvgpu (Tegra): control, group and channel nodes, as strict as L4T r32.7.1, 35.6.0 and r36.4.

A group runs if one of its channels is set up and enabled.  Each action of the driver itself on a group begins with a
disabled group and ends with an enabled one.  The driver does not remember what the group was before (common/fifo/tsg.c,
common/gr/gr_setup.c).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import ClassVar

from drivers import Caller, File, Refused
from engine import Group


class NvgpuControl(File):
    """/dev/nvhost-ctrl-gpu: OPEN_TSG and OPEN_CHANNEL (the calling process makes the descriptors itself).

    Not modelled: that a group that is opened with a token is another process's.
    """

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        if code >> 8 & 0xFF != ord("G") or code & 0xFF not in (9, 11):
            raise Refused(errno.ENOTTY)
        return 0


class NvgpuTsg(File):
    """/dev/nvhost-tsg-gpu: one group a descriptor."""

    #: All open nodes by their cookies; the server sets it.
    FILES: ClassVar[dict[int, File]] = {}

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.channels: list[NvgpuChannel] = []
        self.add((0, 0), 0, False)

    def recount(self) -> None:
        self.switch(self.groups[0, 0], any(channel.ready and channel.enabled for channel in self.channels))

    def set(self, on: bool) -> None:
        """ENABLE and DISABLE act on each channel that is bound."""
        for channel in self.channels:
            channel.enabled = on
        self.recount()

    def preempt(self) -> None:
        self.engine_of(self.groups[0, 0]).preempt(self.groups[0, 0])

    @classmethod
    def resume(cls) -> None:
        """The GPU gets power again: channels that are set up run (nvgpu_channel_resume_all_serviceable_ch())."""
        for file in cls.FILES.values():
            if isinstance(file, NvgpuTsg):
                file.set(True)

    def bind(self, channel: NvgpuChannel) -> None:
        """Enables nothing: nvgpu_tsg_bind_channel()."""
        if channel.tsg:
            raise Refused(errno.EINVAL)
        channel.tsg = self
        self.channels.append(channel)

    def unbind(self, channel: NvgpuChannel) -> None:
        """Disables and preempts the group, and enables what is left of it: nvgpu_tsg_unbind_channel_common()."""
        if channel.tsg is not self:
            raise Refused(errno.EINVAL)
        self.preempt()
        self.channels.remove(channel)
        channel.tsg, channel.ready, channel.enabled = None, False, False
        self.set(True)

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        names = {1: "bind", 2: "unbind", 3: "enable", 4: "disable", 5: "preempt", 11: "bind", 20: "share"}
        name = names.get(code & 0xFF) if code >> 8 & 0xFF == ord("T") else None
        if name is None:
            raise Refused(errno.ENOTTY)
        error = self.faults.due(name)
        if error:
            raise Refused(error)
        self.calls.append(name)
        if name in ("bind", "unbind"):
            channel = self.FILES.get(struct.unpack("=Q", nested)[0])
            if not isinstance(channel, NvgpuChannel):
                raise Refused(errno.EINVAL)
            (self.bind if name == "bind" else self.unbind)(channel)
        elif name == "preempt":
            self.preempt()
        elif name != "share":
            self.set(name == "enable")
        return 0


class NvgpuChannel(File):
    """/dev/nvhost-gpu, and what OPEN_CHANNEL makes."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.tsg: NvgpuTsg | None = None
        self.ready = False  # on the runlist
        self.enabled = False

    def close(self) -> None:
        """The last descriptor is closed: the driver unbinds the channel, which enables the group's other channels."""
        if self.tsg and self.tsg.groups:
            self.tsg.unbind(self)

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        names = {107: "submit", 108: "object", 113: "channel-enable", 122: "mode", 123: "setup", 128: "setup"}
        name = names.get(code & 0xFF) if code >> 8 & 0xFF == ord("H") else None
        if name is None:
            raise Refused(errno.ENOTTY)
        if self.tsg is None or (not self.ready and name in ("mode", "submit")):
            raise Refused(errno.EINVAL)
        if self.ready and name == "setup":
            raise Refused(errno.EEXIST)
        self.calls.append(name)
        if name in ("setup", "channel-enable"):
            self.ready |= name == "setup"
            self.enabled = True
            self.tsg.recount()
        elif name != "submit":  # these disable and preempt the group while they work, and enable it afterwards
            self.tsg.preempt()
            self.tsg.set(True)
        return 0


class NvgpuSched(File):
    """/dev/nvgpu/igpu0/sched: one opener at a time; slices and levels of all groups (os/linux/sched.c, r35.6, r36.4).

    A value that is within limits is stored before the runlist is reloaded, so a call that fails has changed it
    (nvgpu_tsg_set_timeslice(), nvgpu_tsg_set_interleave()).  Not modelled: reading and polling.
    """

    opened = 0
    CHANNELS = 1024
    BITMAP = CHANNELS // 8

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        if NvgpuSched.opened:
            raise Refused(errno.EBUSY)
        NvgpuSched.opened += 1
        self.held: set[int] = set()

    def close(self) -> None:
        NvgpuSched.opened -= 1

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        calls = {0xC0105301: self.everything, 0xC0185303: self.by_pid, 0xC0205304: self.params, 0x40085305: self.slice,
                 0x40085306: self.level, 0x4004530A: self.get, 0x4004530B: self.put}  # fmt: skip
        if code >> 8 & 0xFF != ord("S") or not 0 < code & 0xFF <= 11:
            raise Refused(errno.EINVAL)
        if code not in calls:
            raise Refused(errno.ENOTTY)
        calls[code](code, argument, nested)
        return 0

    def fails(self, name: str) -> None:
        self.calls.append(name)
        if error := self.faults.due(name):
            raise Refused(error)

    def group_of(self, argument: bytearray) -> Group:
        (tsg,) = struct.unpack_from("=I", argument)
        if tsg >= self.CHANNELS:
            raise Refused(errno.EINVAL)
        group = next((one for one in self.engines[0].groups if one.number == tsg), None)
        if group is None:
            raise Refused(errno.ENXIO)
        return group

    def everything(self, code: int, argument: bytearray, nested: bytearray) -> None:
        (size,) = struct.unpack_from("=I", argument)
        self.fails("all")
        self.fill(argument, 0, size, nested, lambda group: True)

    def by_pid(self, code: int, argument: bytearray, nested: bytearray) -> None:
        pid, size = struct.unpack_from("=QI", argument)
        self.fails("by-pid")
        self.fill(argument, 8, size, nested, lambda group: group.pid == pid)

    def fill(
        self, argument: bytearray, at: int, size: int, nested: bytearray, wanted: Callable[[Group], bool]
    ) -> None:  # fmt: skip
        """The bitmap of these groups; if it does not fit, only how large it is."""
        if size < self.BITMAP or not nested:
            struct.pack_into("=I", argument, at, self.BITMAP)
            raise Refused(errno.ENOSPC)
        nested[: self.BITMAP] = bytes(self.BITMAP)
        for group in self.engines[0].groups:
            if wanted(group):
                nested[group.number // 8] |= 1 << group.number % 8

    def params(self, code: int, argument: bytearray, nested: bytearray) -> None:
        group = self.group_of(argument)
        self.fails("params")
        values = group.number, group.slice_us, group.level, 0, group.mode, 0, group.pid
        struct.pack_into("=IIIIIIQ", argument, 0, *values)

    def slice(self, code: int, argument: bytearray, nested: bytearray) -> None:
        group, value = self.group_of(argument), struct.unpack_from("=I", argument, 4)[0]
        if not 1000 <= value <= 50000:
            raise Refused(errno.EINVAL)
        group.slice_us = value
        self.fails("slice")

    def level(self, code: int, argument: bytearray, nested: bytearray) -> None:
        group, value = self.group_of(argument), struct.unpack_from("=I", argument, 4)[0]
        if value > 2:
            raise Refused(errno.EINVAL)
        group.level = value
        self.fails("level")

    def get(self, code: int, argument: bytearray, nested: bytearray) -> None:
        group = self.group_of(argument)
        self.fails("get")
        if group.number in self.held:
            raise Refused(errno.ENXIO)
        self.held.add(group.number)

    def put(self, code: int, argument: bytearray, nested: bytearray) -> None:
        (tsg,) = struct.unpack_from("=I", argument)
        if tsg >= self.CHANNELS:
            raise Refused(errno.EINVAL)
        if tsg not in self.held:
            raise Refused(errno.ENXIO)
        self.held.remove(tsg)

# SPDX-License-Identifier: GPL-2.0
"""A model of nvgpu's scheduling domains: os/linux/ioctl_nvs.c and common/nvs/nvs_sched.c of L4T R35 and R36.

A domain is used by its open nodes and its groups, and cannot be removed meanwhile.  Not modelled: that domains take
turns.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass
from typing import ClassVar

from drivers import Caller, File, Refused

NODE = "/dev/nvgpu/igpu0/nvsched"
DOMAIN = struct.Struct("=32sQQI4xQQQ")
DEFAULT = "(default)"


@dataclass(eq=False)
class Domain:
    """``uses``: open nodes and groups."""

    name: str
    slice_ns: int
    number: int
    uses: int = 0


class NvgpuNvs(File):
    """The node of the scheduler.  A domain outlives its maker."""

    DOMAINS: ClassVar[list[Domain]] = []
    MADE: ClassVar[list[int]] = [1]

    @classmethod
    def reset(cls) -> None:
        """As after the board's start: only the driver's own domain, which has no node and all other groups."""
        cls.DOMAINS[:] = [Domain(DEFAULT, 100_000_000, 1)]
        cls.MADE[:] = [1]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.fails("nvs-open")

    def fails(self, name: str) -> None:
        self.calls.append(name)
        if error := self.faults.due(name):
            raise Refused(error)

    def ioctl(self, caller: Caller, code: int, argument: bytearray, nested: bytearray) -> int:
        calls = {0xC0584E01: self.create, 0x40104E02: self.remove, 0xC0184E03: self.query}
        if code >> 8 & 0xFF != ord("N") or not 0 < code & 0xFF <= 3:
            raise Refused(errno.EINVAL)
        if code not in calls:
            raise Refused(errno.ENOTTY)
        calls[code](argument, nested)
        return 0

    def create(self, argument: bytearray, nested: bytearray) -> None:
        raw, slice_ns, grace, subscheduler, number, first, second = DOMAIN.unpack_from(argument)
        (last,) = struct.unpack_from("=Q", argument, DOMAIN.size)
        name = raw.partition(b"\0")[0].decode()
        if number or first or second or last or len(name) > 31:
            raise Refused(errno.EINVAL)
        if any(one.name == name for one in self.DOMAINS):
            raise Refused(errno.EEXIST)
        self.fails("nvs-create")
        self.MADE[0] += 1
        self.DOMAINS.append(Domain(name, slice_ns, self.MADE[0]))
        DOMAIN.pack_into(argument, 0, raw, slice_ns, grace, subscheduler, self.MADE[0], 0, 0)

    def remove(self, argument: bytearray, nested: bytearray) -> None:
        number, reserved = struct.unpack_from("=QQ", argument)
        if reserved:
            raise Refused(errno.EINVAL)
        found = next((one for one in self.DOMAINS if one.number == number), None)
        if found is None:
            raise Refused(errno.ENOENT)
        self.fails("nvs-remove")
        if found.uses:
            raise Refused(errno.EBUSY)
        self.DOMAINS.remove(found)

    def query(self, argument: bytearray, nested: bytearray) -> None:
        domains, capacity, zero, reserved = struct.unpack_from("=QIIQ", argument)
        if zero or reserved:
            raise Refused(errno.EINVAL)
        self.fails("nvs-query")
        struct.pack_into("=I", argument, 8, len(self.DOMAINS))
        for at, one in enumerate(self.DOMAINS[:capacity] if domains else ()):
            DOMAIN.pack_into(nested, at * DOMAIN.size, one.name.encode(), one.slice_ns, 0, 0, one.number, 0, 0)


class NvgpuDomain(File):
    """The node of one domain."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        name = self.path.removeprefix(f"{NODE}-")
        found = next((one for one in NvgpuNvs.DOMAINS if one.name == name != DEFAULT), None)
        if found is None:
            raise Refused(errno.ENOENT)
        if error := self.faults.due("domain-open"):
            raise Refused(error)
        self.domain = found
        found.uses += 1

    def close(self) -> None:
        self.domain.uses -= 1


NvgpuNvs.reset()

# SPDX-License-Identifier: GPL-2.0
"""Tegra's scheduling node: time slices and interleave levels of other processes' TSGs (tier T0, hints).

nvgpu lets one process at a time open the node, if the file's permissions allow it.  The node cannot take a TSG off the
GPU; only agents can, for the TSGs of their own processes.  The structures are from nvgpu's uapi, and are the same in
L4T R32, R35 and R36.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from gpurt.errors import DeviceError, RefusedError
from gpurt.types import CData

SCHED_NODES = ("/dev/nvgpu/igpu0/sched", "/dev/nvhost-sched-gpu")
GET_TSGS, GET_TSGS_BY_PID, TSG_GET_PARAMS = 0xC0105301, 0xC0185303, 0xC0205304
TSG_SET_TIMESLICE, TSG_SET_RUNLIST_INTERLEAVE = 0x40085305, 0x40085306
GET_TSG, PUT_TSG = 0x4004530A, 0x4004530B
#: Shortest and longest slice that the driver accepts, us.
SLICE_LIMITS = (1_000, 50_000)
#: Sizes of the bitmap in the first request and in the last, bytes.
BITMAP, MOST_BITMAP = 64, 1 << 16
#: Compute preemption modes of a TSG: a preemption waits until its kernels end, or until their executing blocks end.
WAITS_FOR_KERNELS, WAITS_FOR_BLOCKS = 1, 2


class HintLevel(IntEnum):
    """How often a TSG is in the runlist."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


class _All(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("buffer", ctypes.c_uint64)]


class _ByPid(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint64), ("size", ctypes.c_uint32), ("pad", ctypes.c_uint32),
                ("buffer", ctypes.c_uint64)]  # fmt: skip


class _Params(ctypes.Structure):
    _fields_ = [("tsg", ctypes.c_uint32), ("slice", ctypes.c_uint32), ("level", ctypes.c_uint32),
                ("graphics", ctypes.c_uint32), ("compute", ctypes.c_uint32), ("pad", ctypes.c_uint32),
                ("pid", ctypes.c_uint64)]  # fmt: skip


class _Set(ctypes.Structure):
    _fields_ = [("tsg", ctypes.c_uint32), ("value", ctypes.c_uint32)]


class _Number(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint32)]


@dataclass(frozen=True, slots=True)
class Hints:
    """The driver's settings of one TSG; the slice in us.  ``mode``: of compute preemption; 0: it has no context yet."""

    tsg: int
    pid: int
    slice_us: int
    level: HintLevel
    mode: int = 0


#: The type of fcntl.ioctl(): descriptor, request and argument.
Call = Callable[[int, int, CData], CData]


class SchedNode:
    """The node of slices and levels.  The context closes it.

    Raises:
        DeviceError: there is no such node, or another process has it open.
        RefusedError: this process lacks permission to open it.
    """

    def __init__(self, call: Call = fcntl.ioctl) -> None:
        """Opens the node.  ``call``: the function that calls the driver."""
        self._ioctl = call
        path = next((node for node in SCHED_NODES if os.path.exists(node)), SCHED_NODES[0])
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except PermissionError:
            raise RefusedError(f"{path}: not permitted; run as root", errno.EACCES) from None
        except OSError as error:
            busy = error.errno == errno.EBUSY
            why = "another process has it open, and only one may" if busy else f"{error.strerror}; is this a Tegra?"
            raise DeviceError(f"{path}: {why}") from None

    def __enter__(self) -> SchedNode:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._fd)

    def _call(self, code: int, argument: ctypes.Structure, what: str) -> None:
        try:
            self._ioctl(self._fd, code, argument)
        except OSError as error:
            raise RefusedError(f"the driver refuses {what}: {error.strerror}", error.errno or 0) from None

    def tsgs(self, pid: int) -> list[int]:
        """The process's TSGs.

        Raises:
            RefusedError: the driver refuses, or the process has no TSGs.
        """
        found = self._listed(GET_TSGS_BY_PID, lambda size, at: _ByPid(pid, size, 0, at), f"process {pid}'s TSGs")
        if not found:
            raise RefusedError(f"process {pid} has no time-slice groups on the GPU", errno.ESRCH)
        return found

    def everything(self) -> list[Hints]:
        """The driver's settings of all TSGs that programs have opened.  Raises RefusedError."""
        found = []
        for tsg in self._listed(GET_TSGS, lambda size, at: _All(size, 0, at), "the TSGs of all processes"):
            try:
                found.append(self.hints_of(tsg))
            except RefusedError as error:
                if error.errno != errno.ENXIO:  # the TSG has been closed meanwhile
                    raise
        return found

    def _listed(self, code: int, request: Callable[[int, int], CData], what: str) -> list[int]:
        """The numbers in a bitmap that the driver fills; doubles the bitmap until the driver finds it large enough.

        The driver also states the necessary size, but ioctl() of Python 3.14 loses what a failing call has written.
        """
        size = BITMAP
        while True:
            bitmap = ctypes.create_string_buffer(size)
            try:
                self._ioctl(self._fd, code, request(size, ctypes.addressof(bitmap)))
                return [8 * at + bit for at, byte in enumerate(bitmap.raw) for bit in range(8) if byte >> bit & 1]
            except OSError as error:
                if error.errno != errno.ENOSPC or size >= MOST_BITMAP:
                    raise RefusedError(f"the driver does not tell {what}: {error.strerror}") from None
                size *= 2

    def hints(self, pid: int) -> Iterator[Hints]:
        """The driver's settings of the process's TSGs.  Raises RefusedError."""
        return map(self.hints_of, self.tsgs(pid))

    def hints_of(self, tsg: int) -> Hints:
        """The driver's settings of one TSG.  Raises RefusedError."""
        asked = _Params(tsg)
        self._call(TSG_GET_PARAMS, asked, f"the parameters of TSG {tsg}")
        return Hints(tsg, asked.pid, asked.slice, HintLevel(asked.level), asked.compute)

    def set_slice(self, tsg: int, slice_us: int) -> None:
        """Sets the slice.  Raises RefusedError if the driver refuses; it may have stored the slice all the same."""
        self._call(TSG_SET_TIMESLICE, _Set(tsg, slice_us), f"a slice of {slice_us} us for TSG {tsg}")

    def set_level(self, tsg: int, level: HintLevel) -> None:
        """Sets the level.  Raises RefusedError if the driver refuses; it may have stored the level all the same."""
        self._call(TSG_SET_RUNLIST_INTERLEAVE, _Set(tsg, level), f"level {level.name.lower()} for TSG {tsg}")

    def hold(self, tsg: int) -> None:
        """Keeps the driver from giving the TSG's number to another TSG, until `let_go` or until the node is closed.

        Raises RefusedError if there is no such TSG.
        """
        self._call(GET_TSG, _Number(tsg), f"a reference to TSG {tsg}")

    def let_go(self, tsg: int) -> None:
        """Undoes `hold`.  Raises RefusedError."""
        self._call(PUT_TSG, _Number(tsg), f"to let go of TSG {tsg}")
